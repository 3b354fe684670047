"""Which budgets does a curve know? All of them, or those that were simulated."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from ..errors import TraceError
from .stack import StackPass
from .steps import Steps


class Everywhere(NamedTuple):
    """Every budget, from one pass.

    Attributes:
        tokens: hit tokens by budget.
        stored: blocks put into the cache by budget.
    """

    tokens: Steps
    stored: Steps

    @classmethod
    def of(cls, found: StackPass) -> Everywhere:
        """Return what a pass has found."""
        return cls(found.tokens, found.stored)

    @property
    def most(self) -> int:
        """Hit tokens without limit."""
        return self.tokens.most

    def hit_tokens(self, blocks: int) -> int:
        """Return the hit tokens at a budget."""
        return self.tokens(blocks)

    def evictions(self, blocks: int) -> int:
        """Return what was stored and is not there at the end."""
        return max(0, self.stored(blocks) - blocks)

    def reaches(self, tokens: int) -> int | None:
        """Return the smallest budget with so many hit tokens; None when there is none."""
        return self.tokens.reaches(tokens)

    def nearest(self, blocks: int) -> int:
        """Return the budget itself."""
        return blocks


class Point(NamedTuple):
    """One budget that was simulated.

    Attributes:
        blocks: the budget.
        hit_tokens: at it.
        evictions: blocks that had to go.
    """

    blocks: int
    hit_tokens: int
    evictions: int


class Points(NamedTuple):
    """Single budgets; and all from which on nothing ever has to go, because every block of the trace has its place.

    Attributes:
        points: ascending; the last one holds every block.
        policy: that was simulated.
    """

    points: tuple[Point, ...]
    policy: str

    @classmethod
    def of(cls, points: Iterable[Point], *, policy: str, most: int, blocks: int) -> Points:
        """Return the points, and behind them the budget of all ``blocks``, which has the ``most`` hit tokens."""
        inner = {point.blocks: point for point in points if point.blocks < blocks}
        return cls((*(inner[at] for at in sorted(inner)), Point(blocks, most, 0)), policy)

    @property
    def most(self) -> int:
        """Hit tokens without limit."""
        return self.points[-1].hit_tokens

    def hit_tokens(self, blocks: int) -> int:
        """Return the hit tokens at a budget; TraceError when it was not simulated."""
        return self._point(blocks).hit_tokens

    def evictions(self, blocks: int) -> int:
        """Return the blocks that had to go; TraceError when the budget was not simulated."""
        return self._point(blocks).evictions

    def reaches(self, tokens: int) -> int | None:
        """Return the smallest simulated budget with so many hit tokens; None when there is none."""
        return next((point.blocks for point in self.points if point.hit_tokens >= tokens), None)

    def nearest(self, blocks: int) -> int:
        """Return the smallest simulated budget from ``blocks`` on; the largest where there is none."""
        return self.points[min(self._place(blocks), len(self.points) - 1)].blocks

    def _place(self, blocks: int) -> int:
        return bisect_left(self.points, (blocks,))

    def _point(self, blocks: int) -> Point:
        at = self._place(blocks)
        if at == len(self.points):
            return self.points[-1]
        if self.points[at].blocks == blocks:
            return self.points[at]
        near = " and ".join(f"{point.blocks:,}" for point in self.points[max(0, at - 1) : at + 1])
        raise TraceError(
            f"{blocks:,} blocks were not simulated; the nearest budgets that were: {near}. A curve of {self.policy} is "
            f"known where it was simulated (lru is known everywhere): trace.simulate({self.policy!r}, blocks={blocks}) "
            f"or trace.sweep({self.policy!r}, budgets=[..., {blocks}])"
        )
