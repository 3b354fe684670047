"""The same prompts cold and warm: what the cache makes of their latency."""

from __future__ import annotations

from dataclasses import dataclass

from .experiment import Bench
from .model import Expectation, Measurement
from .pace import Pace
from .result import Result
from .workloads.cold import cold


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """A workload measured twice.

    Attributes:
        cold: each prompt in a cache of its own.
        warm: as the workload says.
    """

    cold: Result
    warm: Result

    @property
    def ttft(self) -> float | None:
        """Cold over warm median time to first token; None where either is not known."""
        return _ratio(self.cold.ttft.p50, self.warm.ttft.p50)

    @property
    def e2e(self) -> float | None:
        """Cold over warm median end-to-end latency."""
        return _ratio(self.cold.e2e.p50, self.warm.e2e.p50)

    @property
    def ceiling(self) -> float | None:
        """1 / (1 - hit rate): what TTFT gains at most where prefill time grows with the tokens that are computed, and
        is all there is; attention makes long prompts dearer than that, a fixed part of each request cheaper.
        """
        rate = self.warm.verdict.hit_rate
        return None if rate is None or rate >= 1 else 1 / (1 - rate)


async def measure_speedup(bench: Bench, pace: Pace) -> tuple[Measurement, Measurement]:
    """Measure a bound workload cold, then warm; the cold run is no part of what the test is judged by.

    Raises:
        WorkloadError: it cannot be sent cold.
        NotSettled: the engine did not come to rest.
    """
    apart = cold(bench.composed, bench.site.facts, f"{bench.plan.nonce} cold")
    return await bench.measure(apart, pace, judged=False), await bench.measure(bench.composed, pace)


def speedup_of(pair: tuple[Measurement, Measurement], expectation: Expectation | None) -> SpeedUp:
    """Return a pair as a test reads it."""
    return SpeedUp(Result(pair[0]), Result(pair[1], expectation))


def _ratio(cold_seconds: float | None, warm_seconds: float | None) -> float | None:
    return cold_seconds / warm_seconds if cold_seconds is not None and warm_seconds else None
