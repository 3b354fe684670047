"""How late does this process's event loop run? What arrives meanwhile is stamped too late."""

from __future__ import annotations

import asyncio
import time
from array import array
from types import TracebackType

from .distribution import Latency

_INTERVAL = 0.01  # seconds; 100 wake-ups a second cost about 0.1 % of a core


class LagMeter:
    """Wakes at fixed moments of the running loop and notes how late: ``async with LagMeter() as meter``.

    A loop that was busy for 50 ms gives one sample of up to 50 ms, and the moments that it slept through give what was
    left of it, so that shares of samples are shares of time.

    Args:
        interval: seconds between two moments.

    Attributes:
        busy: CPU seconds of the process over wall seconds of the block, known when it has ended; None: not yet.
    """

    def __init__(self, interval: float = _INTERVAL) -> None:
        self._interval = interval
        self._late = array("d")
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._began = (0.0, 0.0)
        self.busy: float | None = None

    @property
    def lag(self) -> Latency:
        """How late it woke, seconds."""
        return Latency.of(self._late)

    async def __aenter__(self) -> LagMeter:
        self._loop = asyncio.get_running_loop()
        self._began = (time.process_time(), self._loop.time())
        self._due = self._loop.time() + self._interval
        self._timer = self._loop.call_at(self._due, self._wake)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        cpu, wall = time.process_time() - self._began[0], self._loop.time() - self._began[1]
        self.busy = cpu / wall if wall > 0 else None

    def _wake(self) -> None:
        now = self._loop.time()
        while self._due <= now:
            self._late.append(now - self._due)
            self._due += self._interval
        self._timer = self._loop.call_at(self._due, self._wake)
