"""Samples of a duration or a rate to what people read: exact percentiles. Pure, and imports nothing of ours."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, repeat
from operator import sub


@dataclass(frozen=True, slots=True, repr=False)
class Latency:
    """Samples of one kind, mostly durations in seconds. Every figure is None when there is none.

    Attributes:
        samples: ascending.
        behind: for each of ``samples``, how many stand before the one after it; empty: each stands for itself.
    """

    samples: Sequence[float] = field(default=(), repr=False)
    behind: Sequence[int] = field(default=(), repr=False)

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Latency:
        """Return the samples among ``values``; None stands for a request without one."""
        return cls(array("d", sorted(value for value in values if value is not None)))

    @classmethod
    def counted(cls, counts: Mapping[float, int]) -> Latency:
        """Return samples that were counted, so that memory does not grow with their number."""
        values = sorted(counts)
        return cls(array("d", values), array("q", accumulate(counts[value] for value in values)))

    def counts(self) -> Iterator[tuple[float, int]]:
        """Return each value with how often it stands there, ascending; one that stands for itself once."""
        if not self.behind:
            return zip(self.samples, repeat(1))
        return zip(self.samples, map(sub, self.behind, chain((0,), self.behind)), strict=True)

    def percentile(self, q: float) -> float | None:
        """Return the ``q``-th percentile (0..100), interpolated linearly between the two nearest samples."""
        if not self.samples:
            return None
        position = (len(self) - 1) * q / 100
        low, high = self.ranked(math.floor(position)), self.ranked(math.ceil(position))
        return low + (high - low) * (position - math.floor(position))

    def ranked(self, rank: int) -> float:
        """Return the sample at a place of the ascending order, counted from 0.

        Raises:
            IndexError: there are not so many.
        """
        return self.samples[bisect_right(self.behind, rank)] if self.behind else self.samples[rank]

    @property
    def p50(self) -> float | None:
        """The median."""
        return self.percentile(50)

    @property
    def p95(self) -> float | None:
        """The 95th percentile."""
        return self.percentile(95)

    @property
    def p99(self) -> float | None:
        """The 99th percentile."""
        return self.percentile(99)

    @property
    def mean(self) -> float | None:
        """The arithmetic mean."""
        if not self.samples:
            return None
        if not self.behind:
            return math.fsum(self.samples) / len(self)
        return math.fsum(value * times for value, times in self.counts()) / len(self)

    @property
    def max(self) -> float | None:
        """The longest."""
        return self.samples[-1] if self.samples else None

    @property
    def min(self) -> float | None:
        """The shortest."""
        return self.samples[0] if self.samples else None

    def __repr__(self) -> str:
        p50, p95 = self.p50, self.p95
        return "<no samples>" if p50 is None else f"<{len(self)} samples, p50 {p50:.6g}, p95 {p95:.6g}>"

    def __len__(self) -> int:
        return self.behind[-1] if self.behind else len(self.samples)


def merged(several: Iterable[Latency]) -> Latency:
    """Return the samples of all of them together."""
    parts = [one for one in several if len(one)]
    if len(parts) == 1:
        return parts[0]
    counts: Counter[float] = Counter()
    for one in parts:
        if one.behind:
            for value, times in one.counts():
                counts[value] += times
        else:
            counts.update(one.samples)
    return Latency.counted(counts)
