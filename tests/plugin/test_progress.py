"""How far a run is: a bar on a terminal, plain lines elsewhere, nothing under -q or on a worker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_kvcache.model import Level
from pytest_kvcache.plugin import progress

from .conftest import PASSING, Run

BELOW, BACK = "\x1bD\x1b[A\x1b7\r\n\x1b[K", "\x1b8"
FRAME = re.escape(BELOW) + ".*?" + re.escape(BACK)
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


def on_a_terminal(folder: Path, *words: str, environment: dict[str, str]) -> tuple[int, str]:
    """Run pytest on a pseudo-terminal and return its status and all that it wrote there."""
    import pty

    master, slave = pty.openpty()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *words]
    inherited = {name: value for name, value in os.environ.items() if name not in ("CI", "BUILD_NUMBER", "COLUMNS")}
    process = subprocess.Popen(
        command, cwd=folder, stdin=slave, stdout=slave, stderr=slave, env={**inherited, **environment}
    )
    os.close(slave)
    written = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not piece:
            break
        written += piece
    os.close(master)
    return process.wait(), written.decode().replace("\r\r\n", "\r\n")  # a terminal adds its own


def test_short_runs_stay_silent(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(PASSING)
    run(f"--kv-endpoint={sim}").stdout.no_re_match_line(LINES)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_bar_on_a_terminal_that_goes_away_again(pytester: pytest.Pytester, sim: str) -> None:
    pytester.makepyfile(test_it=PASSING + PASSING.replace("import pytest", "").replace("test_shared", "test_again"))
    status, shown = on_a_terminal(pytester.path, f"--kv-endpoint={sim}", environment={"TERM": "xterm"})
    assert status == 0
    bars = [piece.partition(BACK)[0] for piece in shown.split(BELOW)[1:]]
    assert bars[0] == "test_shared: prefill 1/2 [###############...............]"
    assert bars[-1] == ""
    without = re.sub(re.escape(BELOW) + ".*?" + re.escape(BACK), "", shown, flags=re.DOTALL)
    assert re.search(r"test_it\.py \S*\.\S*\.", without)  # the dots stand on one line, as without a bar


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"TERM": "xterm", "CI": "true"}, {"TERM": ""}])
def test_no_bar_where_nobody_looks_or_the_cursor_does_not_obey(
    pytester: pytest.Pytester, sim: str, environment: dict[str, str]
) -> None:
    pytester.makepyfile(PASSING)
    status, shown = on_a_terminal(pytester.path, f"--kv-endpoint={sim}", environment=environment)
    assert (status, BACK in shown, ": prefill" in shown) == (0, False, False)


class Screen:
    """Stands for pytest's terminal reporter, the capture manager and the config."""

    def __init__(self, *, tty: bool, verbosity: int = 0) -> None:
        self.isatty = tty
        self.lines: list[str] = []
        self.pluginmanager = self
        self._verbosity = verbosity

    def getplugin(self, name: str) -> Screen | None:
        return self if name == "terminalreporter" else None

    def get_verbosity(self) -> int:
        return self._verbosity

    def write_line(self, line: str) -> None:
        self.lines.append(line)

    def flush(self) -> None:
        pass


def shown(screen: Screen, name: str = "test_load") -> Any:
    return progress.Progress.of(screen, name)  # type: ignore[arg-type] # it asks a config for no more than this


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    """A terminal of 100 columns; returns the bars that were drawn since the last call."""
    monkeypatch.setattr(progress, "_BAR_EVERY", 0.0)
    for name, value in {"TERM": "xterm", "CI": "", "BUILD_NUMBER": "", "COLUMNS": "100"}.items():
        monkeypatch.setenv(name, value)

    def drawn() -> list[str]:
        written = capsys.readouterr().out
        assert "".join(re.findall(FRAME, written, flags=re.DOTALL)) == written
        return [frame.removeprefix(BELOW).removesuffix(BACK) for frame in re.findall(FRAME, written, flags=re.DOTALL)]

    return drawn


def test_a_load_tells_its_level_period_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.0)
    screen = Screen(tty=False)
    bar = shown(screen)
    bar.load(Level(concurrency=12), 17.4, 310, period=4)
    bar.load(Level(rate=2.5), -0.3, 7)
    assert screen.lines == [
        "test_load: concurrency 12, period 4, 17 s left, 310 requests",
        "test_load: 2.5 req/s, 0 s left, 7 requests",
    ]
    bar.close()
    assert capsys.readouterr().out == ""
    assert shown(Screen(tty=True, verbosity=-1)) is None


def test_the_bar_of_a_load_fills_with_time_and_starts_anew_with_a_level(bars: Callable[[], list[str]]) -> None:
    bar = shown(Screen(tty=True))
    filled = []
    for level, left in ((100, 60.0), (100, 45.0), (100, 0.0), (2, 60.0), (2, 30.0)):
        bar.load(Level(concurrency=level), left, 1)
        [drawn] = bars()
        filled.append(drawn.count("#"))
        assert drawn.count("#") + drawn.count(".") == 30
    assert filled == [0, 7, 30, 0, 15]
    bar.close()
    assert bars() == [""]
    bar.close()
    assert bars() == []


@pytest.mark.parametrize(
    ("columns", "name", "drawn"),
    [
        (80, "test_it", "test_it: load 3/4 [######################........]"),
        (40, "test_it", "test_it: load 3/4 [##############.....]"),
        (29, "test_it", "test_it: load 3/4 [######..]"),
        (28, "test_it", "test_it: load 3/4"),
        (10, "test_it", ": load 3/4"[1:]),
        (40, "test_" + "x" * 60, "x" * 29 + ": load 3/4"),
        (40, "test_" + "\u65e5" * 12, "test_" + "\u65e5" * 12 + ": load 3/4"),
        (38, "test_" + "\u65e5" * 12, "st_" + "\u65e5" * 12 + ": load 3/4"),
        (80, "test[\x1b[31m\u202e\udc80]", "test[\\x1b[31m\\u202e\\udc80]: load 3/4 [######################........]"),
    ],
)
def test_a_bar_takes_one_line_of_any_terminal(
    bars: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, columns: int, name: str, drawn: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown(Screen(tty=True), name)("load", 3, 4)
    assert bars() == [drawn]


def test_a_terminal_that_does_not_know_its_width(
    bars: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress.shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((0, 0)))
    shown(Screen(tty=True), "x" * 100)("load", 3, 4)
    assert bars() == ["x" * 69 + ": load 3/4"]


def test_requests_of_a_load_that_lasts_are_no_share_of_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.0)
    screen = Screen(tty=False)
    bar = shown(screen)
    bar("load", 310, 0)
    assert screen.lines == []
    bar("load", 310, 400)
    assert screen.lines == ["test_load: load 310/400"]


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


def test_what_is_shown_is_limited_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    screen = Screen(tty=False)
    bar = shown(screen)
    for second in range(31):
        now[0] = float(second)
        bar.load(Level(concurrency=1), 60.0 - second, second)
    assert [line.split()[3] for line in screen.lines] == ["50", "40", "30"]  # s left, at 10, 20 and 30 s
