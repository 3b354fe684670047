"""The search for the limit on a real endpoint: periods of a load that goes on, each at one level."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..live import Live
from ..model import Level, PerRequest, Stretch
from ..stretch import stretch_of
from .breach import Stalled
from .controller import Controller
from .timed import Told

_LOOKS = 10  # in an assessment: what is lost before its end need not be waited for
_LONG = 2.0  # times the longest whole answer so far: who waits longer does not wait for the same reason


@dataclass(slots=True)
class Searching:
    """Turns a load up and down as a controller says, until it is done or the time is over.

    A change of level counts from when every request that was in flight has ended: what an overload has left behind is
    not billed to the level after it.

    Attributes:
        controller: decides.
        assessment: seconds of a period.
        duration: seconds of the whole search.
        each: what a request has to meet to be good.
        progress: told how far it is.
    """

    controller: Controller
    assessment: float
    duration: float
    each: PerRequest
    progress: Told | None = None
    _began: float = 0.0
    _mark: int = 0
    _since: float = 0.0
    _longest: float = 0.0

    async def steer(self, live: Live) -> None:
        """Go from level to level, and close the gate in the end."""
        self._began = self._since = live.now()
        while (left := self._left(live)) > 0:
            await asyncio.sleep(min(left, self.assessment / _LOOKS))
            now = live.now()
            move = self.controller.next(self._stretch(live, now), self._stalled(live, now))
            if move.action == "done":
                break
            if move.action == "change":
                await self._change(live, move.level, drain=move.drain)
            elif move.action == "again":
                self._begin(live)
            if self.progress is not None:
                period = len(self.controller.periods) + 1
                self.progress(self.controller.level, self._left(live), len(live.ledger), period=period)
        live.gate.close()

    def told(self, live: Live) -> dict[str, Any]:  # noqa: ARG002 - the controller has seen it
        """Return where the limit lies, and what came out there."""
        limit = self.controller.finish()
        return {"limit": limit, "stretch": limit.stretch}

    def _left(self, live: Live) -> float:
        return self._began + self.duration - live.now()

    def _begin(self, live: Live) -> None:
        self._since, self._mark = live.now(), len(live.ledger)

    async def _change(self, live: Live, level: Level, *, drain: bool) -> None:
        """Go to a level, and wait until nobody is left of the one before."""
        self._begin(live)
        if drain:
            live.gate.pause()
        else:
            _turn(live, level)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(live.flying.landed(), max(0.0, self._left(live)))
        if drain:
            _turn(live, level)
        self.controller.passed(self._stretch_at(live, level, live.now()))
        self._begin(live)

    def _stretch(self, live: Live, now: float) -> Stretch:
        return self._stretch_at(live, self.controller.level, now)

    def _stretch_at(self, live: Live, level: Level, now: float) -> Stretch:
        exchanges = list(live.ledger.since(self._mark))
        self._longest = max([self._longest, *(e.end - e.queued for e in exchanges if e.ok)])
        return stretch_of(exchanges, live.ledger.produced, level, self._since, now, each=self.each)

    def _stalled(self, live: Live, now: float) -> Stalled:
        patience = max(self.assessment, _LONG * self._longest)
        requests, oldest = live.flying.older_than(now - patience), live.flying.oldest
        return Stalled(requests, now - oldest) if requests and oldest is not None else Stalled()


def _turn(live: Live, level: Level) -> None:
    if level.concurrency is not None:
        live.gate.allow(level.concurrency)
    elif level.rate is not None:
        live.gate.at_rate(level.rate, f"{level.rate}/{len(live.ledger)}")
