"""A number for every budget: piecewise linear, because blocks of a run fall in one behind the other."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from operator import mul, sub
from typing import NamedTuple


class Steps(NamedTuple):
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
        distances = sorted(distance for distance, change in changes.items() if change)
        at = [distance - 1 for distance in distances]  # the first block to have it is one further
        slope = list(accumulate(map(changes.__getitem__, distances)))
        if not at or at[0]:
            at, slope = [0, *at], [0, *slope]
        value = accumulate(map(mul, slope, map(sub, at[1:], at)), initial=0)
        return cls(array("q", at), array("q", value), array("q", slope))

    def changes(self) -> dict[int, int]:
        """Return what :meth:`of` makes these from."""
        slopes = [0, *self.slope]
        return {at + 1: after - before for at, before, after in zip(self.at, slopes, self.slope, strict=False)}

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
