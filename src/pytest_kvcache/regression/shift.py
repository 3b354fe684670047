"""By how much does one set of values lie above another, and how sure is that? Hodges-Lehmann, exactly. Pure.

The estimate is the median of all pairwise differences, or quotients, of the two sets; its interval lies between those
pairs that the exact distribution of the Mann-Whitney statistic does not reject (Hodges and Lehmann, Annals of
Mathematical Statistics 34, 1963; Hollander and Wolfe, Nonparametric Statistical Methods, 1999, 4.2 and 4.3). Quotients
are differences of logarithms: their ranks are the same, and nothing is taken of the logarithm of 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from . import ranks


@dataclass(frozen=True, slots=True)
class Shift:
    """How far the second set lies from the first.

    Attributes:
        change: second - first, or second / first; infinite where there was nothing.
        low / high: ends of the interval, each wrong with the probability ``alpha`` at most; None: open.
    """

    change: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, first: Sequence[float], second: Sequence[float], alpha: float, *, relative: bool) -> Shift:
        """Return the shift of ``second`` against ``first``, at least one finite value of 0 or more in each.

        Args:
            first / second: the values.
            alpha: how often each end may be wrong; the whole interval holds with 1 - 2 * alpha.
            relative: quotients instead of differences.
        """
        pairs = sorted(_quotient(x, y) if relative else y - x for x in first for y in second)
        outside = ranks.critical(len(first), len(second), alpha)
        if outside is None:
            return cls(_median(pairs, relative=relative), None, None)
        return cls(_median(pairs, relative=relative), pairs[outside], pairs[-1 - outside])


def _quotient(x: float, y: float) -> float:
    """Return y / x; nothing against nothing is no change."""
    if x == y:
        return 1.0
    return y / x if x else math.inf


def _median(pairs: Sequence[float], *, relative: bool) -> float:
    low, high = pairs[(len(pairs) - 1) // 2], pairs[len(pairs) // 2]
    if low == high:
        return low
    if not relative:
        return (low + high) / 2
    return math.sqrt(low) * math.sqrt(high)  # never of 0 and infinity: between them stands nothing against nothing
