"""Samples of a duration to what people read: exact percentiles, in seconds.

In a closed loop times count from the moment at which the body was handed to the socket, of the last attempt where it
was sent again. In an open loop they count from the moment at which the request was due: the waits for a place, for a
client or server that has fallen behind and for a retry are part of them, so that a slow server cannot hide by being
asked less (coordinated omission: Tene, How NOT to Measure Latency).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from .distribution import Latency
from .model import Exchange


def ttft(exchanges: Iterable[Exchange]) -> Latency:
    """Time to first token of every whole answer: body handed to the socket (or due) until the first content."""
    return Latency.of(e.ttft for e in exchanges if e.ok)


def itl(exchanges: Iterable[Exchange]) -> Latency:
    """Inter-token latency: the gaps between consecutive content chunks of every whole answer that has its stamps."""
    return Latency.of(after - before for e in exchanges if e.ok for before, after in pairwise(e.chunks))


def tpot(exchanges: Iterable[Exchange]) -> Latency:
    """Time per output token of every whole answer: first content to last, over the tokens after the first."""
    return Latency.of(e.tpot for e in exchanges if e.ok)


def e2e(exchanges: Iterable[Exchange]) -> Latency:
    """End-to-end latency of every whole answer: body handed to the socket (or due) until it was complete."""
    return Latency.of(e.e2e for e in exchanges if e.ok)


def lateness(exchanges: Iterable[Exchange]) -> Latency:
    """How long after its scheduled time every request was sent first, answered or not: the schedule that was kept."""
    first = ((e, e.earlier[0] if e.earlier else e) for e in exchanges)
    return Latency.of(
        attempt.sent - e.scheduled for e, attempt in first if e.scheduled is not None and attempt.sent is not None
    )
