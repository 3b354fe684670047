"""Who may begin, and when: the places and the clock of a load, which can be changed while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

from .pace import Pace

_TOGETHER = 0.0002  # seconds that who has begun may wait for others to be made


class Closed(Exception):
    """The time is over: nobody begins any more."""


class Gate:
    """Lets sessions begin, one after the other, at a pace that may be changed.

    Args:
        pace: when sessions begin, and how many may be going.
        now: monotonic seconds.

    Attributes:
        origin: when it was opened.
        limit: how many may be going at once; None: any number.
        going: how many are.
        closed: nobody begins any more, and who is going asks for nothing more.
    """

    def __init__(self, pace: Pace, now: Callable[[], float]) -> None:
        self.origin = 0.0
        self.limit: int | None = None
        self.going = 0
        self.closed = False
        self._pace = pace
        self._now = now
        self._due: Iterator[float] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._waiting: asyncio.Future[None] | None = None
        self._turned = False
        self._paused = False
        self._others_ran = self._making_since = 0.0
        self._making = 0.0  # seconds that the last session took to be made

    def open(self) -> None:
        """Begin to count the time."""
        self.origin = self._others_ran = self._making_since = self._now()
        openings, loop = self._pace.openings(), asyncio.get_running_loop()
        if openings is not None:
            self.limit = 0
            self._timers = [loop.call_later(seconds, self._one_more) for seconds in openings]
        if self._pace.rate is not None:
            self._due = (self.origin + seconds for seconds in self._pace.due())

    def due(self) -> float | None:
        """Return when the next session is due; None in a closed loop: when there is a place."""
        self._turned = False
        return None if self._due is None else next(self._due)

    async def admit(self, moment: float | None) -> float | None:
        """Wait for a place, and for the moment at which a session is due.

        Args:
            moment: monotonic seconds; None: at once.

        Returns:
            The moment: another one where the rate was changed meanwhile.

        Raises:
            Closed: nobody begins any more.
        """
        self._making = self._now() - self._making_since
        while not self.closed:
            if self._turned and moment is not None:
                moment = self.due()
            left = 0.0 if moment is None else moment - self._now()
            if self._paused or (self.limit is not None and self.going >= self.limit):
                await self._wait(None)
            elif left > 0:
                await self._wait(left)
            else:
                self.going += 1
                return moment
        raise Closed

    async def let_begin(self, *, on_time: bool) -> None:
        """Let those that were admitted be sent before the next one is made.

        A turn of the loop for each costs an eighth of sending it, so those that are made quickly go together.

        Args:
            on_time: the last one was due at a moment, from which its latency counts: it never waits for others.
        """
        now = self._now()
        if on_time or self._making > _TOGETHER or now - self._others_ran > _TOGETHER:
            await asyncio.sleep(0)
            self._others_ran = now = self._now()
        self._making_since = now

    @property
    def leaves(self) -> bool:
        """True when who has got an answer asks for nothing more: it is closed, or fewer may be going than are."""
        return self.closed or (self.limit is not None and self.going > self.limit)

    def leave(self) -> None:
        """Give a place back."""
        self.going -= 1
        self._wake()

    def allow(self, concurrency: int) -> None:
        """Let so many be going at once from here on; of those that are, who is too many leaves with the next answer."""
        self._pace = replace(self._pace, concurrency=concurrency)
        self._stop_timers()
        self.limit, self._paused = concurrency, False
        self._wake()

    def at_rate(self, rate: float, lap: str) -> None:
        """Let sessions begin at another rate from here on.

        Args:
            rate: sessions per second.
            lap: seeds these arrivals together with the pace's own seed.
        """
        pace = replace(self._pace, rate=rate, ramp=0.0, seed=f"{self._pace.seed}/{lap}")
        start = self._now()
        self._due = (start + seconds for seconds in pace.due())
        self._turned, self._paused = True, False
        self._wake()

    def pause(self) -> None:
        """Let nobody begin until :meth:`allow` or :meth:`at_rate` says how to go on."""
        self._stop_timers()
        self._paused = True
        self._wake()

    def close(self) -> None:
        """Let nobody begin any more."""
        self.closed = True
        self._stop_timers()
        self._wake()

    def _one_more(self) -> None:
        self.limit = (self.limit or 0) + 1
        self._wake()

    def _stop_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _wait(self, seconds: float | None) -> None:
        """Wait until something changes, or so many seconds."""
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = None if seconds is None else loop.call_later(seconds, self._wake)
        try:
            await self._waiting
            self._others_ran = self._now()
        finally:
            if timer is not None:
                timer.cancel()
