"""A level that is kept for a time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from ..live import Live
from ..model import Exchange, Finding, Level, Measurement, PerRequest
from ..stretch import stretch_of

NOTHING = PerRequest()
_TELL = 1.0  # seconds between two words on the progress


class Told(Protocol):
    """Is told how far a load is."""

    def __call__(self, level: Level, seconds_left: float, done: int, *, period: int | None = None) -> None:
        """Take the level, the seconds that are left, the requests that have ended, and the number of the period."""


@dataclass(slots=True)
class Timed:
    """Lets sessions begin for a time, waits for those in flight, and tells what came out in the time.

    Attributes:
        level: what is asked of the client.
        seconds: how long.
        each: what a request has to meet to be good.
        strict: only requests that began and ended in the time count, and those that fail or hang behind it.
        progress: told how far it is.
        lap: which repetition of the level it is, from 0.
    """

    level: Level
    seconds: float
    each: PerRequest = NOTHING
    strict: bool = False
    progress: Told | None = None
    lap: int = 0
    _over: bool = False

    async def steer(self, live: Live) -> None:
        """Close the gate when the time is over."""
        over = live.now() + self.seconds
        while (left := over - live.now()) > 0:
            await asyncio.sleep(min(left, _TELL))
            if self.progress is not None:
                self.progress(self.level, over - live.now(), len(live.ledger))
        self._over = True
        live.gate.close()

    def completed(self, live: Live, measured: Measurement) -> Measurement:
        """Add the stretch; a workload that ended before the time is a finding."""
        exchanges, start = live.ledger.exchanges, live.gate.origin
        end = start + self.seconds
        problem = None
        if not self._over:
            end = max((e.end for e in exchanges), default=start)
            problem = Finding(
                "KV129",
                f"the workload ended after {end - start:.1f} of {self.seconds:g} s at {self.level}: the level was not"
                " kept for the time",
                "give it more requests, or prompts that may be sent again with new rests (kv_workload.shared_prefix)",
            )
        else:
            problem = self._not_begun(exchanges)
        stretch = stretch_of(
            exchanges, live.ledger.produced, self.level, start, end, each=self.each, strict=self.strict, last=True
        )
        findings = measured.findings if problem is None else (*measured.findings, problem)
        return replace(measured, stretch=replace(stretch, lap=self.lap), findings=findings)

    def _not_begun(self, exchanges: Iterable[Exchange]) -> Finding | None:
        """Tell that an open loop began clearly fewer sessions than were due: no server can keep it from that.

        How many are due is random: three standard deviations of a Poisson process are allowed for, and a twentieth.
        """
        due = (self.level.rate or 0.0) * self.seconds
        if not due:
            return None
        begun = sum(e.scheduled is not None for e in exchanges)
        if due - begun <= 3 * math.sqrt(due) + 0.05 * due:
            return None
        return Finding(
            "KV127",
            f"the load generator was the bottleneck: it began {begun:,} of about {due:,.0f} sessions that were due at"
            f" {self.level}",
            "spread the load over more processes (--kv-processes), or ask for a lower rate",
        )
