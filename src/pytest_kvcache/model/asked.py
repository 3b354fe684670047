"""What is asked of a test: the expectation of its marker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Weight = Literal["token", "request"]
Tier = Literal["total", "local", "external", "host", "storage", "disk", "p2p"]
Source = Literal["auto", "counters", "usage"]
Scope = Literal["all", "warm"]
ResetMode = Literal["never", "auto", "require"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a ``hit_rate`` marker demands.

    Without ``target``, ``min`` and ``max`` the predicted rate is the target.

    Attributes:
        target: wanted rate, two-sided with ``tol``; ``simulated``: what a cache as large as the server's reuses of what
            was sent.
        tol: allowed absolute distance from ``target`` (0.02 = two points); also that of a predicted target.
        min: lowest acceptable rate, inclusive.
        max: highest acceptable rate, inclusive.
        weight: ``token`` = hit tokens / query tokens; ``request`` = share of requests with any hit.
        tier: the device cache (``local``), everything behind it (``external``), one tier by name where the engine tells
            them apart (``host``, ``storage``, ...), or all together (``total``).
        source: the server's counters, the replies' ``usage``, or counters when the engine has them (``auto``).
        requests: ``all``, or only those that had something to hit (``warm``): a request that nobody could have warmed
            is then in neither sum.
        max_failed: requests that may fail before the test does.
        skip_turns: the first so many turns of every conversation are in neither sum.
    """

    target: float | Literal["simulated"] | None = None
    tol: float = 0.02
    min: float | None = None
    max: float | None = None
    weight: Weight = "token"
    tier: Tier = "total"
    source: Source = "auto"
    requests: Scope = "all"
    max_failed: int = 0
    skip_turns: int = 0
