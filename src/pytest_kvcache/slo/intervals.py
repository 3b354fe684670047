"""How sure is a figure? Confidence intervals that assume as little as possible of how samples are spread. Pure.

All are two-sided and treat samples as independent. Requests that queue behind each other are alike, so under load the
truth may lie further away than an interval says; gaps of one answer are so much alike that they are counted as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

from ..distribution import Latency

Interval = tuple["float | None", "float | None"]
"""Low and high end; None: no end is known on that side."""

LEVEL = 0.95
LEAST = 10  # samples for an interval of a mean: below, that means are spread normally is a guess


def quantile(samples: Latency, q: float, level: float = LEVEL, independent: int | None = None) -> Interval:
    """Return the interval of the ``q``-quantile (0..1) between two order statistics.

    The number of samples below the true quantile is binomial, whatever their distribution, so the ranks that it may
    have enclose it (Hahn and Meeker, Statistical Intervals, 1991, 5.2). Few samples leave an end open.

    Args:
        samples: at least one.
        q: which quantile.
        level: of confidence.
        independent: how many of the samples are; None: all. Of fewer, ranks are taken as shares of all samples.
    """
    n = len(samples)
    count = n if independent is None else min(independent, n)
    lowest, highest = ranks(count, q, level)
    low = None if lowest is None else samples.ranked((lowest - 1) * n // count)
    high = None if highest is None else samples.ranked(-(-highest * n // count) - 1)
    return low, high


@lru_cache(maxsize=64)
def ranks(n: int, q: float, level: float = LEVEL) -> tuple[int | None, int | None]:
    """Return the ranks (from 1) of the samples that enclose the ``q``-quantile; None: not even the last one does."""
    tail = (1 - level) / 2
    spread = math.sqrt(n * q * (1 - q))
    first = max(0, math.floor(n * q - 12 * spread - 12))  # what lies below has no weight
    weight = _binomial(n, first, q)
    low, below = None, 0.0
    for count in range(first, n):
        below += weight
        if below <= tail:
            low = count + 1
        if below >= 1 - tail:
            return low, count + 1
        weight *= (n - count) / (count + 1) * q / (1 - q)
    return low, None


def mean(samples: Latency, level: float = LEVEL, independent: int | None = None) -> Interval:
    """Return Student's interval of the mean; open for fewer than :data:`LEAST` independent samples."""
    n = len(samples)
    count = n if independent is None else min(independent, n)
    center = samples.mean
    if count < LEAST or center is None:
        return None, None
    squares = math.fsum(times * (value - center) ** 2 for value, times in samples.counts())
    return _student(center, squares / (n - 1), count, level)


def rate(batches: Sequence[float], level: float = LEVEL) -> Interval:
    """Return Student's interval of a rate from those of equal parts of the time (batch means: Law, Simulation Modeling
    and Analysis, 9.5.3); open for fewer than :data:`LEAST`.
    """
    return mean(Latency.of(batches), level)


def share(count: int, of: int, level: float = LEVEL) -> Interval:
    """Return Wilson's score interval of a share (Wilson, JASA 22, 1927); open when there is nothing to share."""
    if not of:
        return None, None
    z = NormalDist().inv_cdf((1 + level) / 2)
    p, square = count / of, z * z / of
    center = (p + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(p * (1 - p) / of + square / (4 * of))
    return (0.0 if count == 0 else center - half), (1.0 if count == of else center + half)


def ratio(above: Interval, below: Interval) -> Interval:
    """Return the interval of a quotient of two positive figures whose intervals hold together (Bonferroni: each at
    half the error).
    """
    low = above[0] / below[1] if above[0] is not None and below[1] else None
    high = above[1] / below[0] if above[1] is not None and below[0] else None
    return low, high


def student(p: float, df: int) -> float:
    """Return the ``p``-quantile of Student's t, to 1 part in 1,000 from 9 degrees of freedom on (Abramowitz and Stegun,
    Handbook of Mathematical Functions, 26.7.5).
    """
    x: float = NormalDist().inv_cdf(p)
    terms: tuple[float, ...] = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + math.fsum(term / df**power for power, term in enumerate(terms, 1))


def _student(center: float, variance: float, count: int, level: float) -> Interval:
    half = student((1 + level) / 2, count - 1) * math.sqrt(variance / count)
    return max(0.0, center - half), center + half  # nothing that is measured here is negative


def _binomial(n: int, k: int, p: float) -> float:
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))
