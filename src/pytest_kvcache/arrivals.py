"""When did each piece of an answer arrive? Stamped where the event loop has read the socket, before anybody is woken.

To wake a task for every event of a stream costs as much as to read it, and what is stamped in a task was stamped after
all that the loop had to do before. So a tap is put between the connection and aiohttp: it hands on all that it gets,
takes what came out of the body at once, and the task that waits is woken when the body has ended. It needs what asyncio
and aiohttp document: ``set_protocol`` of transports, ``read_nowait`` and ``is_eof`` of bodies. Where the transports are
not those of asyncio, as with uvloop 0.23, pieces are read and stamped in the task.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import aiohttp

Take = Callable[[bytes, float], object]


async def arrivals(response: aiohttp.ClientResponse, take: Take, deadline: float) -> None:
    """Read the body of a response to its end.

    Args:
        response: its headers have come.
        take: is given every piece as it arrives, and the moment, in monotonic seconds. It must neither wait nor raise.
        deadline: monotonic seconds.

    Raises:
        asyncio.TimeoutError: the body had not ended at the deadline.
        aiohttp.ClientError: the connection broke, or the body cannot be decoded.
    """
    tap = _Tap.of(response, take)
    if tap is not None:
        await tap.until(deadline)
    elif response.content.is_eof():  # all of it came with the headers
        await _read(response.content, take)
    else:
        await asyncio.wait_for(_read(response.content, take), deadline - time.monotonic())


async def _read(content: aiohttp.StreamReader, take: Take) -> None:
    while piece := await content.readany():
        take(piece, time.monotonic())


class _Tap(asyncio.Protocol):
    """Stands in for the protocol of a connection until the body has ended."""

    __slots__ = ("_content", "_ended", "_take", "_transport", "_under")

    def __init__(
        self, content: aiohttp.StreamReader, take: Take, transport: asyncio.Transport, under: asyncio.Protocol
    ) -> None:
        self._content, self._take = content, take
        self._transport, self._under = transport, under
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    def of(cls, response: aiohttp.ClientResponse, take: Take) -> _Tap | None:
        """Return one that is not in place yet; None: there is no connection, or none that can be tapped."""
        connection = response.connection
        transport = connection.transport if connection is not None else None
        if not isinstance(transport, asyncio.Transport):
            return None
        under = transport.get_protocol()
        return cls(response.content, take, transport, under) if isinstance(under, asyncio.Protocol) else None

    async def until(self, deadline: float) -> None:
        """Wait for the end of the body. As of :func:`arrivals`."""
        now = time.monotonic()
        self._transport.set_protocol(self)
        timer = asyncio.get_running_loop().call_later(deadline - now, self._end, asyncio.TimeoutError())
        try:
            self._drain(now)  # what came with the headers
            await self._ended
        finally:
            timer.cancel()
            self._remove()

    def _drain(self, at: float) -> None:
        content = self._content
        try:
            while piece := content.read_nowait():  # to take something may make more come
                self._take(piece, at)
        except Exception as error:
            self._end(error)
        else:
            if content.is_eof():
                self._end()

    def _end(self, error: Exception | None = None) -> None:
        self._remove()  # now: the connection may serve another request before the task is woken
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)

    def _remove(self) -> None:
        if self._transport.get_protocol() is self:
            self._transport.set_protocol(self._under)

    # --- what a transport tells its protocol -------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        at = time.monotonic()
        self._under.data_received(data)
        self._drain(at)

    def eof_received(self) -> bool | None:
        return self._under.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        at = time.monotonic()
        self._under.connection_lost(error)
        self._drain(at)
        self._end(aiohttp.ClientPayloadError("the connection was closed before the body had ended"))

    def pause_writing(self) -> None:
        self._under.pause_writing()

    def resume_writing(self) -> None:
        self._under.resume_writing()
