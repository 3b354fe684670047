"""First in, first out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from .cache import Cache, Evicted


class FIFO(Cache):
    """Evicts what was brought longest ago; a hit changes nothing.

    Blocks come one by one, the head first, and each makes room for itself: by a block of its own request too, and by
    one that others continue. What is behind a missing block cannot be reached until that one is computed again.
    """

    __slots__ = ("_queue",)

    def __init__(self, room: int, costs: Sequence[int]) -> None:
        super().__init__(room, costs)
        self.held = self._queue = OrderedDict[int, int]()

    def admit(self, path: Sequence[int], now: int) -> list[Evicted]:
        """Append the blocks that are missing."""
        queue, costs, used, room = self._queue, self.costs, self.used, self.room
        evicted = []
        for block in path:
            cost = costs[block]
            if block in queue or cost > room:
                continue
            used += cost
            while used > room:
                oldest = queue.popitem(last=False)
                used -= costs[oldest[0]]
                evicted.append(oldest)
            queue[block] = now
        self.used = used
        return evicted
