"""Look-ups to what one cache of a known size reuses of them, request by request. Pure.

Exactly what the simulated engine does when its requests come one after the other: full blocks of prompts and answers
are kept, the KV of an answer's last token is never computed, the least recently used block that no other continues goes
first, and a request's own blocks stay while it runs. vLLM 0.32 does the same, except that the partly filled last block
of a request takes a place while it runs, so that at times one block more is gone (measured on 99 blocks of 32 tokens:
5 of 80 requests hit one block less than here, none hit more).

Requests that overlap on the server are replayed in the order in which they were sent; what runs at once and holds
blocks meanwhile is not modelled.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

from ..model import Grain, Lookup, Prediction
from .blocks import block_keys
from .policies import PrefixCache
from .replay import Hit, UnlimitedCache, Untold, predict


def predict_bounded(
    load: Sequence[Lookup],
    grain: Grain,
    capacity: int | None,
    *,
    prefill: Sequence[Lookup] = (),
    warmed: Sequence[Lookup] = (),
    exact: bool = True,
) -> Prediction:
    """Replay look-ups through a cache that holds so many tokens, every request after the one before it.

    Nothing is replayed block by block when all of it fits.

    Args:
        load: measured, in the order in which they were sent.
        grain: how the cache gives credit; its blocks are what is kept and evicted.
        capacity: tokens; None: unlimited.
        prefill: sent before, not measured.
        warmed: cached before that.
        exact: False when the grain is only a bound.
    """
    everything = UnlimitedCache(grain)
    found = predict(load, grain, prefill=prefill, warmed=warmed, exact=exact, cache=everything)
    if capacity is None:
        return found
    blocks = capacity // grain.block
    if everything.blocks > blocks:
        cache = BoundedCache(grain, blocks)
        found = predict(load, grain, prefill=prefill, warmed=warmed, exact=exact, cache=cache)
    return replace(found, capacity=capacity)


class BoundedCache:
    """Keeps so many full blocks of prompts and answers, the most recently used ones."""

    def __init__(self, grain: Grain, blocks: int) -> None:
        self.grain = grain
        self._cache = PrefixCache(blocks)
        self._answers = Untold(grain)

    def look_up(self, lookup: Lookup) -> Hit:
        """Return the hit tokens of a prompt, and keep its blocks and those of its output."""
        length, block = len(lookup.ids), self.grain.block
        keys = _keys(lookup, block)
        reached = self._cache.match(keys) * block
        tokens = self.grain.credit(reached, length)
        # At once what an engine does in two steps, at admission and at the end: nothing comes in between, and in
        # either way the blocks of this request are in use, so that others are evicted in the same order.
        self._cache.insert(keys)
        framed = self.grain.credit(reached + block - 1 + lookup.open, length) - tokens if lookup.open else 0
        return Hit(tokens, max(framed, self._answers.room(lookup, tokens)))


def _keys(lookup: Lookup, block: int) -> list[int]:
    """Return the keys of all full blocks of a prompt and its answer, whose last token has no KV.

    An answer that nobody told fills blocks that no prompt has; the same prompt is answered by the same tokens
    (requests that are composed ask for a temperature of 0), so it fills them once.
    """
    ids = lookup.ids
    if len(lookup.output) > 1:
        ids = array("I", lookup.ids) + array("I", lookup.output[:-1])
    keys = block_keys(ids, block, lookup.space)
    known = len(keys)
    filled = (len(ids) + max(0, lookup.untold - 1)) // block
    answer = hash(("answer", keys[-1] if keys else lookup.space, tuple(ids[known * block :]))) if filled > known else 0
    return keys + [hash((answer, number)) for number in range(filled - known)]
