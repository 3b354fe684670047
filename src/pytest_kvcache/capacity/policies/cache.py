"""What every policy has: blocks that are held, by number, and the room for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

Evicted = tuple[int, int]
"""A block that had to go, and the number of the request that had brought it."""


class Cache(ABC):
    """A cache of bounded room, asked once per request and then given all of the request's blocks.

    A path is the blocks of one request, first block first. Numbers ascend along it, and a block is only ever on a path
    together with all that is before it.

    Args:
        room: what fits.
        costs: what each block takes of it, by number; read when needed, since it grows with the trace.

    Attributes:
        held: number of the request that brought each cached block.
        used: room that is taken.
    """

    __slots__ = ("costs", "held", "room", "used")

    def __init__(self, room: int, costs: Sequence[int]) -> None:
        self.room = room
        self.costs = costs
        self.used = 0
        self.held: dict[int, int] = {}

    def leading(self, path: Sequence[int]) -> int:
        """Return how many first blocks are cached. Changes nothing."""
        held = self.held
        for depth, block in enumerate(path):
            if block not in held:
                return depth
        return len(path)

    def anywhere(self, path: Sequence[int]) -> list[int]:
        """Return the places of all blocks that are cached. Changes nothing."""
        held = self.held
        return [depth for depth, block in enumerate(path) if block in held]

    @abstractmethod
    def admit(self, path: Sequence[int], now: int) -> list[Evicted]:
        """Take in a request after its look-up.

        Args:
            path: its blocks.
            now: its number.

        Returns:
            Blocks that were evicted for it.
        """

    def fitting(self, path: Sequence[int]) -> Sequence[int]:
        """Return the first blocks of a path as far as there is room for them in an empty cache."""
        costs = list(map(self.costs.__getitem__, path))
        if sum(costs) <= self.room:
            return path
        return path[: bisect_right(list(accumulate(costs)), self.room)]


class Unlimited(Cache):
    """Room for everything."""

    __slots__ = ()

    def admit(self, path: Sequence[int], now: int) -> list[Evicted]:
        """Keep all."""
        for block in path:
            self.held.setdefault(block, now)
        return []
