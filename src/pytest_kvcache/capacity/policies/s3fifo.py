"""Three static queues: a small one for what is new, a main one for what was used again, and a memory of what left."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from .cache import Cache, Evicted

_MOST_HITS = 3  # two bits a block
_NONE = -1


class S3FIFO(Cache):
    """S3-FIFO (Yang et al., FIFO queues are all you need for cache eviction, SOSP 2023), for blocks that need prefixes.

    As published: new blocks enter the small queue, a tenth of the room; when that is over its share its oldest block
    moves to the main queue if it was hit more than once, else it leaves and is remembered in the ghost queue, which has
    as many entries as the main queue. Remembered blocks enter the main queue at once. The oldest block of the main
    queue goes round again, with one hit less, until it has none; hits are counted up to three.

    What the prefix rule adds: a block that cached blocks continue is never a victim, since without it those could not
    be reached. It waits at the old end of its queue until they have gone, so the victim is always a leaf. New blocks of
    one request enter the tail first. If one queue has no leaf to give, the other one gives. A request's own blocks
    never make room for it; of one that is larger than the cache the first blocks stay.
    """

    __slots__ = ("_behind", "_ghost", "_hits", "_main", "_parents", "_share", "_small", "_waiting")

    def __init__(self, room: int, costs: Sequence[int]) -> None:
        super().__init__(room, costs)
        self._share = room // 10
        self._small, self._main, self._ghost = _Queue(), _Queue(), _Queue()
        self._hits: dict[int, int] = {}
        self._parents: dict[int, int] = {}
        self._behind: dict[int, int] = {}  # cached blocks that continue a block
        self._waiting: dict[int, _Queue] = {}  # for what is behind them: they have room in a queue and no place

    def admit(self, path: Sequence[int], now: int) -> list[Evicted]:
        """Count hits, and let what is missing enter a queue."""
        own = self.fitting(path)
        if not own:
            return []
        known = self.leading(own)
        for block in own[:known]:
            self._hits[block] = min(_MOST_HITS, self._hits[block] + 1)
        for depth in range(len(own) - 1, known - 1, -1):
            self._enter(own[depth], own[depth - 1] if depth else _NONE, now)
        self._link(own[-1], 1)  # as if something were behind it: what is before it is protected by it
        evicted = []
        while self.used > self.room:
            evicted.append(self._evict())
        self._link(own[-1], -1)
        return evicted

    def _enter(self, block: int, parent: int, now: int) -> None:
        cost = self.costs[block]
        if block in self._ghost.blocks:
            self._ghost.remove(block, cost)
            self._main.append(block, cost)
        else:
            self._small.append(block, cost)
        self.held[block] = now
        self.used += cost
        self._hits[block] = 0
        self._parents[block] = parent
        self._link(parent, 1)

    def _evict(self) -> Evicted:
        block = self._leaf_of_small() if self._small.used > self._share else _NONE
        if block == _NONE:
            block = self._leaf_of_main()
        if block == _NONE:
            block = self._leaf_of_small()
        self.used -= self.costs[block]
        del self._hits[block]
        self._link(self._parents.pop(block), -1)
        return block, self.held.pop(block)

    def _leaf_of_small(self) -> int:
        small = self._small
        while small.blocks:
            block = small.oldest()
            cost = self.costs[block]
            if self._hits[block] > 1:
                small.remove(block, cost)
                self._main.append(block, cost)
                self._hits[block] = 0
            elif block in self._behind:
                self._wait(block, small)
            else:
                small.remove(block, cost)
                self._remember(block, cost)
                return block
        return _NONE

    def _leaf_of_main(self) -> int:
        main = self._main
        while main.blocks:
            block = main.oldest()
            if block in self._behind:
                self._wait(block, main)
            elif self._hits[block]:
                self._hits[block] -= 1
                main.blocks.move_to_end(block)
            else:
                main.remove(block, self.costs[block])
                return block
        return _NONE

    def _remember(self, block: int, cost: int) -> None:
        ghost = self._ghost
        ghost.append(block, cost)
        while ghost.used > self.room - self._share:
            oldest = ghost.oldest()
            ghost.remove(oldest, self.costs[oldest])

    def _wait(self, block: int, queue: _Queue) -> None:
        del queue.blocks[block]
        self._waiting[block] = queue

    def _link(self, parent: int, change: int) -> None:
        behind = self._behind.get(parent, 0) + change
        if behind:
            self._behind[parent] = behind
            return
        del self._behind[parent]
        queue = self._waiting.pop(parent, None)
        if queue is not None:
            queue.blocks[parent] = None
            queue.blocks.move_to_end(parent, last=False)


class _Queue:
    """Blocks in the order in which they came, and the room they take."""

    __slots__ = ("blocks", "used")

    def __init__(self) -> None:
        self.blocks: OrderedDict[int, None] = OrderedDict()
        self.used = 0

    def append(self, block: int, cost: int) -> None:
        self.blocks[block] = None
        self.used += cost

    def remove(self, block: int, cost: int) -> None:
        del self.blocks[block]
        self.used -= cost

    def oldest(self) -> int:
        return next(iter(self.blocks))
