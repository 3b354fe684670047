"""The search for the limit on a real endpoint: periods of a load that goes on, each at one level."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ..live import Live
from ..model import Exchange, Finding, Level, Measurement, PerRequest, Stretch
from ..stretch import stretch_of
from .blame import clients_own
from .breach import Stalled
from .controller import Controller
from .timed import Told
from .tried import pooled_at

_LOOKS = 10  # in an assessment: what is lost before its end need not be waited for
_LONG = 2.0  # times the longest whole answer so far: who waits longer does not wait for the same reason
_FILL = 1.0  # seconds at most until as many are going as are allowed
_TICK = 0.01


@dataclass(slots=True)
class Searching:
    """Turns a load up and down as a controller says, until it is done or the time is over.

    A level counts from when every request that was in flight at the change has ended, and those that begin at once when
    it is turned up have as well: neither what an overload has left behind nor the burst of new sessions is the level's.

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
    _over: bool = False

    async def steer(self, live: Live) -> None:
        """Go from level to level, and close the gate in the end."""
        self._began = live.now()
        self._begin(live)
        await self._land(live, self.controller.level, drain=False)
        while (left := self._left(live)) > 0:
            await asyncio.sleep(min(left, self.assessment / _LOOKS))
            now = live.now()
            move = self.controller.next(self._stretch(live, self.controller.level, now), self._stalled(live, now))
            if move.action == "done":
                break
            if move.action == "change":
                await self._change(live, move.level, drain=move.drain)
            elif move.action == "again":
                self._begin(live)
            if self.progress is not None:
                period = len(self.controller.periods) + 1
                self.progress(self.controller.level, self._left(live), len(live.ledger), period=period)
        self._over = True
        live.gate.close()

    def completed(self, live: Live, measured: Measurement) -> Measurement:
        """Add where the limit lies, and what came out there; a workload that ended before the search is a finding, and
        so is a breach that the client itself may have caused.

        Periods are counted once more: what was in flight at the end of one has ended now, and its tokens are known.
        """
        limit = self.controller.finish("the time" if self._over else "the workload")
        exchanges = list(live.ledger.exchanges)

        def again(stretch: Stretch) -> Stretch:
            return stretch_of(
                exchanges, live.ledger.produced, stretch.level, stretch.start, stretch.end, each=self.each
            )

        limit = replace(limit, periods=tuple(replace(p, stretch=again(p.stretch)) for p in limit.periods))
        limit = replace(limit, stretch=pooled_at(limit, limit.level))
        found = replace(measured, limit=limit, stretch=limit.stretch)
        problems = [None if self._over else self._short(exchanges), clients_own(found)]
        return replace(found, findings=(*found.findings, *filter(None, problems)))

    def _short(self, exchanges: Sequence[Exchange]) -> Finding:
        seconds = max((e.end for e in exchanges), default=self._began) - self._began
        return Finding(
            "KV129",
            f"the workload ended after {seconds:.1f} of {self.duration:g} s, and the search with it",
            "give it more requests, or prompts that may be sent again with new rests (kv_workload.shared_prefix)",
        )

    def _left(self, live: Live) -> float:
        return self._began + self.duration - live.now()

    def _begin(self, live: Live) -> None:
        self._since, self._mark = live.now(), len(live.ledger)

    async def _change(self, live: Live, level: Level, *, drain: bool) -> None:
        """Go to a level, and wait until nobody is left of the one before."""
        self._begin(live)
        if drain:
            live.gate.pause()
            await self._landed(live, self._left(live))
        _turn(live, level)
        await self._land(live, level, drain=drain)

    async def _land(self, live: Live, level: Level, *, drain: bool) -> None:
        """Wait until the sessions that begin at once have begun, and all in flight have ended."""
        filled = live.now() + min(_FILL, max(0.0, self._left(live)))
        while level.concurrency is not None and len(live.flying) < level.concurrency and live.now() < filled:  # noqa: ASYNC110 - to look
            await asyncio.sleep(_TICK)
        left = self._left(live)
        await self._landed(live, left if drain else min(left, self._patience))
        self.controller.passed(self._stretch(live, level, live.now()))
        self._begin(live)

    @staticmethod
    async def _landed(live: Live, seconds: float) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(live.flying.landed(), max(0.0, seconds))

    def _stretch(self, live: Live, level: Level, now: float) -> Stretch:
        exchanges = list(live.ledger.since(self._mark))
        self._longest = max([self._longest, *(e.end - e.queued for e in exchanges if e.ok)])
        return stretch_of(exchanges, live.ledger.produced, level, self._since, now, each=self.each)

    @property
    def _patience(self) -> float:
        """Seconds after which a request in flight does not wait for what others wait for."""
        return max(self.assessment, _LONG * self._longest)

    def _stalled(self, live: Live, now: float) -> Stalled:
        requests, oldest = live.flying.older_than(now - self._patience), live.flying.oldest
        return Stalled(requests, now - oldest) if requests and oldest is not None else Stalled()


def _turn(live: Live, level: Level) -> None:
    if level.concurrency is not None:
        live.gate.allow(level.concurrency)
    elif level.rate is not None:
        live.gate.at_rate(level.rate, f"{level.rate}/{len(live.ledger)}")
