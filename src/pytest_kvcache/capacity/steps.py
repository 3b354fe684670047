"""A number for every budget: piecewise linear, because blocks of a run fall in one behind the other."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Steps:
    """A function of the budget that never falls, given where its slope changes.

    Attributes:
        at: budgets in blocks, ascending, the first one 0.
        value: there.
        slope: what each further block brings from there on, until the next one.
    """

    at: array[int]
    value: array[int]
    slope: array[int]

    @classmethod
    def of(cls, changes: Mapping[int, int]) -> Steps:
        """Return the sum over distances: what lies at distance ``d`` counts at every budget of ``d`` blocks or more.

        Args:
            changes: by how much there is more at a distance, from 1, than at the one before.
        """
        at, value, slope = array("q", [0]), array("q", [0]), array("q", [0])
        for distance in sorted(changes):
            change = changes[distance]
            if not change:
                continue
            reached = value[-1] + slope[-1] * (distance - 1 - at[-1])
            if distance - 1 > at[-1]:
                at.append(distance - 1)
                value.append(reached)
                slope.append(slope[-1] + change)
            else:
                slope[-1] += change
        return cls(at, value, slope)

    def __call__(self, blocks: int) -> int:
        """Return the number at a budget."""
        knot = bisect_right(self.at, blocks) - 1
        return self.value[knot] + self.slope[knot] * (blocks - self.at[knot])

    @property
    def most(self) -> int:
        """The number at a budget without limit."""
        return self.value[-1]

    def reaches(self, number: int) -> int | None:
        """Return the smallest budget at which the number is reached; None when it never is."""
        if number > self.most:
            return None
        low, high = 0, len(self.at) - 1
        while low < high:  # the first knot that has it
            middle = (low + high) // 2
            if self.value[middle] >= number:
                high = middle
            else:
                low = middle + 1
        if low == 0:
            return 0
        before = low - 1
        return self.at[before] - (self.value[before] - number) // self.slope[before]
