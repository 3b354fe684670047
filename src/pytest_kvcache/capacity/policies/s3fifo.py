"""Three static queues: a small one for what is new, a main one for what was used again, and a memory of what left."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from .cache import Cache, Evicted

_MOST_HITS = 3  # two bits a block


class S3FIFO(Cache):
    """S3-FIFO (Yang et al., FIFO queues are all you need for cache eviction, SOSP 2023), for blocks that need prefixes.

    As published: new blocks enter the small queue, a tenth of the room; when that is over its share its oldest block
    moves to the main queue if it was hit more than once, else it leaves and is remembered in the ghost queue, which has
    as many entries as the main queue. Remembered blocks enter the main queue at once. The oldest block of the main
    queue goes round again, with one hit less, until it has none; hits are counted up to three.

    What the prefix rule adds: a block that cached blocks continue is never a victim, but goes round again with its
    hits, since without it those could not be reached; so the victim is always a leaf. New blocks of one request enter
    the tail first. If one queue has no leaf to give, the other one gives. A request's own blocks never make room for
    it; of one that is larger than the cache the first blocks stay.
    """

    __slots__ = ("_behind", "_ghost", "_hits", "_main", "_parents", "_share", "_small")

    def __init__(self, room: int, costs: Sequence[int]) -> None:
        super().__init__(room, costs)
        self._share = room // 10
        self._small, self._main, self._ghost = _Queue(costs), _Queue(costs), _Queue(costs)
        self._hits: dict[int, int] = {}
        self._parents: dict[int, int] = {}
        self._behind: dict[int, int] = {}  # cached blocks that continue a block

    def admit(self, path: Sequence[int], now: int) -> list[Evicted]:
        """Count hits, and let what is missing enter a queue."""
        own = self.fitting(path)
        if not own:
            return []
        known = self.leading(own)
        for block in own[:known]:
            self._hits[block] = min(_MOST_HITS, self._hits[block] + 1)
        for depth in range(len(own) - 1, known - 1, -1):
            self._enter(own[depth], own[depth - 1] if depth else -1, now)
        self._link(own[-1], 1)  # whatever is before it is protected by it
        evicted = []
        while self.used > self.room:
            evicted.append(self._evict())
        self._link(own[-1], -1)
        return evicted

    def _enter(self, block: int, parent: int, now: int) -> None:
        remembered = block in self._ghost.blocks
        if remembered:
            self._ghost.remove(block)
        (self._main if remembered else self._small).append(block)
        self.held[block] = now
        self.used += self.costs[block]
        self._hits[block] = 0
        self._parents[block] = parent
        self._link(parent, 1)

    def _evict(self) -> Evicted:
        if self._small.used > self._share:
            block = self._leaf_of_small()
            if block < 0:
                block = self._leaf_of_main()
        else:
            block = self._leaf_of_main()
            if block < 0:
                block = self._leaf_of_small()
        self.used -= self.costs[block]
        del self._hits[block]
        self._link(self._parents.pop(block), -1)
        return block, self.held.pop(block)

    def _leaf_of_small(self) -> int:
        small, passed = self._small, 0
        while passed < len(small.blocks):
            block = small.oldest()
            if self._hits[block] > 1:
                small.remove(block)
                self._main.append(block)
                self._hits[block] = 0
            elif block in self._behind:
                small.again(block)
                passed += 1
            else:
                small.remove(block)
                self._remember(block)
                return block
        return -1

    def _leaf_of_main(self) -> int:
        main, passed = self._main, 0
        while passed < len(main.blocks):
            block = main.oldest()
            if block in self._behind:
                main.again(block)
                passed += 1
            elif self._hits[block]:
                self._hits[block] -= 1
                main.again(block)
                passed = 0
            else:
                main.remove(block)
                return block
        return -1

    def _remember(self, block: int) -> None:
        self._ghost.append(block)
        while self._ghost.used > self.room - self._share:
            self._ghost.remove(self._ghost.oldest())

    def _link(self, parent: int, change: int) -> None:
        behind = self._behind.get(parent, 0) + change
        if behind:
            self._behind[parent] = behind
        else:
            del self._behind[parent]


class _Queue:
    """Blocks in the order in which they came, and what they cost."""

    __slots__ = ("blocks", "costs", "used")

    def __init__(self, costs: Sequence[int]) -> None:
        self.blocks: OrderedDict[int, None] = OrderedDict()
        self.costs = costs
        self.used = 0

    def append(self, block: int) -> None:
        self.blocks[block] = None
        self.used += self.costs[block]

    def remove(self, block: int) -> None:
        del self.blocks[block]
        self.used -= self.costs[block]

    def oldest(self) -> int:
        return next(iter(self.blocks))

    def again(self, block: int) -> None:
        self.blocks.move_to_end(block)
