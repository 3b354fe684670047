"""Run a coroutine from a sync test, leaving no trace on the thread's event loop policy."""

from __future__ import annotations

import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import ConfigurationError

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


def run_sync(coroutine: Coroutine[Any, Any, T], instead: str) -> T:
    """Return the coroutine's result, run in a loop of its own that ends here.

    ``asyncio.run`` is not used because it replaces and then removes the thread's current loop, which belongs to the
    user's async runner. A Ctrl-C cancels the coroutine and lets it finish, so that it can keep what it measured and
    close what it opened.

    Args:
        coroutine: not started.
        instead: what to write in a test that already runs in a loop.

    Raises:
        ConfigurationError: called inside a running event loop.
        KeyboardInterrupt: after a Ctrl-C, whatever the coroutine made of it.
    """
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        coroutine.close()
        raise ConfigurationError(f"this is an async test: write `{instead}`")
    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(coroutine)
        try:
            with _interrupting(task):
                return loop.run_until_complete(task)
        except KeyboardInterrupt:
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
            raise
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@contextmanager
def _interrupting(task: asyncio.Task[Any]) -> Iterator[None]:
    """Let the first Ctrl-C cancel a task instead of raising in the middle of whatever runs; the second one raises.

    An exception out of nowhere would leave connections half open and lose what is between two awaits. Python's own
    runner does the same from 3.11 on. Another thread gets no signals, and a handler of somebody else's stays.
    """
    interrupted = False

    def interrupt(number: int, frame: Any) -> None:
        nonlocal interrupted
        if interrupted:
            signal.default_int_handler(number, frame)
        interrupted = True
        task.cancel()
        task.get_loop().call_soon_threadsafe(lambda: None)  # wakes it when it waits

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if interrupted:
            raise KeyboardInterrupt
