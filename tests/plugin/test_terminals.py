"""Any terminal: wordy or quiet, with and without colours, and of any encoding."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_kvcache.report.text import fitting, visible, width

from .conftest import FAILING, PASSING, Run

TESTS = PASSING + FAILING.replace("import pytest", "").replace("test_shared", "test_low")
EVIDENCE, TABLE, HEADER = "Captured kvcache call", "= kvcache =", "kvcache: endpoint="


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((), (True, True, True, True)),
        (("-v",), (True, True, True, True)),
        (("-q",), (True, True, False, False)),
        (("-qq",), (True, True, False, False)),
        (("-q", "--no-summary"), (False, False, False, False)),
        (("--no-summary",), (False, False, True, False)),
        (("--no-header",), (True, True, False, True)),
        (("--tb=no",), (False, True, True, True)),
        (("--show-capture=no",), (False, True, True, True)),
        (("-p", "no:terminal"), (False, False, False, False)),
        (("-s",), (True, True, True, True)),
    ],
)
def test_what_is_shown(
    pytester: pytest.Pytester, run: Run, sim: str, words: tuple[str, ...], shown: tuple[bool, ...]
) -> None:
    pytester.makepyfile(test_it=TESTS)
    result = run(f"--kv-endpoint={sim}", *words)
    output = result.stdout.str()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    rows = [line for line in output.splitlines() if line.startswith(("pass  ", "fail  "))]
    passed = any(line.endswith("test_it.py::test_shared") for line in rows)
    assert (EVIDENCE in output, TABLE in output, HEADER in output, passed) == shown
    assert result.stderr.str() == ""


def written(folder: Path, *words: str, **variables: str) -> bytes:
    """What a process writes whose output is no terminal."""
    (folder / "test_it.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    ours = ("PYTEST_", "PYTHONIOENCODING", "PYTHONUTF8", "LC_", "LANG", "NO_COLOR", "FORCE_COLOR", "PY_COLORS")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *words]
    ended = subprocess.run(command, cwd=folder, env={**inherited, **variables}, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (pytest.ExitCode.TESTS_FAILED, b"")
    return ended.stdout


@pytest.mark.parametrize(
    ("encoding", "variables"),
    [
        ("ascii", {"PYTHONIOENCODING": "ascii"}),
        ("ascii", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
        ("cp1252", {"PYTHONIOENCODING": "cp1252"}),
        ("cp437", {"PYTHONIOENCODING": "cp437"}),
        ("utf-8", {"PYTHONIOENCODING": "utf-8", "COLUMNS": "40", "TERM": "dumb"}),
    ],
    ids=["ascii", "C", "cp1252", "cp437", "narrow"],
)
def test_encodings(tmp_path: Path, sim: str, encoding: str, variables: dict[str, str]) -> None:
    words = [f"--kv-endpoint={sim}", "--kv-markdown=kv.md", "--junitxml=junit.xml"]
    output = written(tmp_path, *words, **variables).decode(encoding)
    plus, micro, dot = ("+/-", "us", "|") if encoding == "ascii" else ("±", "µs", "·")
    assert f"hit rate 0.500, wanted 0.900 {plus} 0.000 (0.400 below): 1,024 of 2,048 tokens hit" in output
    assert f"\n  1,024 of 2,048 hit, by counters {dot} 8 requests {dot} sim " in output  # a line of its own
    assert f" {micro}, " in output
    assert "\\x" not in output
    assert "\\u" not in output
    assert "±" in (tmp_path / "kv.md").read_text(encoding="utf-8")  # files do not depend on the terminal
    assert "±" in (tmp_path / "junit.xml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("variables", "coloured"), [({"NO_COLOR": "1"}, False), ({"FORCE_COLOR": "1"}, True)])
def test_colours(tmp_path: Path, sim: str, variables: dict[str, str], coloured: bool) -> None:
    output = written(tmp_path, f"--kv-endpoint={sim}", **variables)
    assert (b"\x1b[" in output) is coloured
    ours = [line for line in output.splitlines() if line.startswith((b"pass ", b"fail ", b"  an ideal"))]
    assert len(ours) == 3
    assert b"\x1b" not in b"".join(ours)


@pytest.mark.parametrize(
    ("text", "encoding", "shown"),
    [
        ("0.9 ± 0.1 · 3 µs × 2 → …", "utf-8", "0.9 ± 0.1 · 3 µs × 2 → …"),
        ("0.9 ± 0.1 · 3 µs × 2 → …", "ascii", "0.9 +/- 0.1 | 3 us x 2 -> ..."),
        ("0.9 ± 0.1 · 3 µs × 2 → …", "cp1252", "0.9 ± 0.1 · 3 µs × 2 -> …"),
        ("a\n日\n", "ascii", "a\n\\u65e5\n"),
        ("±", None, "+/-"),
    ],
)
def test_what_an_encoding_lacks(text: str, encoding: str | None, shown: str) -> None:
    assert fitting(text, encoding) == shown


def test_width_in_columns() -> None:
    assert [width(text) for text in ("", "abc", "日本", "é±")] == [0, 3, 4, 2]


def test_what_is_not_seen_is_written_out() -> None:
    assert visible("a\x1b[1m\n\t\u202e\u200f\ufeff\ud800 é日") == "a\\x1b[1m\\n\\t\\u202e\\u200f\\ufeff\\ud800 é日"
    assert visible("x" * 4000) == "x" * 4000
    assert visible("x" * 4001) == "x" * 4000 + "… (4,001 characters, f43765be)"
    assert visible("x" * 4000 + "a") != visible("x" * 4000 + "b")
