"""One endpoint, one measured window at a time: a lock file that all workers and sessions of a machine share.

Counters belong to the server, so two windows that overlap would each count the other's traffic.
"""

from __future__ import annotations

import asyncio
import getpass
import hashlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ..endpoint import without_userinfo
from ..errors import EndpointError

WAIT_SECONDS = 1800.0
_POLL = 0.05


@contextmanager
def endpoint_lock(base: str, wait: float = WAIT_SECONDS) -> Iterator[None]:
    """Hold the machine-wide lock of one endpoint.

    Args:
        base: the endpoint's base URL.
        wait: seconds to wait for another window to end.

    Raises:
        EndpointError: still held after ``wait`` seconds.
    """
    lock, deadline = _lock(base), time.monotonic() + wait
    while not _try(lock, deadline, wait):
        time.sleep(_POLL)
    try:
        yield
    finally:
        lock.release()


@asynccontextmanager
async def aendpoint_lock(base: str, wait: float = WAIT_SECONDS) -> AsyncIterator[None]:
    """Do what :func:`endpoint_lock` does without blocking the event loop, so that runs of one test may wait in turn."""
    lock, deadline = _lock(base), time.monotonic() + wait
    while not _try(lock, deadline, wait):  # noqa: ASYNC110 - another process holds the file, no event can tell
        await asyncio.sleep(_POLL)
    try:
        yield
    finally:
        lock.release()


def folder_lock(folder: Path) -> FileLock:
    """Return the machine-wide lock of a folder, for who changes several of its files together."""
    return _lock(f"folder {folder.resolve()}")


def _lock(base: str) -> FileLock:
    path = _path(base)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    return FileLock(path, blocking=False, thread_local=False)


def _try(lock: FileLock, deadline: float, wait: float) -> bool:
    try:
        lock.acquire()
    except Timeout:
        if time.monotonic() > deadline:
            raise EndpointError(
                f"another process has been measuring this endpoint for {wait:g} s (lock file {lock.lock_file});"
                " wait for it or stop it"
            ) from None
        return False
    return True


def _path(base: str) -> Path:
    # The name is a digest because the URL may hold user-info; the folder is the user's own. A container's user may
    # have a number and no name.
    name = hashlib.sha256(os.fsencode(without_userinfo(base))).hexdigest()[:24]
    user = os.getuid() if hasattr(os, "getuid") else getpass.getuser()
    return Path(tempfile.gettempdir()) / f"pytest-kvcache-{user}" / f"{name}.lock"
