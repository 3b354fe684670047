"""Sending: sessions in flight, each request when it is due. Failed requests are data; nothing vanishes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from .model import Exchange, Request, Session

Place = tuple[int, int]
"""Number of a session and of a request in it."""

Send = Callable[[Request], Awaitable[Exchange]]
Progress = Callable[[int], None]


async def closed_loop(
    sessions: Iterable[Session],
    send: Send,
    *,
    concurrency: int,
    into: dict[Place, Exchange],
    progress: Progress | None = None,
) -> None:
    """Keep ``concurrency`` sessions going until all are over; each has one request in flight.

    Args:
        sessions: made as they are needed, so that memory does not grow with their number.
        send: never raises for what a server does.
        concurrency: at least 1.
        into: receives each exchange under its place, so that a cancelled run keeps what it has.
        progress: told how many requests are done after each.
    """
    numbered = enumerate(sessions)

    async def worker() -> None:
        for number, session in numbered:  # one iterator, shared: the next free worker takes the next session
            await _play(number, session, send, into, progress)

    workers = [asyncio.ensure_future(worker()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def _play(
    number: int, session: Session, send: Send, into: dict[Place, Exchange], progress: Progress | None
) -> None:
    turn = 0
    request = next(session, None)
    while request is not None:
        if request.pause:
            await asyncio.sleep(request.pause)
        into[number, turn] = exchange = await send(request)
        if progress is not None:
            progress(len(into))
        turn += 1
        try:
            request = session.send(exchange)
        except StopIteration:
            return


def in_order(exchanges: dict[Place, Exchange]) -> tuple[Exchange, ...]:
    """Return the exchanges session by session, each in the order of its requests."""
    return tuple(exchange for _, exchange in sorted(exchanges.items(), key=lambda item: item[0]))
