"""How far a run is: a bar on a terminal, plain lines elsewhere, nothing under -q or on a worker."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
