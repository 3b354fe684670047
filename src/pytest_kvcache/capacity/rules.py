"""What of a prompt is cached, and what of it can hit?"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..errors import TraceError
from ..rows import Row


@dataclass(frozen=True, slots=True)
class Rules:
    """How a cache keeps blocks and gives credit for them.

    Attributes:
        partial: the last, partial block of a prompt is cached, and hits when its id comes again.
        last_token: a prompt that is cached whole hits to its last token; else that one is always computed, and with it
            its block.
        match: hit tokens are those of the leading run of cached blocks, or (``any``) of every cached block.
        charge: a block takes one slot of the budget whatever it holds, or as much as it has ``tokens``.
        ages: of the blocks of one request, the tail is the oldest, so that the victim is always a leaf; or the head is.
    """

    partial: bool = True
    last_token: bool = True
    match: Literal["prefix", "any"] = "prefix"
    charge: Literal["block", "tokens"] = "block"
    ages: Literal["tail_first", "head_first"] = "tail_first"


REFERENCE = Rules()
"""A trace's ids say it all: a partial block is a block like any other."""

ENGINE = Rules(partial=False, last_token=False)
"""What engines do: full blocks only, and at most L-1 tokens of a prompt (vLLM 0.32, SGLang 0.5)."""

_NAMED = {"reference": REFERENCE, "engine": ENGINE}


def rules_of(given: str | Rules) -> Rules:
    """Return rules by their name.

    Raises:
        TraceError: no rules have it.
    """
    if isinstance(given, Rules):
        return given
    if given not in _NAMED:
        raise TraceError(f"rules={given!r}: expected {', '.join(map(repr, _NAMED))} or Rules(...)")
    return _NAMED[given]


class Portion(NamedTuple):
    """What of one request is cached.

    Attributes:
        ids: its blocks.
        full: so many first blocks hold ``block_size`` tokens each.
        rest: tokens that each block behind them counts for when it hits.
    """

    ids: array[int]
    full: int
    rest: tuple[int, ...]


def portion(row: Row, block_size: int, rules: Rules) -> Portion:
    """Return what of a request is cached: block ``i`` weighs ``max(0, min(B, L - i*B))`` tokens, or as the row says.

    Ids beyond the prompt's end stand for no tokens and are left out.
    """
    ids, length = row.ids, row.input_length
    if row.weights is not None:
        return _weighed(ids, row.weights, length, block_size, rules)
    full, tail = divmod(length, block_size)
    if len(ids) <= full:
        if rules.last_token or tail or len(ids) < full:
            return Portion(ids, len(ids), ())
        return Portion(ids, full - 1, (0,))  # cached, but a prompt that ends with it computes it again
    if rules.partial and tail:
        return Portion(ids if len(ids) == full + 1 else ids[: full + 1], full, (tail if rules.last_token else 0,))
    if rules.last_token or tail:
        return Portion(ids[:full], full, ())
    return Portion(ids[:full], full - 1, (0,))


def _weighed(ids: array[int], weights: array[int], length: int, block_size: int, rules: Rules) -> Portion:
    kept = len(ids)
    if not rules.partial:
        kept = next((at for at, weight in enumerate(weights) if weight < block_size), kept)
    full = next((at for at in range(kept) if weights[at] != block_size), kept)
    rest = list(weights[full:kept])
    if not rules.last_token and sum(weights[:kept]) == length:
        if rest:
            rest[-1] = 0
        elif full:
            full, rest = full - 1, [0]
    return Portion(ids[:kept], full, tuple(rest))
