"""A process that sends, as its parent sees it: how it starts, what is in flight in it, and that it always ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from ..client import Call
from ..distribution import Latency
from ..endpoint import Endpoint
from ..errors import ConfigurationError, SenderError
from ..model import Exchange, Failure
from ..replies import UsageReading
from ..unquoted import unquoted
from . import wire
from .frames import Frame
from .link import Link

DIED = "process"
"""Kind of the failure of a request whose sending process died."""

_START_SECONDS = 30.0
_REPLY_SECONDS = 10.0
_STOP_SECONDS = 5.0
_LOOK = 0.005  # seconds between two looks whether it has ended
_NEEDED = ("PATH", "HOME", "PYTHON", "LD_", "DYLD_")  # heads of variables that stay, whatever is in them

_Waiting = tuple[Call, float, "asyncio.Future[Exchange]"]  # and when it was handed over


class Sender:
    """A child process with a client of its own.

    Its standard input is one end of a socket, through which all passes, secrets too; when the other end is gone it
    ends, however the parent died.

    Args:
        endpoint: where and as whom.
        speaking: the keywords of :meth:`~pytest_kvcache.client.Client.speak`; None: as it is.
        lost: told when it has died.

    Attributes:
        waiting: what is in flight in it, oldest first.
    """

    def __init__(self, endpoint: Endpoint, speaking: Mapping[str, Any] | None, lost: Callable[[Sender], None]) -> None:
        self.waiting: dict[int, _Waiting] = {}
        self._endpoint, self._speaking, self._on_lost = endpoint, speaking, lost
        self._numbers = count()
        self._usages: dict[tuple[UsageReading, ...], int] = {}
        self._asked: dict[int, asyncio.Future[Frame]] = {}
        self._link: Link | None = None
        self._started = self._killed = False
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed in stop()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = self._spawned(theirs)

    def _spawned(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [sys.executable, "-m", __package__],
                stdin=theirs.fileno(),
                stdout=self._log,
                stderr=self._log,
                # Where it starts comes first on its path: no file of the user's folder must stand for a module.
                cwd=Path(__file__).parents[2],
                env=_environment(self._endpoint),
                start_new_session=True,  # a Ctrl-C in the terminal is for pytest
            )
        except OSError as error:
            self._socket.close()
            self._log.close()
            raise SenderError(f"a sending process did not start: {sys.executable}: {error.strerror}") from None

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def load(self) -> int:
        """How many requests are in flight in it."""
        return len(self.waiting)

    async def start(self) -> None:
        """Wait until it can send.

        Raises:
            SenderError: it ended, or said nothing within 30 s; shows the end of its error output.
            ConfigurationError: its clock is another one.
        """
        link = self._link = await Link.over(self._socket, self._take, self._lost)
        speaking = self._speaking and {n: dict(v) if isinstance(v, Mapping) else v for n, v in self._speaking.items()}
        try:
            await self._ask(
                "start", wire.packed_endpoint(self._endpoint), speaking, str(Path.cwd()), within=_START_SECONDS
            )
        except SenderError:
            self.kill()
            await link.closed
            raise SenderError(f"a sending process did not start; it said: {self._last_words() or 'nothing'}") from None
        self._started = True
        before = time.monotonic()
        (theirs,) = await self._ask("clock")
        after = time.monotonic()
        if not before <= theirs <= after:
            raise ConfigurationError(
                f"a sending process reads {theirs:.6f} s from the monotonic clock where this one reads"
                f" {before:.6f} to {after:.6f} s, so its times cannot be compared; send from this process alone"
                " (--kv-processes=1)"
            )

    async def send(self, call: Call, queued: float) -> Exchange:
        """Have a request sent; see :meth:`~pytest_kvcache.sending.pool.Pool.send`."""
        try:
            body = wire.packed_body(call.body)
        except (TypeError, ValueError, RecursionError) as error:
            failure = Failure("protocol", unquoted(f"{type(error).__name__}: {error}", call.body))
            return wire.failed(call, queued, time.monotonic(), failure)
        number = next(self._numbers)
        self._tell("call", number, call.api, call.model, call.samples, self._usage(call.usage), body)
        future: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
        self.waiting[number] = call, queued, future
        try:
            return await future
        finally:
            if self.waiting.pop(number, None) is not None:  # cancelled
                self._tell("drop", number)

    def _usage(self, usage: tuple[UsageReading, ...]) -> int:
        """Return the number of a way to read usage, which is told once."""
        number = self._usages.get(usage)
        if number is None:
            number = self._usages[usage] = len(self._usages)
            self._tell("usage", number, wire.packed_usage(usage))
        return number

    async def begin(self) -> None:
        """Have it watch its own event loop from here on."""
        await self._ask("begin")

    async def end(self) -> tuple[Latency, float | None]:
        """Return how late its event loop was, and how busy it was, since :meth:`begin`."""
        lag, busy = await self._ask("end")
        return wire.latency_of(lag), busy

    def kill(self) -> None:
        """End it at once: it does not answer."""
        self._killed = True
        self._process.kill()

    async def fate(self) -> str:
        """Return how a process that is lost has ended."""
        await self._exited()
        status = self._process.poll()
        if self._killed:
            return "it did not answer"
        if status is None or status >= 0:
            return f"exit status {status}{self._error()}"
        name = signal.Signals(-status).name
        return f"{name}: out of memory?" if name == "SIGKILL" else name

    async def stop(self) -> None:
        """Leave nothing of it: no process, no socket, no file."""
        try:
            with suppress(OSError):  # a fork of the parent may have it open, too
                self._socket.shutdown(socket.SHUT_RDWR)
            if self._link is not None:
                await self._link.close()
            self._socket.close()
            if self._started:  # else it would first load all it needs
                await self._exited()
        finally:
            self._process.kill()  # one that has ended does not mind
            self._process.wait()
            self._log.close()

    async def _exited(self) -> None:
        """Wait a while until the process has ended; a child watcher would be the whole program's."""
        deadline = time.monotonic() + _STOP_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:  # noqa: ASYNC110 - nothing sets an event
            await asyncio.sleep(_LOOK)

    # --- what passes through the socket ------------------------------------------------------------------------------

    def _tell(self, *parts: Any) -> None:
        if self._link is not None:
            self._link.tell(*parts)

    async def _ask(self, kind: str, *parts: Any, within: float | None = None) -> Frame:
        """Return what it replies.

        Raises:
            SenderError: it has ended; or it did not reply, and is ended.
        """
        within = within or _REPLY_SECONDS
        if self._link is None or self._link.closed.done():
            raise SenderError("a sending process has ended")
        number = next(self._numbers)
        reply = self._asked[number] = asyncio.get_running_loop().create_future()
        self._tell(kind, number, *parts)
        try:
            return await asyncio.wait_for(reply, within)
        except asyncio.TimeoutError:
            self.kill()
            await self._link.closed  # and all that it left behind has failed
            raise SenderError(f"a sending process did not reply within {within:g} s") from None
        finally:
            del self._asked[number]

    def _take(self, frame: Frame) -> None:
        kind, number, *rest = frame
        if kind == "reply":
            reply = self._asked.get(number)
            if reply is not None and not reply.done():
                reply.set_result(tuple(rest))
            return
        waiting = self.waiting.pop(number, None)
        if waiting is not None:  # else it was cancelled
            call, queued, future = waiting
            if not future.done():
                future.set_result(wire.exchange_of(call, queued, rest[0]))

    def _lost(self) -> None:
        now = time.monotonic()
        failure = Failure(DIED, "the process that sent it died")
        for call, queued, future in self.waiting.values():
            if not future.done():  # it may have been sent, and as early as it was handed over
                future.set_result(wire.failed(call, queued, now, failure, sent=queued))
        self.waiting.clear()
        for reply in self._asked.values():
            if not reply.done():
                reply.set_exception(SenderError("a sending process died"))
        self._on_lost(self)

    def _last_words(self) -> str:
        """Return the end of its error output: for a start, since later there may be parts of prompts in it."""
        self._log.seek(0)
        return " ".join(self._endpoint.redact(self._log.read()[-500:]).split())

    def _error(self) -> str:
        """Return the name of the error that ended it, and no more of it."""
        self._log.seek(0)
        named = re.findall(r"^[\w.]+(?=:|$)", self._log.read(), re.MULTILINE)
        return f", {named[-1]}" if named else ""


def _environment(endpoint: Endpoint) -> dict[str, str]:
    """Return the environment without what holds a secret: other users' tools list the environment of a process."""
    kept = {
        name: value for name, value in os.environ.items() if name.startswith(_NEEDED) or endpoint.redact(value) == value
    }
    if "PYTHONPATH" in kept:  # it starts in another folder
        folders = kept["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(str(Path(folder).absolute()) for folder in folders if folder)
    return kept
