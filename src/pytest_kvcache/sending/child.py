"""A process that sends: one event loop, one client, and the calls that its parent hands to it."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any

from ..client import Client
from ..distribution import Latency
from ..garbage import seldom
from ..lag import LagMeter
from ..replies import UsageReading
from . import wire
from .frames import Frame
from .link import Link


async def serve(sock: socket.socket) -> None:
    """Send what comes through a socket until the other end is gone, however the parent died."""
    child = _Child()
    child.link = await Link.over(sock, child.take, child.lost)
    start = await child.started
    if start is None:
        return
    number, endpoint, speaking, folder = start
    os.chdir(folder)  # where relative paths of the environment, such as SSL_CERT_FILE, lead
    async with Client(wire.endpoint_of(endpoint)) as client:
        if speaking is not None:
            client.speak(**speaking)
        child.client = client
        child.link.tell("reply", number)
        try:
            with seldom():
                await child.over
        finally:
            await child.stop()


class _Child:
    """The calls in flight, and what the parent says of them: a frame's kind is the name of what takes it."""

    client: Client
    link: Link

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.started: asyncio.Future[Frame | None] = self._loop.create_future()
        self.over: asyncio.Future[None] = self._loop.create_future()
        self._usages: dict[int, tuple[UsageReading, ...]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._meter: LagMeter | None = None

    def take(self, frame: Frame) -> None:
        kind, *rest = frame
        getattr(self, f"_{kind}")(*rest)

    def lost(self) -> None:
        for waited in (self.started, self.over):
            if not waited.done():
                waited.set_result(None)

    async def stop(self) -> None:
        """End what is in flight."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _work(self, number: int, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[number] = self._loop.create_task(work)
        task.add_done_callback(partial(self._ended, number))

    def _ended(self, number: int, task: asyncio.Task[None]) -> None:
        del self._tasks[number]
        # A defect of ours is no request's outcome: it ends this process, which the parent tells.
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.over.done():
            self.over.set_exception(error)

    # --- calls -------------------------------------------------------------------------------------------------------

    def _usage(self, number: int, packed: Frame) -> None:
        self._usages[number] = wire.usage_of(packed)

    def _call(self, number: int, api: str, model: str, samples: int, usage: int, body: Frame) -> None:
        self._work(number, self._send(number, api, model, samples, usage, body))

    def _drop(self, number: int) -> None:
        if number in self._tasks:
            self._tasks[number].cancel()

    async def _send(self, number: int, api: str, model: str, samples: int, usage: int, body: Frame) -> None:
        exchange = await self.client.send(wire.call_of(api, model, samples, self._usages[usage], body))
        self.link.tell("answer", number, wire.packed_exchange(exchange))

    # --- questions ---------------------------------------------------------------------------------------------------

    def _start(self, number: int, *told: Any) -> None:
        self.started.set_result((number, *told))

    def _clock(self, number: int) -> None:
        self.link.tell("reply", number, time.monotonic())

    def _begin(self, number: int) -> None:
        self._read_meter()  # of a window that was broken off
        self._meter = LagMeter()
        self._meter.start()
        self.link.tell("reply", number)

    def _end(self, number: int) -> None:
        self.link.tell("reply", number, *self._read_meter())

    def _read_meter(self) -> tuple[Frame, float | None]:
        meter, self._meter = self._meter, None
        if meter is None:
            return wire.packed_latency(Latency()), None
        meter.stop()
        return wire.packed_latency(meter.lag), meter.busy
