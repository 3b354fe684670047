"""A load while it runs, for whoever steers it: what is in flight, what has ended, and the gate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from .gate import Gate
from .ledger import Ledger
from .load import Send
from .model import Exchange, Measurement, Request


class Flying:
    """The requests in flight, oldest first."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}  # by number
        self._next = 0
        self._landing: asyncio.Future[None] | None = None
        self._until = 0

    def watched(self, send: Send, now: Callable[[], float]) -> Send:
        """Return a way to send that is watched here."""

        async def sending(request: Request) -> Exchange:
            number, self._next = self._next, self._next + 1
            self._since[number] = now()
            try:
                return await send(request)
            finally:
                del self._since[number]
                if number < self._until and not self._before(self._until):
                    self._land()

        return sending

    @property
    def oldest(self) -> float | None:
        """Since when the oldest request is in flight, monotonic seconds."""
        return next(iter(self._since.values()), None)

    def older_than(self, moment: float) -> int:
        """Return how many are in flight since before a moment."""
        return sum(since < moment for since in self._since.values())

    async def landed(self) -> None:
        """Wait until all that are in flight now have ended, failed or not."""
        self._until = self._next
        if self._before(self._until):
            self._landing = asyncio.get_running_loop().create_future()
            await self._landing

    def _land(self) -> None:
        landing, self._landing = self._landing, None
        if landing is not None and not landing.done():  # it is where who waited gave up
            landing.set_result(None)

    def _before(self, number: int) -> bool:
        oldest = next(iter(self._since), None)
        return oldest is not None and oldest < number

    def __len__(self) -> int:
        return len(self._since)


@dataclass(slots=True)
class Live:
    """A load while it runs.

    Attributes:
        gate: who may begin.
        ledger: what has ended.
        flying: what has not.
        now: monotonic seconds.
    """

    gate: Gate
    ledger: Ledger = field(default_factory=Ledger)
    flying: Flying = field(default_factory=Flying)
    now: Callable[[], float] = time.monotonic


class Steering(Protocol):
    """Decides how long a load lasts, and how hard it is, while it runs."""

    async def steer(self, live: Live) -> None:
        """Act until the load may end, and close its gate."""

    def completed(self, live: Live, measured: Measurement) -> Measurement:
        """Return the measurement with what it adds to it, once all requests have ended."""
