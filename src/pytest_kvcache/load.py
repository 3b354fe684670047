"""When to send: schedules and the driver. Failed requests are data; nothing escapes the loop and nothing vanishes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from .client import Call
from .model import Exchange

Send = Callable[[Call], Awaitable[Exchange]]
Progress = Callable[[int], None]


async def closed_loop(
    calls: Iterable[Call], send: Send, *, concurrency: int, into: dict[int, Exchange], progress: Progress | None = None
) -> None:
    """Keep ``concurrency`` requests in flight until all calls were sent and answered.

    Args:
        calls: made as they are needed, so that memory does not grow with their number.
        send: never raises for what a server does.
        concurrency: at least 1.
        into: receives each exchange under the position of its call, so that a cancelled run keeps what it has.
        progress: told how many are done after each.
    """
    numbered = enumerate(calls)

    async def worker() -> None:
        for position, call in numbered:  # one iterator, shared: the next free worker takes the next call
            into[position] = await send(call)
            if progress is not None:
                progress(len(into))

    workers = [asyncio.ensure_future(worker()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


def in_order(exchanges: dict[int, Exchange]) -> tuple[Exchange, ...]:
    """Return the exchanges in the order of their calls."""
    return tuple(exchange for _, exchange in sorted(exchanges.items()))
