"""When sessions begin: closed loop, open loop at a rate, ramps. Pure and seeded."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal

Arrival = Literal["constant", "poisson"]

_USUAL = 8


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

    concurrency: int | None = _USUAL
    rate: float | None = None
    arrival: Arrival = "poisson"
    ramp: float = 0.0
    seed: str = ""

    def due(self) -> Iterator[float]:
        """Return when sessions are due in an open loop, in seconds from the start, without end.

        The rate is r(t) = rate * t / ramp while t < ramp, and ``rate`` from then on; N(t), its integral from 0 to t, is
        the mean number of arrivals until t. With ``constant`` arrivals the k-th session, k = 0, 1, ..., is due at the t
        of N(t) = k, so the first one at once. With ``poisson`` arrivals it is due at the t of N(t) = u(k), where u is
        a Poisson process of rate 1: independent gaps, exponential with mean 1 (time rescaling: Daley and Vere-Jones,
        An Introduction to the Theory of Point Processes, section 7.4). Without a ramp both are the usual ones.

        Raises:
            ValueError: this is a closed loop.
        """
        if self.rate is None:
            raise ValueError("a closed loop has no rate: a session is due when another has ended")
        units = (float(k) for k in count()) if self.arrival == "constant" else _poisson(self.seed)
        return (_when(unit, self.rate, self.ramp) for unit in units)

    def openings(self) -> Iterator[float] | None:
        """Return when there is room for one more session, in seconds from the start; None: always.

        The k-th place of a closed loop, k = 0, 1, ..., opens at k * ramp / concurrency; the session in it is followed
        by the next one at once, so the number going never falls back. In an open loop it is the rate that rises.
        """
        if self.concurrency is None:
            return None
        step = 0.0 if self.rate is not None else self.ramp / self.concurrency
        return (k * step for k in range(self.concurrency))

    def closed(self) -> Pace:
        """Return the pace at which a cache is warmed before: as many at once, or 8, from the start and without gaps."""
        return replace(self, concurrency=self.concurrency or _USUAL, rate=None, ramp=0.0)


def _poisson(seed: str) -> Iterator[float]:
    source, at = random.Random(seed), 0.0
    while True:
        at += source.expovariate(1.0)
        yield at


def _when(arrivals: float, rate: float, ramp: float) -> float:
    """Return the t of N(t) = arrivals: N(t) = rate * t**2 / (2 * ramp) until ``ramp``, rate * (t - ramp / 2) after."""
    if arrivals < rate * ramp / 2:
        return math.sqrt(2 * arrivals * ramp / rate)
    return ramp / 2 + arrivals / rate
