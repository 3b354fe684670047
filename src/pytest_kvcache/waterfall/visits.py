"""Who looked up what, and when: look-ups and exchanges as paths over the runs of tokens that requests share.

All prompts go into one radix tree first. Where two of them part, a run of tokens ends; so a request is a handful of
runs, whatever its length, and everything after this file is arithmetic on runs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..lookups import may_be_cached
from ..model import Exchange, Lookup, Measurement
from ..reconcile import prompt_tokens
from ..simulate.tree import Node, PrefixTree


class Run(NamedTuple):
    """Tokens ``start`` to ``end`` of a prompt; two prompts have a run of one key when they share all up to its end."""

    key: Hashable
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Visit:
    """One request to the cache. Moments are monotonic seconds, minus infinity when they do not matter.

    Attributes:
        lookup: its tokens.
        prompt: the runs that are looked up, head first.
        content: the runs that are cached once it is answered, those of ``prompt`` first.
        sent / ready / end: when it was sent, when its prompt was computed at the latest, when all of it was.
        exchange: None when an earlier run sent it.
        at: its place among the measured requests; None when it is not measured: it warms, failed, or bypasses.
    """

    lookup: Lookup
    prompt: tuple[Run, ...]
    content: tuple[Run, ...]
    sent: float = -math.inf
    ready: float = -math.inf
    end: float = -math.inf
    exchange: Exchange | None = None
    at: int | None = None

    @property
    def length(self) -> int:
        """Tokens of the prompt."""
        return len(self.lookup.ids)

    @property
    def looked_up(self) -> int:
        """Tokens of the prompt as the server counts them."""
        return (prompt_tokens(self.exchange) if self.exchange else 0) or self.length

    @property
    def otherwise(self) -> bool:
        """True when the server counted another prompt length than these tokens have."""
        told = self.exchange.prompt_tokens if self.exchange else None
        return told is not None and told != self.length


class _Asked(NamedTuple):
    lookup: Lookup
    exchange: Exchange | None
    at: int | None


def trace(
    measured: Measurement, load: Sequence[Lookup], prefill: Sequence[Lookup] = (), warmed: Sequence[Lookup] = ()
) -> list[Visit]:
    """Return every visit in order of sending: what was cached before, what warms, what is measured.

    A failed request is no measured visit. It still leaves its prompt in the cache, unless the server refused it.
    """
    asked = [_Asked(lookup, None, None) for lookup in warmed]
    exchanges = measured.prefill if len(measured.prefill) == len(prefill) else (None,) * len(prefill)
    asked += _in_order(_Asked(*pair, None) for pair in zip(prefill, exchanges, strict=True))
    asked += _in_order(_attempts(load, measured.exchanges))
    asked = [one for one in asked if one.lookup.ids and may_be_cached(one.exchange)]
    trees: dict[Hashable, PrefixTree] = {}
    for one in asked:
        tree = trees.setdefault(one.lookup.space, PrefixTree())
        tree.insert(one.lookup.ids)
        if len(one.lookup.output) > 1:
            tree.insert(_content(one.lookup))
    return [_visit(one, trees[one.lookup.space], number) for number, one in enumerate(asked)]


def _attempts(load: Sequence[Lookup], exchanges: Sequence[Exchange]) -> Iterator[_Asked]:
    for at, (lookup, exchange) in enumerate(zip(load, exchanges, strict=True)):
        yield from (_Asked(lookup, attempt, None) for attempt in exchange.earlier)  # a retry finds what they computed
        yield _Asked(lookup, exchange, at)


def _in_order(asked: Iterable[_Asked]) -> list[_Asked]:
    def sent(one: _Asked) -> float:
        return math.inf if one.exchange is None or one.exchange.sent is None else one.exchange.sent

    return sorted(asked, key=sent)


def _content(lookup: Lookup) -> Sequence[int]:
    """Return the tokens with KV once a look-up is answered: that of the last generated one is never computed."""
    return [*lookup.ids, *lookup.output[:-1]] if len(lookup.output) > 1 else lookup.ids


def _visit(asked: _Asked, tree: PrefixTree, number: int) -> Visit:
    lookup, exchange = asked.lookup, asked.exchange
    content = _content(lookup)
    runs = tuple(_runs(tree.path(content)))
    prompt = tuple(run for run in runs if run.end <= len(lookup.ids))
    if not lookup.output:  # what is not known token by token takes up room all the same
        generated = lookup.untold or (exchange.completion_tokens if exchange else None) or 0
        if generated > 1:
            runs = (*runs, Run(("generated", number), len(content), len(content) + generated - 1))
    if exchange is None:
        return Visit(lookup, prompt, runs)
    counted = exchange.ok and exchange.lookups == 1
    return Visit(
        lookup,
        prompt,
        runs,
        sent=exchange.sent if exchange.sent is not None else -math.inf,
        ready=exchange.first_content if exchange.first_content is not None else exchange.end,
        end=exchange.end,
        exchange=exchange,
        at=asked.at if counted else None,
    )


def _runs(nodes: Iterable[Node]) -> Iterator[Run]:
    depth = 0
    for node in nodes:
        yield Run(node, depth, depth + len(node.run))
        depth += len(node.run)
