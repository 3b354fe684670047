"""How far a run is: a bar on a terminal, plain lines elsewhere, nothing under -q or on a worker."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_kvcache.model import Level
from pytest_kvcache.plugin import progress

from .conftest import PASSING, Run

ENVIRONMENT = {**os.environ, "TERM": "xterm"}
LINES = "test_shared: load [1-8]/8"


def test_lines_where_there_is_no_terminal(
    pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.0)
    pytester.makepyfile(PASSING)
    result = run(f"--kv-endpoint={sim}")
    result.stdout.re_match_lines(["test_shared: prefill 1/2", "test_shared: load 8/8"])
    assert "\r" not in result.stdout.str()
    run(f"--kv-endpoint={sim}", "-q").stdout.no_re_match_line(LINES)
    run(f"--kv-endpoint={sim}", "-n", "1").stdout.no_re_match_line(LINES)


def test_short_runs_stay_silent(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(PASSING)
    run(f"--kv-endpoint={sim}").stdout.no_re_match_line(LINES)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_bar_on_a_terminal_that_goes_away_again(pytester: pytest.Pytester, sim: str) -> None:
    import pty

    pytester.makepyfile(PASSING)
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--kv-endpoint={sim}"]
    process = subprocess.Popen(words, cwd=pytester.path, stdout=slave, stderr=slave, stdin=slave, env=ENVIRONMENT)
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(master)
    assert process.wait() == 0
    assert b"test_shared: prefill 1/2 [###############...............]" in shown
    assert shown.index(b"\x1b[K") > shown.index(b"test_shared: prefill")


class Screen:
    """Stands for pytest's terminal reporter, the capture manager and the config."""

    def __init__(self, *, tty: bool, verbosity: int = 0) -> None:
        self.isatty = tty
        self.written = ""
        self.pluginmanager = self
        self._verbosity = verbosity

    def getplugin(self, name: str) -> Screen | None:
        return self if name == "terminalreporter" else None

    def get_verbosity(self) -> int:
        return self._verbosity

    def write(self, text: str, *, flush: bool) -> None:
        assert flush
        self.written += text


def shown(screen: Screen) -> Any:
    return progress.Progress.of(screen, "test_load")  # type: ignore[arg-type] # it asks a config for no more than this


def test_a_load_tells_its_level_period_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.0)
    screen = Screen(tty=False)
    bar = shown(screen)
    bar.load(Level(concurrency=12), 17.4, 310, period=4)
    bar.load(Level(rate=2.5), -0.3, 7)
    assert screen.written == (
        "\ntest_load: concurrency 12, period 4, 17 s left, 310 requests\ntest_load: 2.5 req/s, 0 s left, 7 requests"
    )
    bar.close()
    assert "\x1b" not in screen.written
    assert shown(Screen(tty=True, verbosity=-1)) is None


def test_the_bar_of_a_load_fills_with_time_and_starts_anew_with_a_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_BAR_EVERY", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen(tty=True)
    bar = shown(screen)
    filled = []
    for level, left in ((100, 60.0), (100, 45.0), (100, 0.0), (2, 60.0), (2, 30.0)):
        screen.written = ""
        bar.load(Level(concurrency=level), left, 1)
        filled.append(screen.written.count("#"))
        assert screen.written.startswith("\r")
        assert screen.written.count("#") + screen.written.count("[") + screen.written.count(".") >= 30
    assert filled == [0, 7, 30, 0, 15]
    bar.close()
    assert screen.written.endswith("\r\x1b[K")


def test_requests_of_a_load_that_lasts_are_no_share_of_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.0)
    screen = Screen(tty=False)
    bar = shown(screen)
    bar("load", 310, 0)
    assert screen.written == ""
    bar("load", 310, 400)
    assert screen.written == "\ntest_load: load 310/400"


STEPS = """
def test_steps(kv, kv_workload):
    requests = kv_workload.shared_prefix(requests=8, input_len=64, hit_rate=0.5, output_len=1)
    kv.steps(requests, [1, 2], duration=1.2)
"""


def test_levels_tell_of_themselves(
    pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.0)
    pytester.makepyfile(STEPS)
    result = run(f"--kv-endpoint={sim}")
    result.stdout.re_match_lines([rf"test_steps: concurrency {level}, \d s left, \d+ requests" for level in (1, 2)])
    result.stdout.no_re_match_line("test_steps: load .*")


def test_a_shorter_bar_leaves_nothing_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_BAR_EVERY", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen(tty=True)
    bar = shown(screen)
    bar.load(Level(concurrency=100), 60.0, 1000)
    long = len(screen.written)
    screen.written = ""
    bar.load(Level(concurrency=2), 6.0, 1)
    assert len(screen.written) == long
    assert screen.written.endswith("]" + " " * (long - len(screen.written.rstrip())))


def test_what_is_shown_is_limited_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    screen = Screen(tty=False)
    bar = shown(screen)
    for second in range(31):
        now[0] = float(second)
        bar.load(Level(concurrency=1), 60.0 - second, second)
    assert screen.written.count("\n") == 3  # at 10, 20 and 30 s
