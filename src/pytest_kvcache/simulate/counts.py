"""What an engine has counted since it started."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Generic, TypeVar

_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
_TOKENS = tuple(float(4**power) for power in range(10))
Told = TypeVar("Told")


@dataclass(slots=True)
class Histogram:
    """Observations by size.

    Attributes:
        bounds: inclusive upper bounds, growing; whatever is larger falls into one more bucket.
        buckets: observations per bucket, not cumulated.
        sum: of all observations.
    """

    bounds: tuple[float, ...]
    buckets: list[int] = field(default_factory=list)
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.buckets = self.buckets or [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.sum += value


def _seconds() -> Histogram:
    return Histogram(_SECONDS)


def _tokens() -> Histogram:
    return Histogram(_TOKENS)


@dataclass(slots=True)
class Counts:
    """Totals since the engine started, in tokens unless they are requests or seconds.

    Attributes:
        queries / hits: looked up in the device cache, and of these found, at admission.
        external_queries / external_hits: not found there and asked of the external store, and of these found.
        device: hits at admission, counted once however often the look-up was.
        prompt / cached / transferred: of requests that got their first token: all prompt tokens, and of these found in
            the device cache and in the external store.
        generated: tokens generated.
        preemptions: times a request lost its blocks.
        finished: requests by reason; one whose client left is in none.
        ttft: seconds from arrival to the first token.
        queue / prefill / decode / e2e: seconds of finished requests.
        prompt_len / computed: prompt tokens of finished requests, and of these the tokens that were not cached.
    """

    queries: int = 0
    hits: int = 0
    external_queries: int = 0
    external_hits: int = 0
    device: int = 0
    prompt: int = 0
    cached: int = 0
    transferred: int = 0
    generated: int = 0
    preemptions: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    ttft: Histogram = field(default_factory=_seconds)
    queue: Histogram = field(default_factory=_seconds)
    prefill: Histogram = field(default_factory=_seconds)
    decode: Histogram = field(default_factory=_seconds)
    e2e: Histogram = field(default_factory=_seconds)
    prompt_len: Histogram = field(default_factory=_tokens)
    computed: Histogram = field(default_factory=_tokens)


class LateCounts(Generic[Told]):
    """Counts (of one engine or of several) as they stood some time ago, for a server that reports late.

    Args:
        now: what is visible until the first note is old enough.
    """

    def __init__(self, now: Told) -> None:
        self._visible = deepcopy(now)
        self._notes: deque[tuple[float, Told]] = deque()

    def note(self, moment: float, counts: Told) -> None:
        """Remember what was counted at ``moment``; moments must not fall."""
        self._notes.append((moment, deepcopy(counts)))

    def at(self, moment: float) -> Told:
        """Return what had been counted at ``moment``; moments must not fall."""
        while self._notes and self._notes[0][0] <= moment:
            self._visible = self._notes.popleft()[1]
        return self._visible
