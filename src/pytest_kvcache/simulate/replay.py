"""Look-ups to prediction: what a cache reuses, request by request; one that is unlimited, unless another is given."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from typing import NamedTuple, Protocol

from ..model import Grain, Lookup, Prediction
from .tree import PrefixTree, common_prefix

_CHANCE = 8  # tokens that two random rests may have in common: of 1,000 words, once in 10**24 pairs


class Hit(NamedTuple):
    """What one look-up reuses: so many tokens, and at most ``room`` more where tokens or their places are not known."""

    tokens: int
    room: int


class Cache(Protocol):
    """What look-ups are replayed through."""

    def look_up(self, lookup: Lookup) -> Hit:
        """Return the hit tokens of a prompt, and remember it with its output."""


def predict(
    load: Iterable[Lookup],
    grain: Grain,
    *,
    prefill: Iterable[Lookup] = (),
    warmed: Iterable[Lookup] = (),
    exact: bool,
    cache: Cache | None = None,
) -> Prediction:
    """Replay look-ups through a cache, every request after the one before it.

    Order among the measured requests matters only where they share more than was warmed; a real engine admits them in
    nearly that order and lets concurrent identical prompts hit the first one's blocks (vLLM 0.32, 27 bursts).

    Args:
        load: measured, in the order in which they were sent.
        grain: how the cache gives credit.
        prefill: sent before, not measured.
        warmed: cached before that.
        exact: False when the grain is only a bound.
        cache: that gives credit in this grain; None: an unlimited one.
    """
    cache = cache or UnlimitedCache(grain)
    for lookup in warmed:
        cache.look_up(lookup)
    prefill_hit = sum(sum(cache.look_up(lookup)) for lookup in prefill)
    hits, rooms, query = array("q"), array("q"), 0
    for lookup in load:
        tokens, room = cache.look_up(lookup)
        hits.append(tokens)
        rooms.append(room)
        query += len(lookup.ids)
    slack = sum(rooms)
    return Prediction(
        hit_tokens=sum(hits),
        query_tokens=query,
        per_request=tuple(hits),
        block_size=grain.block,
        exact=exact,
        slack=slack,
        room=tuple(rooms) if slack else (),
        prefill_hit_tokens=prefill_hit,
    )


class UnlimitedCache:
    """Remembers every prefix of every prompt, and what was generated after it.

    Attributes:
        blocks: that it took so far; where an answer is not known and came twice, it counts twice.
    """

    def __init__(self, grain: Grain) -> None:
        self.grain = grain
        self.blocks = 0
        self._trees: dict[Hashable, PrefixTree] = {}
        self._answers = Untold(grain)

    def look_up(self, lookup: Lookup) -> Hit:
        """Return the hit tokens of a prompt, and remember it with its output."""
        tree = self._trees.setdefault(lookup.space, PrefixTree())
        shared, length = self._remembered(tree, lookup), len(lookup.ids)
        self._count(shared, length)
        tokens = self.grain.credit(shared, length)
        if len(lookup.output) > 1:  # the KV of the last generated token is never computed
            content = array("I", lookup.ids) + array("I", lookup.output[:-1])
            self._count(tree.insert(content), len(content))
        self._count(length, length + max(0, lookup.untold - 1))
        framed = self.grain.credit(shared + lookup.open, length) - tokens
        return Hit(tokens, max(framed, self._answers.room(lookup, tokens)))

    def _remembered(self, tree: PrefixTree, lookup: Lookup) -> int:
        """Keep a prompt and return what it shares with those before it.

        What nobody else can share enough of to be credited is not kept: the memory of a long run is that of its shared
        prefixes.
        """
        if lookup.alone is None or lookup.open or lookup.output:
            return tree.insert(lookup.ids)
        reach, shared = lookup.alone + _CHANCE, tree.match(lookup.ids)
        if self._credit(reach) > self._credit(shared):
            tree.insert(lookup.ids[:reach])
        return shared

    def _credit(self, shared: int) -> int:
        return self.grain.credit(shared, shared + self.grain.block)

    def _count(self, known: int, length: int) -> None:
        self.blocks += length // self.grain.block - known // self.grain.block


class Untold:
    """Answers that nobody told: the next turn of their session may say them as they were generated."""

    def __init__(self, grain: Grain) -> None:
        self._grain = grain
        self._before: dict[int, Lookup] = {}  # the last look-up of each session whose output is not known

    def room(self, lookup: Lookup, tokens: int) -> int:
        """Return what more may hit if the previous answer's tokens stand in this prompt as they were generated."""
        if lookup.session is None:
            return 0
        before = self._before.pop(lookup.session, None)
        if lookup.untold:
            self._before[lookup.session] = lookup
        if before is None or common_prefix(before.ids, lookup.ids) < len(before.ids):
            return 0
        most = len(before.ids) + max(0, before.untold - 1)
        return max(0, self._grain.credit(most, len(lookup.ids)) - tokens)
