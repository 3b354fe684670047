"""``run_sync``: a Ctrl-C ends a run where it can be ended, and what it has is kept."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from types import FrameType

import pytest

from pytest_kvcache.plugin.sync import run_sync

from .conftest import PASSING

INTERRUPTED = """
import asyncio
import signal
from pytest_kvcache import experiment

def interrupted(*arguments, conclude=experiment.conclude):
    signal.raise_signal(signal.SIGINT)
    return conclude(*arguments)

experiment.conclude = interrupted
"""


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_ctrl_c_waits_for_the_next_await() -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            interrupt()
            seen.append("rest of the step")
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            seen.append("end")

    with pytest.raises(KeyboardInterrupt):
        run_sync(work(), "")
    assert seen == ["rest of the step", "end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_ctrl_c_wakes_who_waits_and_is_told_whatever_became_of_it() -> None:
    async def deaf() -> str:
        asyncio.get_running_loop().call_later(0.01, interrupt)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "as if nothing had happened"
        raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        run_sync(deaf(), "")


def test_the_second_ctrl_c_does_not_wait() -> None:
    seen: list[str] = []

    async def stuck() -> None:
        try:
            interrupt()
            interrupt()
            seen.append("not reached")
        finally:
            seen.append("end")

    with pytest.raises(KeyboardInterrupt):
        run_sync(stuck(), "")
    assert seen == ["end"]


def test_a_handler_of_the_users_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def theirs(number: int, frame: FrameType | None) -> None:
        seen.append(number)

    async def work() -> str:
        interrupt()
        return "done"

    before = signal.signal(signal.SIGINT, theirs)
    try:
        assert run_sync(work(), "") == "done"
        assert signal.getsignal(signal.SIGINT) is theirs
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_another_thread() -> None:
    async def work() -> str:
        return "done"

    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(run_sync(work(), "")))
    thread.start()
    thread.join()
    assert seen == ["done"]


def test_a_ctrl_c_while_the_waterfall_is_made_loses_nothing(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(INTERRUPTED)
    pytester.makepyfile(PASSING)
    words = ["-p", "no:cacheprovider", "--kv-endpoint=sim", "--kv-report=out.json"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=pytester.path, capture_output=True, text=True, check=False
    )
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    report = (pytester.path / "out.json").read_text()
    assert '"interrupted": true' in report
    assert '"hit_tokens": 1024' in report
