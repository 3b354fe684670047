"""A Prometheus histogram over a window: counts per bucket to a mean and to quantiles with their bounds. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile as far as buckets can tell.

    Attributes:
        value: interpolated linearly inside its bucket; the lower bound in the bucket without an upper one.
        low / high: the bounds of that bucket; the true value lies between them. ``high`` may be infinite.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations by size.

    Attributes:
        bounds: inclusive upper bounds, growing; the last is infinite.
        counts: observations per bucket, not cumulated.
        sum: of all observations.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @classmethod
    def cumulated(cls, reached: Mapping[float, float], sum: float) -> Histogram | None:
        """Return a histogram of cumulative buckets, as Prometheus writes them.

        Args:
            reached: observations up to and including each upper bound.
            sum: of all observations.

        Returns:
            None when the numbers contradict each other: no infinite bucket, a part of an observation, or fewer
            observations up to a larger bound.
        """
        bounds = tuple(sorted(reached))
        totals = [round(reached[bound]) for bound in bounds]
        counts = (*totals[:1], *(after - before for before, after in pairwise(totals)))
        whole = all(total == reached[bound] for total, bound in zip(totals, bounds, strict=True))
        if not bounds or bounds[-1] != math.inf or not whole or min(counts) < 0 or not math.isfinite(sum):
            return None
        return cls(bounds, counts, sum)

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        """Mean of all observations, exact; None without one."""
        return self.sum / self.count if self.count else None

    def quantile(self, q: float) -> Quantile | None:
        """Return the ``q``-quantile (0..1), None without observations.

        It is the observation of rank ``ceil(q * count)`` in ascending order, at least the first; its bucket is certain,
        its place inside is not. There the observations are taken to be spread evenly, as PromQL's
        ``histogram_quantile`` does; the first bucket of a duration begins at zero.
        """
        if not self.count:
            return None
        rank = q * self.count
        reached = list(accumulate(self.counts))
        bucket = next(i for i, total in enumerate(reached) if total >= rank and self.counts[i])
        low = self.bounds[bucket - 1] if bucket else min(0.0, self.bounds[0])
        high = self.bounds[bucket]
        if math.isinf(high):
            return Quantile(low, low, high)
        before = reached[bucket] - self.counts[bucket]
        inside = low + (high - low) * (rank - before) / self.counts[bucket]
        return Quantile(min(inside, high), low, high)


def merged(parts: Iterable[Histogram]) -> Histogram | None:
    """Return the sum of histograms; None for none.

    Where their bounds differ, as those of two versions of an engine may, only the bounds that all have are kept: up to
    those the counts add up exactly, so the quantiles get wider bounds and the mean stays exact.
    """
    found: Sequence[Histogram] = list(parts)
    if not found:
        return None
    shared = set(found[0].bounds).intersection(*(part.bounds for part in found[1:]))
    reached = dict.fromkeys(sorted(shared), 0)
    for part in found:
        for bound, total in zip(part.bounds, accumulate(part.counts), strict=True):
            if bound in shared:
                reached[bound] += total
    return Histogram.cumulated(reached, math.fsum(part.sum for part in found))
