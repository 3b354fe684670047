"""One end of the socket between the parent and a process that sends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from .frames import Frame, Frames, framed


class Link(asyncio.Protocol):
    """Takes and tells frames, until the other end is gone.

    Args:
        take: receives each frame.
        lost: called once, when there will be no more.
    """

    def __init__(self, take: Callable[[Frame], None], lost: Callable[[], None]) -> None:
        self._take = take
        self._on_lost = lost
        self._frames = Frames()
        self._told: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    async def over(cls, sock: socket.socket, take: Callable[[Frame], None], lost: Callable[[], None]) -> Link:
        """Return the end that is this socket, which it closes."""
        sock.setblocking(False)
        _, link = await asyncio.get_running_loop().create_connection(lambda: cls(take, lost), sock=sock)
        return link

    def tell(self, *parts: Any) -> None:
        """Send a frame; into the void when the other end is gone.

        All that is told in one turn of the loop goes together: each write costs the one end a call of the system and
        the other one a waking up.

        Raises:
            ValueError: a part is not of a built-in type.
        """
        self._told.append(framed(*parts))
        if len(self._told) == 1:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(self._told))
        self._told.clear()

    async def close(self) -> None:
        """Close this end at once; what is not yet sent is lost."""
        if self._transport is not None:
            self._transport.abort()
        await asyncio.wait({self.closed})

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See :class:`asyncio.BaseProtocol`."""
        self._transport = transport  # type: ignore[assignment] # a socket's is a whole one

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`."""
        for frame in self._frames.feed(data):
            self._take(frame)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio names it by position
        """See :class:`asyncio.BaseProtocol`."""
        self._on_lost()
        if not self.closed.done():
            self.closed.set_result(None)
