"""How late does this process's event loop run? What arrives meanwhile is stamped too late."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from .distribution import Latency

_INTERVAL = 0.05  # seconds; waking an idle process costs 0.1 ms, and what is late for less than that changes no verdict
_UNIT = 1e-6  # seconds


class LagMeter:
    """Wakes now and then in the running loop, from ``start`` to ``stop``, and notes how late.

    A loop that was busy for 50 ms gives one sample of up to 50 ms, and the wake-ups that it slept through give what was
    left of it, so that shares of samples are shares of time. Each wait begins at a wake-up, and not on a grid: loops of
    CPython round waits up to whole milliseconds, so that on a grid one with nothing to do would be late.

    Args:
        interval: seconds from one wake-up to the next; whole milliseconds.

    Attributes:
        busy: CPU seconds of the process over wall seconds from start to stop; None: not stopped yet.
    """

    _loop: asyncio.AbstractEventLoop

    def __init__(self, interval: float = _INTERVAL) -> None:
        self._interval = interval
        self._late: Counter[int] = Counter()  # by microsecond, so that it does not grow with time
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._began = (0.0, 0.0)
        self.busy: float | None = None

    @property
    def lag(self) -> Latency:
        """How late it woke, seconds, exact to a microsecond."""
        return Latency.counted({late * _UNIT: times for late, times in self._late.items()})

    def start(self) -> None:
        """Begin to watch the running loop."""
        self._loop = asyncio.get_running_loop()
        self._began = (time.process_time(), self._loop.time())
        self._wait(self._began[1])

    def stop(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
        now = self._loop.time()
        self._note(now)  # the loop may have had no turn since the start
        cpu, wall = time.process_time() - self._began[0], now - self._began[1]
        self.busy = cpu / wall if wall > 0 else None

    def _wait(self, now: float) -> None:
        self._due = now + self._interval
        self._timer = self._loop.call_at(self._due, self._wake)

    def _wake(self) -> None:
        now = self._loop.time()
        self._note(max(now, self._due))  # a loop may be early by the resolution of its clock
        self._wait(now)

    def _note(self, now: float) -> None:
        late = now - self._due
        while late >= 0:
            self._late[round(late / _UNIT)] += 1
            late -= self._interval
