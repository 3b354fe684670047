"""Least frequently used."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Sequence

from .cache import Cache, Evicted


class LFU(Cache):
    """Evicts what was used by the fewest requests since it came; of those, what was used longest ago.

    The frequency of a block is forgotten with the block. A block is used whenever one behind it is, and the tail of a
    request is older than its head, so what goes first is always a leaf. A request's own blocks never make room for it;
    of one that is larger than the cache the first blocks stay.
    """

    __slots__ = ("_often", "_uses")

    def __init__(self, room: int, costs: Sequence[int]) -> None:
        super().__init__(room, costs)
        self._uses: dict[int, int] = {}
        self._often: dict[int, OrderedDict[int, None]] = defaultdict(OrderedDict)  # by uses, longest unused first

    def admit(self, path: Sequence[int], now: int) -> list[Evicted]:
        """Count a use of each block; new ones begin with one."""
        own = self.fitting(path)
        for block in own:
            if block in self.held:
                self._take(block)
            else:
                self.used += self.costs[block]
        evicted = self._make_room()  # never one of its own: those are taken out
        for block in reversed(own):
            self.held.setdefault(block, now)
            uses = self._uses[block] = self._uses.get(block, 0) + 1
            self._often[uses][block] = None
        return evicted

    def _make_room(self) -> list[Evicted]:
        evicted = []
        while self.used > self.room:
            fewest = min(self._often)
            blocks = self._often[fewest]
            while blocks and self.used > self.room:
                block, _ = blocks.popitem(last=False)
                del self._uses[block]
                self.used -= self.costs[block]
                evicted.append((block, self.held.pop(block)))
            if not blocks:
                del self._often[fewest]
        return evicted

    def _take(self, block: int) -> None:
        uses = self._uses[block]
        equals = self._often[uses]
        del equals[block]
        if not equals:
            del self._often[uses]
