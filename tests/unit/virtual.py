"""An event loop whose time passes only when all tasks wait, and then at once: exact to the float, no real waiting."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
Now = Callable[[], float]


class _Skipping(selectors.DefaultSelector):
    now = 1000.0  # no test may take the start for zero

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("every task waits for another one")
        self.now += timeout
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.clock = _Skipping()
        self.timers: list[asyncio.TimerHandle] = []
        super().__init__(self.clock)

    def call_at(self, when: float, *how: Any, **more: Any) -> asyncio.TimerHandle:
        timer = super().call_at(when, *how, **more)
        self.timers.append(timer)
        return timer

    def time(self) -> float:
        return self.clock.now


def play(work: Callable[[Now], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine, made with the loop's clock, and see that it leaves no task and no timer behind."""
    loop = _Loop()

    async def alone() -> T:
        try:
            return await work(loop.time)
        finally:
            assert len(asyncio.all_tasks()) == 1
            assert [t.when() for t in loop.timers if t.when() > loop.time() and not t.cancelled()] == []

    try:
        return loop.run_until_complete(alone())
    finally:
        loop.close()
