"""A paged prefix cache and whom it evicts.

One structure serves prediction (unlimited) and the simulated engine (bounded): a map from block key to its entry in
recency order. A block may only be evicted when no cached block continues it (a leaf), otherwise its children would be
unreachable and still occupy space.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class PrefixCache:
    """Blocks by chained key, least recently used leaf first out.

    Args:
        capacity: blocks that fit; None for unlimited.
    """

    __slots__ = ("_children", "_parent", "_pinned", "capacity", "evictions")

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.evictions = 0
        self._parent: OrderedDict[int, int | None] = OrderedDict()  # least recently used first
        self._children: dict[int, int] = {}  # number of cached blocks that continue a block
        self._pinned: dict[int, int] = {}  # blocks in use by running requests

    def __len__(self) -> int:
        return len(self._parent)

    def __contains__(self, key: int) -> bool:
        return key in self._parent

    @property
    def in_use(self) -> int:
        """Blocks that running requests hold."""
        return len(self._pinned)

    def match(self, keys: Sequence[int]) -> int:
        """Return how many leading blocks of ``keys`` are cached. Changes nothing."""
        for depth, key in enumerate(keys):
            if key not in self._parent:
                return depth
        return len(keys)

    def insert(self, keys: Sequence[int]) -> None:
        """Cache every block of ``keys`` and mark all of them as just used, the head as the youngest.

        A block that finds no room (everything else is in use or has children) ends the insertion: what follows it
        could not be reached.
        """
        fitted = 0
        for depth, key in enumerate(keys):
            if key not in self._parent and not self._add(key, keys[depth - 1] if depth else None):
                break
            fitted = depth + 1
        for key in reversed(keys[:fitted]):  # tails age first, as vLLM frees a request's blocks in reverse order
            self._parent.move_to_end(key)

    def pin(self, keys: Sequence[int]) -> None:
        """Protect blocks of a running request from eviction until :meth:`unpin`."""
        for key in keys:
            self._pinned[key] = self._pinned.get(key, 0) + 1

    def unpin(self, keys: Sequence[int]) -> None:
        """Undo one :meth:`pin` of each block."""
        for key in keys:
            if self._pinned[key] == 1:
                del self._pinned[key]
            else:
                self._pinned[key] -= 1

    def clear(self) -> bool:
        """Forget everything; return False and keep all when blocks are in use."""
        if self._pinned:
            return False
        self._parent.clear()
        self._children.clear()
        return True

    def _add(self, key: int, parent: int | None) -> bool:
        if self.capacity is not None and len(self._parent) >= self.capacity and not self._evict(keep=parent):
            return False
        self._parent[key] = parent
        if parent is not None:
            self._children[parent] = self._children.get(parent, 0) + 1
        return True

    def _evict(self, keep: int | None) -> bool:
        for victim in self._parent:
            if victim != keep and victim not in self._children and victim not in self._pinned:
                break
        else:
            return False
        parent = self._parent.pop(victim)
        if parent is not None:
            if self._children[parent] == 1:
                del self._children[parent]
            else:
                self._children[parent] -= 1
        self.evictions += 1
        return True
