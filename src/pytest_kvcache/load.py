"""Sending: sessions when they are due, each request when its turn comes. Failed requests are data; nothing vanishes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from .gate import Closed, Gate
from .ledger import Place as Place
from .model import Exchange, Request, Session
from .pace import Pace

Send = Callable[[Request], Awaitable[Exchange]]
Progress = Callable[[int], None]


class Into(Protocol):
    """Receives exchanges: a dict does, and so does a :class:`~pytest_kvcache.ledger.Ledger`."""

    def __setitem__(self, place: Place, exchange: Exchange, /) -> None: ...
    def __len__(self) -> int: ...


async def drive(
    sessions: Iterable[Session],
    send: Send,
    pace: Pace,
    *,
    into: Into,
    progress: Progress | None = None,
    now: Callable[[], float] = time.monotonic,
    gate: Gate | None = None,
) -> None:
    """Play sessions at a pace until the last one has ended; each has one request in flight.

    In an open loop a session begins when it is due, whether or not others have ended, and the first request of it has
    its due time as ``scheduled``. Who is late is sent at once, and nothing is skipped: the delay, the wait for one of
    ``pace.concurrency`` places included, is part of the latency. Later requests of a session wait for the previous
    answer and their ``pause``, as all do in a closed loop; they are scheduled by no clock.

    A request with a time of its own (:attr:`~pytest_kvcache.model.Request.due`) is due so many seconds after driving
    began, whatever the pace says of its session. A later one of a session is scheduled for then, or for the previous
    answer and its ``pause`` where these come later: whoever the trace recorded would have waited for that answer too,
    so the wait is no part of the latency. Sessions that begin on the clock must come in the order in which they are
    due: none is begun before the one ahead of it.

    However it ends, no task is left and every session is closed.

    Args:
        sessions: made one ahead of its time, so that making it delays nothing and memory does not grow with them.
        send: never raises for what a server does.
        pace: when sessions begin.
        into: receives each exchange under its place, so that a cancelled run keeps what it has.
        progress: told how many requests are done after each.
        now: monotonic seconds, on the clock of the exchanges.
        gate: of this pace, for who changes it meanwhile. When it is closed no session begins, and who is going ends
            after the request in flight; so do those that are more than it allows by then.

    Raises:
        Exception: whatever a session raised; all others are ended first.
    """
    crew, gate = _Crew(), gate or Gate(pace, now)
    play = _Play(crew, send, into, progress, now, gate)
    crew.start(play.begin(sessions))
    try:
        await crew.over
    finally:
        gate.close()
        await crew.dismiss()
        play.close()


def in_order(exchanges: dict[Place, Exchange]) -> tuple[Exchange, ...]:
    """Return the exchanges session by session, each in the order of its requests."""
    return tuple(exchange for _, exchange in sorted(exchanges.items(), key=lambda item: item[0]))


@dataclass(slots=True)
class _Play:
    crew: _Crew
    send: Send
    into: Into
    progress: Progress | None
    now: Callable[[], float]
    gate: Gate
    going: set[Session] = field(default_factory=set)

    async def begin(self, sessions: Iterable[Session]) -> None:
        """Start every session in its time."""
        gate = self.gate
        gate.open()
        for number, session in enumerate(sessions):
            self.going.add(session)
            moment = gate.due()
            request = next(session, None)
            if request is not None and request.due is not None:
                moment = gate.origin + request.due
            try:
                moment = await gate.admit(moment)
            except Closed:
                break
            self.crew.start(self._session(number, session, request, moment))
            await gate.let_begin(on_time=moment is not None)

    async def _session(self, number: int, session: Session, request: Request | None, moment: float | None) -> None:
        turn, due = 0, None
        if moment is not None and request is not None:
            due = moment + request.pause
        while request is not None:
            self.into[number, turn] = exchange = await self._exchange(request, due)
            if self.progress is not None:
                self.progress(len(self.into))
            turn += 1
            try:
                request = session.send(exchange)
            except StopIteration:
                break
            if self.gate.leaves:
                session.close()
                break
            due = self._later(request, exchange.end)
        self.going.discard(session)
        self.gate.leave()

    def _later(self, request: Request, answered: float) -> float | None:
        """Return when a later request of a session is due; None: once its pause is over, by no clock."""
        return None if request.due is None else max(self.gate.origin + request.due, answered + request.pause)

    async def _exchange(self, request: Request, due: float | None) -> Exchange:
        if due is None:
            if request.pause:
                await asyncio.sleep(request.pause)
            return await self.send(request)
        await self._until(due)
        return replace(await self.send(request), scheduled=due)

    async def _until(self, moment: float) -> None:
        while (left := moment - self.now()) > 0:  # noqa: ASYNC110 - a timer may be early by the clock's resolution
            await asyncio.sleep(left)

    def close(self) -> None:
        """Close the sessions that have not ended, whatever one of them raises."""
        with ExitStack() as closing:
            for session in self.going:
                closing.callback(session.close)


class _Crew:
    """Tasks that end together, at the first error of one of them (asyncio.TaskGroup needs Python 3.11).

    Attributes:
        over: done when the last task has ended; raises the first error.
    """

    def __init__(self) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._working: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._working.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        error = None if task.cancelled() else task.exception()
        if self.over.done():
            return
        if task.cancelled():
            self.over.cancel()
        elif error is not None:
            self.over.set_exception(error)
        elif not self._working:
            self.over.set_result(None)

    async def dismiss(self) -> None:
        """Cancel the tasks that are left and wait for their end."""
        left = list(self._working)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
