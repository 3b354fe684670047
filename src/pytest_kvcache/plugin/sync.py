"""Run a coroutine from a sync test, leaving no trace on the thread's event loop policy."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from ..errors import ConfigurationError

T = TypeVar("T")


def run_sync(coroutine: Coroutine[Any, Any, T], instead: str) -> T:
    """Return the coroutine's result, run in a loop of its own that ends here.

    ``asyncio.run`` is not used because it replaces and then removes the thread's current loop, which belongs to the
    user's async runner. A Ctrl-C cancels the coroutine and lets it finish, so that it can keep what it measured.

    Args:
        coroutine: not started.
        instead: what to write in a test that already runs in a loop.

    Raises:
        ConfigurationError: called inside a running event loop.
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
            return loop.run_until_complete(task)
        except KeyboardInterrupt:
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
            raise
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
