"""Which of several processes sends a request? Order, places and accounts stay with the caller."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from ..client import Call
from ..distribution import Latency, merged
from ..endpoint import Endpoint
from ..errors import ConfigurationError, SenderError
from ..model import ClientLoad, Exchange, Finding
from .sender import Sender

_LOOK = 5.0  # seconds between two looks for a process that does not answer
_GRACE = 30.0  # seconds after the timeout of a request until its process counts as hung


T = TypeVar("T")


class Pool:
    """Several processes that send to one endpoint, each over connections of its own.

    Open it before the window does: a process takes a third of a second to start. What only the load needs goes through
    here; one order of sessions, one ledger and one prediction remain, as they are where the exchanges arrive.

    Args:
        endpoint: where and as whom.
        processes: how many.
        speaking: the keywords of :meth:`~pytest_kvcache.client.Client.speak`; None: as it is.
    """

    def __init__(self, endpoint: Endpoint, processes: int, speaking: Mapping[str, Any] | None = None) -> None:
        self._endpoint, self._processes, self._speaking = endpoint, processes, speaking
        self._senders: list[Sender] = []
        self._alive: list[Sender] = []  # the one that got a request last stands last
        self._died: list[Sender] = []  # since the last `begin`
        self._look: asyncio.TimerHandle | None = None
        self._problem: Finding | None = None

    async def __aenter__(self) -> Pool:
        """Start the processes, all at once.

        Raises:
            SenderError: one did not start.
            ConfigurationError: this system cannot do it, or has not one clock for all processes.
        """
        if os.name != "posix":
            raise ConfigurationError(
                "several processes can send on Linux and macOS only; send from this one alone (--kv-processes=1)"
            )
        try:
            for _ in range(self._processes):
                self._senders.append(Sender(self._endpoint, self._speaking, self._lost))
            await _all(*(sender.start() for sender in self._senders))
        except BaseException:
            await self._stop()
            raise
        self._alive = list(self._senders)
        self._died.clear()
        self._look_for_hung()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stop()

    @property
    def pids(self) -> tuple[int, ...]:
        """Of all processes that were started."""
        return tuple(sender.pid for sender in self._senders)

    @property
    def problem(self) -> Finding | None:
        """Why what was sent between :meth:`begin` and :meth:`end` cannot be judged; None when no process died."""
        return self._problem

    async def send(self, call: Call) -> Exchange:
        """Have a request sent by the process with the fewest in flight; never raises for what becomes of it.

        A request that is in flight in a process that dies has failed, of the kind ``process``; whether the server got
        it is not known.

        Raises:
            SenderError: no process is left.
        """
        queued = time.monotonic()
        if not self._alive:
            raise SenderError("all sending processes have died, so nothing is sent any more")
        sender = min(self._alive, key=_load)
        if len(self._alive) > 1:
            self._alive.remove(sender)
            self._alive.append(sender)
        return await sender.send(call, queued)

    async def begin(self) -> None:
        """Begin to watch how busy the processes are; what was before is forgotten."""
        self._died.clear()
        self._problem = None
        await _all(*(sender.begin() for sender in self._alive), unless=SenderError)

    async def end(self, queueing: Latency | None = None) -> ClientLoad:
        """Return how busy the processes were since :meth:`begin`.

        Args:
            queueing: how long requests waited in the client, which is told with each of them.
        """
        loads = await _all(*(sender.end() for sender in self._alive), unless=SenderError)
        if self._died:
            fates = await asyncio.gather(*(sender.fate() for sender in self._died))
            self._problem = Finding(
                "KV130",
                f"{len(self._died)} of {self._processes} sending processes died ({', '.join(fates)}): the load was not"
                " the one that was asked for",
                "run it again; where memory is short, with fewer of them (--kv-processes)",
            )
        return ClientLoad(
            lag=merged(lag for lag, _ in loads),
            queueing=queueing or Latency(),
            busy=max((busy for _, busy in loads if busy is not None), default=None),
            processes=len(loads),
        )

    def _lost(self, sender: Sender) -> None:
        if sender in self._alive:
            self._alive.remove(sender)
            self._died.append(sender)

    def _look_for_hung(self) -> None:
        """End processes that keep a request for longer than it may take: a stopped one would keep it for ever."""
        latest = time.monotonic() - self._endpoint.timeout - _GRACE
        for sender in self._alive:
            _, queued, _ = next(iter(sender.waiting.values()), (None, latest, None))
            if queued < latest:
                sender.kill()
        self._look = asyncio.get_running_loop().call_later(_LOOK, self._look_for_hung)

    async def _stop(self) -> None:
        self._alive.clear()  # from here on no end of theirs is a death
        if self._look is not None:
            self._look.cancel()
        await asyncio.gather(*(sender.stop() for sender in self._senders))


def _load(sender: Sender) -> int:
    return sender.load


async def _all(*waits: Awaitable[T], unless: type[Exception] | tuple[()] = ()) -> list[T]:
    """Return all results but those that fail so; of other errors the first, when all have ended.

    No process may go on starting while it is being stopped.
    """
    results = await asyncio.gather(*waits, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, unless):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
