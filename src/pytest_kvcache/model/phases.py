"""When did a run begin, and how long did each part of it take?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PhaseName = Literal["reset", "prefill", "settle_before", "load", "settle_after"]


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment by two clocks.

    Attributes:
        monotonic: seconds, as all stamps of a run.
        epoch: seconds since 1970 UTC, to find it in the logs of a server.
    """

    monotonic: float
    epoch: float


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a run. Monotonic seconds.

    Attributes:
        name: ``reset``: the cache was emptied and that was proven; ``prefill``: the cache was warmed, with the wait
            until that could be read; ``settle_before``: until the engines were at rest and their counters read;
            ``load``: what is measured; ``settle_after``: as before it.
        start / end: its ends.
    """

    name: PhaseName
    start: float
    end: float
