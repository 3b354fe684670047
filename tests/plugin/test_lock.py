"""One endpoint, one window at a time, for every process of the machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_kvcache.errors import EndpointError
from pytest_kvcache.plugin.lock import aendpoint_lock, endpoint_lock

BASE = "http://lock.test:1"


def test_a_second_holder_waits_and_says_for_what() -> None:
    with (
        endpoint_lock(BASE),
        pytest.raises(EndpointError, match=r"another process has been measuring this endpoint for 0.1 s \(lock file "),
        endpoint_lock(BASE, wait=0.1),
    ):
        pass
    with endpoint_lock(BASE, wait=0.1):
        pass


def test_other_endpoints_do_not_wait() -> None:
    with endpoint_lock(BASE), endpoint_lock(BASE + "1", wait=0.0):
        pass


def test_user_info_does_not_make_another_endpoint() -> None:
    with (
        endpoint_lock(BASE),
        pytest.raises(EndpointError),
        endpoint_lock(BASE.replace("//", "//a:b@"), wait=0.0),
    ):
        pass


@pytest.mark.asyncio
async def test_async_holders_wait_without_blocking_the_loop() -> None:
    async with aendpoint_lock(BASE):
        with pytest.raises(EndpointError):
            async with aendpoint_lock(BASE, wait=0.1):
                pass


def test_the_lock_of_a_killed_process_is_free() -> None:
    code = (
        "import os\nfrom pytest_kvcache.plugin.lock import endpoint_lock\n"
        f"with endpoint_lock({BASE!r}):\n    os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    with endpoint_lock(BASE, wait=0.0):
        pass
