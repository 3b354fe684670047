"""Who sends the requests of a load: this process, or several? And how busy were they with it?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from .client import Client
from .distribution import Latency, merged
from .lag import LagMeter
from .model import ClientLoad, Finding
from .sending.pool import Pool


class Senders:
    """Sends what is measured, from this process or from others, and tells how busy they were.

    Args:
        client: open.
        pool: other processes; None: this one sends.
    """

    def __init__(self, client: Client, pool: Pool | None) -> None:
        self.send = client.send if pool is None else pool.send
        self._pool = pool
        self._meter = LagMeter()

    @property
    def problem(self) -> Finding | None:
        """A process that died since the load began."""
        return None if self._pool is None else self._pool.problem

    async def begin(self) -> None:
        """A load begins."""
        if self._pool is not None:
            await self._pool.begin()
        self._meter = LagMeter()
        self._meter.start()

    async def end(self, queueing: Latency) -> ClientLoad:
        """A load has ended.

        Args:
            queueing: of its requests, until they were handed to the socket.
        """
        self._meter.stop()
        own = ClientLoad(self._meter.lag, queueing, self._meter.busy)
        if self._pool is None:
            return own
        theirs = await self._pool.end(queueing)
        busy = max((share for share in (own.busy, theirs.busy) if share is not None), default=None)
        return replace(theirs, lag=merged((own.lag, theirs.lag)), busy=busy)


@asynccontextmanager
async def senders(client: Client, processes: int) -> AsyncIterator[Senders]:
    """Have so many processes that send; with 1 it is this one."""
    async with AsyncExitStack() as stack:
        pool = None
        if processes > 1:
            pool = await stack.enter_async_context(Pool(client.endpoint, processes, client.spoken))
        yield Senders(client, pool)
