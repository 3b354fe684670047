"""When sessions begin: closed loop, open loop at a rate, ramps. Pure and seeded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Arrival = Literal["constant", "poisson"]


@dataclass(frozen=True, slots=True)
class Pace:
    """When the sessions of a workload begin. A single request is a session of its own.

    Attributes:
        concurrency: sessions that may be going at once; None: any number.
        rate: sessions that begin per second (open loop); None: one begins when another has ended (closed loop).
        arrival: ``constant`` gaps of 1/rate, or those of a ``poisson`` process.
        ramp: seconds over which the rate, or without one the concurrency, rises to what was asked.
        seed: makes the arrivals the same in every run.
    """

    concurrency: int | None = 8
    rate: float | None = None
    arrival: Arrival = "poisson"
    ramp: float = 0.0
    seed: str = ""
