"""How likely is it that one set of values lies so far above another by chance alone? Mann-Whitney, exactly. Pure.

The statistic is U, the number of pairs (one value of each set) in which the value of the second set is the greater,
ties counted half (Mann and Whitney, Annals of Mathematical Statistics 18, 1947). If nothing but chance decided which
value belongs to which set, all C(n+m, n) ways to deal them would be equally likely. They are counted: without ties by
the generating function of U, with ties over the tied ranks that are there. No shape of a distribution is assumed.
Above :data:`EXACT` values on a side the normal approximation is used, with corrections for continuity and ties.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist

EXACT = 50
"""Values of a side up to which the ways are counted."""

_MOST = 10_000  # repeats that nobody makes


def p_above(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the probability of a U at least as large as that of ``second`` over ``first``, by chance alone.

    Args:
        first / second: at least one value each, infinite ones included.
    """
    n, m = len(first), len(second)
    doubled = _doubled_ranks([*first, *second])
    rank_sum = sum(doubled[n:])
    if max(n, m) > EXACT:
        return _approximate(n, m, (rank_sum - m * (m + 1)) / 2, Counter(doubled))
    if len(set(doubled)) == n + m:
        u = (rank_sum - m * (m + 1)) // 2
        return sum(ways(n, m)[u:]) / math.comb(n + m, n)
    return _tail_with_ties(doubled, m, rank_sum) / math.comb(n + m, n)


@lru_cache(maxsize=64)
def ways(n: int, m: int) -> tuple[int, ...]:
    """Return in how many ways n + m different values can be dealt so that U is 0, 1, ..., n * m.

    They are the coefficients of the Gaussian binomial: the product over i = 1..n of (1 - q^(m+i)) / (1 - q^i).
    """
    found = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for power in range(n * m, m + i - 1, -1):
            found[power] -= found[power - m - i]
        for power in range(i, n * m + 1):
            found[power] += found[power - i]
    return tuple(found)


@lru_cache(maxsize=64)
def critical(n: int, m: int, alpha: float) -> int | None:
    """Return the largest u with P(U <= u) <= alpha for values without ties; None: even U = 0 is likelier than that."""
    if max(n, m) > EXACT:
        spread = math.sqrt(n * m * (n + m + 1) / 12)
        u = math.floor(n * m / 2 - 0.5 + NormalDist().inv_cdf(alpha) * spread)
        return u if u >= 0 else None
    total = math.comb(n + m, n)
    below = [u for u, count in enumerate(accumulate(ways(n, m))) if count / total <= alpha]
    return below[-1] if below else None


def reachable(n: int, m: int, alpha: float) -> bool:
    """Tell whether any values at all could be told apart: the most extreme of all ways is rarer than ``alpha``."""
    return n > 0 and m > 0 and 1 / math.comb(n + m, n) <= alpha


def repeats_needed(alpha: float, other: int | None = None) -> int | None:
    """Return how many values a side needs before anything can be told, with ``other`` or as many on the other side.

    None: that many nobody makes.
    """
    for n in range(1, _MOST):
        if reachable(n, n if other is None else other, alpha):
            return n
    return None


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, so that the mean rank of tied ones is a whole number."""
    places: dict[float, int] = {}
    before = 0
    for value, times in sorted(Counter(values).items()):
        places[value] = 2 * before + times + 1
        before += times
    return [places[value] for value in values]


def _tail_with_ties(doubled: Sequence[int], m: int, rank_sum: int) -> int:
    """Count the ways to choose ``m`` of the ranks with a sum of at least ``rank_sum``.

    The ways to choose k of them are a polynomial, kept as one large number with a digit for every sum.
    """
    lowest = min(doubled)
    digit = 8 * (math.comb(len(doubled), m).bit_length() // 8 + 1)
    chosen = [1] + [0] * m
    for rank in doubled:
        for k in range(m, 0, -1):
            chosen[k] += chosen[k - 1] << digit * (rank - lowest)
    tail = chosen[m] >> digit * (rank_sum - m * lowest)
    size = digit // 8
    digits = tail.to_bytes(-(-tail.bit_length() // digit) * size, "little")
    return sum(int.from_bytes(digits[at : at + size], "little") for at in range(0, len(digits), size))


def _approximate(n: int, m: int, u: float, ties: Counter[int]) -> float:
    """Return the normal approximation (Hollander and Wolfe, Nonparametric Statistical Methods, 1999, 4.1)."""
    total = n + m
    tied = sum(t**3 - t for t in ties.values()) / (total * (total - 1))
    variance = n * m / 12 * (total + 1 - tied)
    if variance <= 0:  # all are the same value
        return 1.0
    return 1 - NormalDist().cdf((u - n * m / 2 - 0.5) / math.sqrt(variance))
