"""Least recently used."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from .cache import Cache, Evicted


class LRU(Cache):
    """Evicts what was used longest ago.

    Of the blocks of one request the tail is the oldest, so what goes first is always a leaf: nothing is cached behind a
    block that is missing. A request's own blocks never make room for it; of one that is larger than the cache the first
    blocks stay.
    """

    __slots__ = ("_recent",)

    def __init__(self, room: int, costs: Sequence[int]) -> None:
        super().__init__(room, costs)
        self.held = self._recent = OrderedDict[int, int]()  # longest unused first

    def admit(self, path: Sequence[int], now: int) -> list[Evicted]:
        """Make a request's blocks the most recent ones."""
        recent, costs, used = self._recent, self.costs, self.used
        for block in self._oldest_first(self.fitting(path)):
            if block in recent:
                recent.move_to_end(block)
            else:
                recent[block] = now
                used += costs[block]
        evicted = []
        while used > self.room:
            oldest = recent.popitem(last=False)
            used -= costs[oldest[0]]
            evicted.append(oldest)
        self.used = used
        return evicted

    def _oldest_first(self, path: Sequence[int]) -> Sequence[int]:
        return path[::-1]


class HeadFirstLRU(LRU):
    """LRU in which the head of a request is its oldest block: it may go while what continues it stays, unreachable."""

    __slots__ = ()

    def _oldest_first(self, path: Sequence[int]) -> Sequence[int]:
        return path
