"""Samples of a duration to what people read: exact percentiles, in seconds.

In a closed loop times count from the moment at which the body was handed to the socket, of the last attempt where it
was sent again. In an open loop they count from the moment at which the request was due: the waits for a place, for a
client or server that has fallen behind and for a retry are part of them, so that a slow server cannot hide by being
asked less (coordinated omission: Tene, How NOT to Measure Latency).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .model import Exchange


@dataclass(frozen=True, slots=True)
class Latency:
    """Durations of one kind. Every figure is None when there is no sample.

    Attributes:
        samples: seconds, ascending.
    """

    samples: tuple[float, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Latency:
        """Return the durations among ``values``; None stands for a request without one."""
        return cls(tuple(sorted(value for value in values if value is not None)))

    def percentile(self, q: float) -> float | None:
        """Return the ``q``-th percentile (0..100), interpolated linearly between the two nearest samples."""
        if not self.samples:
            return None
        position = (len(self.samples) - 1) * q / 100
        low, high = math.floor(position), math.ceil(position)
        return self.samples[low] + (self.samples[high] - self.samples[low]) * (position - low)

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
        return math.fsum(self.samples) / len(self.samples) if self.samples else None

    @property
    def max(self) -> float | None:
        """The longest."""
        return self.samples[-1] if self.samples else None

    def __len__(self) -> int:
        return len(self.samples)


def ttft(exchanges: Sequence[Exchange]) -> Latency:
    """Time to first token of every whole answer: body handed to the socket (or due) until the first content."""
    return Latency.of(e.ttft for e in exchanges if e.ok)


def itl(exchanges: Sequence[Exchange]) -> Latency:
    """Inter-token latency: the gaps between consecutive content chunks of every whole answer."""
    return Latency.of(after - before for e in exchanges if e.ok for before, after in pairwise(e.chunks))


def e2e(exchanges: Sequence[Exchange]) -> Latency:
    """End-to-end latency of every whole answer: body handed to the socket (or due) until it was complete."""
    return Latency.of(e.e2e for e in exchanges if e.ok)


def lateness(exchanges: Sequence[Exchange]) -> Latency:
    """How long after its scheduled time every request was sent first, answered or not: the schedule that was kept."""
    first = ((e, e.earlier[0] if e.earlier else e) for e in exchanges)
    return Latency.of(
        attempt.sent - e.scheduled for e, attempt in first if e.scheduled is not None and attempt.sent is not None
    )


def output_rate(exchanges: Sequence[Exchange]) -> float | None:
    """Generated tokens per second, over the time from the first request sent to the last answer; None if unknown."""
    whole = [e for e in exchanges if e.ok and e.sent is not None]
    tokens = [e.completion_tokens for e in whole]
    if not whole or any(count is None for count in tokens):
        return None
    seconds = max(e.end for e in whole) - min(e.sent for e in whole if e.sent is not None)
    return sum(count for count in tokens if count is not None) / seconds if seconds > 0 else None
