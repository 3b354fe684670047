"""The history as a file: it only grows, whoever writes at the same time, and whoever is killed while writing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.errors import ConfigurationError
from pytest_kvcache.regression import files, history

from ..report.test_files import room
from .made import CONTEXT


def record(nodeid: str = "test_a.py::test", **values: Any) -> dict[str, Any]:
    values = values or {
        "hit_rate": [0.5, 0.6],
        "hit_tokens": [50, 600],
        "query_tokens": [100, 1000],
        "ttft_p95": [0.1, 0.3],
    }
    groups = [{"where": "", "runs": 2, "values": values}]
    return {"nodeid": nodeid, "verdict": "pass", "context": dict(CONTEXT), "values": groups}


def line(**more: Any) -> dict[str, Any]:
    return history.line(record(**more), "s", "2026-01-02T03:04:05+00:00")


def test_a_line_is_small_and_flat() -> None:
    assert line() == {
        "schema": "pytest-kvcache-history/1",
        "session": "s",
        "time": "2026-01-02T03:04:05+00:00",
        "nodeid": "test_a.py::test",
        "verdict": "pass",
        "context": dict(CONTEXT),
        "runs": 2,
        "values": {
            "hit_rate": 650 / 1100,  # of the tokens of both, no mean of rates
            "hit_tokens": 650,
            "ttft_p95": pytest.approx(0.2),
            "query_tokens": 1100,
        },
    }


def test_values_that_are_not_known_are_left_out() -> None:
    assert line(ttft_p95=[None, 0.3], itl_p50=[None, None], hit_rate=[0.0, 0.0], query_tokens=[0, 0])["values"] == {
        "ttft_p95": 0.3,
        "query_tokens": 0,
    }


def test_a_line_is_bounded_whatever_the_number_of_levels() -> None:
    check = record()
    check["values"] = [{**check["values"][0], "where": f"concurrency {n}"} for n in range(500)]
    found = history.line(check, "s", "t")
    assert len(found["values"]) == 256
    assert found["values"]["ttft_p95 concurrency 0"] == pytest.approx(0.2)
    assert len(json.dumps(found)) < 15_000


def test_it_only_grows(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "h.jsonl"
    history.append(path, [])
    assert not path.exists()
    history.append(path, [line(), line(nodeid="b")])
    before = path.read_bytes()
    history.append(path, [line(nodeid="c")])
    assert path.read_bytes().startswith(before)
    found = history.read(path)
    assert [each["nodeid"] for each in found.lines] == ["test_a.py::test", "b", "c"]
    assert found.told(path) == ""


def test_a_torn_line_is_told_and_never_glued_to_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    history.append(path, [line(nodeid="a"), line(nodeid="b")])
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    found = history.read(path)
    assert [each["nodeid"] for each in found.lines] == ["a"]
    assert found.told(path) == f"{path}: lines that are left out: 1 cut off while being written"
    history.append(path, [line(nodeid="c")])
    found = history.read(path)
    assert [each["nodeid"] for each in found.lines] == ["a", "c"]
    assert found.problems == {"cut": 1}


@pytest.mark.parametrize("kept", [1, 50, 300, -1])
def test_wherever_a_line_is_torn_the_rest_is_kept(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "h.jsonl"
    history.append(path, [line(nodeid="a")])
    path.write_bytes(path.read_bytes()[:kept])
    history.append(path, [line(nodeid="b")])
    assert [each["nodeid"] for each in history.read(path).lines][-1] == "b"
    assert len(history.read(path).lines) == (2 if kept == -1 else 1)  # all but its end is a whole line


def test_lines_of_others_are_told(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    lines = [json.dumps(line()), '{"schema": "pytest-kvcache-history/2"}', "[]", '{"schema": 1}', "x", "", "7"]
    path.write_text(
        "\n".join([*lines, '{"schema": "pytest-kvcache-history/1", "nodeid": 1}', '{"schema": "other/1"}', ""])
    )
    found = history.read(path)
    assert len(found.lines) == 1
    assert found.problems == {"newer": 1, "foreign": 6}
    with pytest.raises(ConfigurationError, match="cannot be read"):
        history.read(tmp_path / "no.jsonl")


WRITER = """
import sys
from pathlib import Path
from pytest_kvcache.regression import history
path, name, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(times):
    history.append(path, [{"schema": history.SCHEMA, "nodeid": f"{name} {number}", "time": "t", "values": {},
                           "long": "x" * 20_000}] * 3)
    print(number, flush=True)
"""


def writer(path: Path, name: str, times: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, str(path), name, str(times)]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": ":".join(sys.path)}
    )


def test_sessions_at_the_same_time_write_one_behind_the_other(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    writers = [writer(path, name, 20) for name in "abc"]
    for each in writers:
        each.communicate(timeout=120)
    found = history.read(path)
    assert not found.problems
    ids = [each["nodeid"] for each in found.lines]
    assert sorted(ids) == sorted(f"{name} {number}" for name in "abc" for number in range(20) for _ in range(3))
    assert all(ids[at] == ids[at + 1] == ids[at + 2] for at in range(0, len(ids), 3))  # a session's lines together


def test_who_is_killed_leaves_what_others_can_go_on_with(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    process = writer(path, "killed", 100_000)
    assert process.stdout is not None
    process.stdout.readline()  # it has written
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    history.append(path, [line(nodeid="after")])
    found = history.read(path)
    assert found.lines[-1]["nodeid"] == "after"
    assert sum(found.problems.values()) <= 1


def test_a_disk_that_is_full_in_the_middle_of_a_line_leaves_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    history.append(path, [line(nodeid="before")])
    before = path.read_bytes()
    with room(len(before) + 20), pytest.raises(OSError, match="too large"):
        history.append(path, [line(), line()])
    assert path.read_bytes() == before


def test_a_file_is_held_by_whichever_name_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_SECONDS", 0.0)
    (tmp_path / "link").symlink_to(tmp_path / "h.jsonl")
    with files.locked(tmp_path / "h.jsonl"), pytest.raises(OSError, match="another session has held"):
        history.append(tmp_path / "link", [line()])


def test_who_holds_the_file_too_long_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_SECONDS", 0.0)
    path = tmp_path / "h.jsonl"
    with files.locked(path), pytest.raises(OSError, match="another session has held"):
        history.append(path, [line()])
    started = time.monotonic()
    history.append(path, [line()])
    assert time.monotonic() - started < 30


def test_what_cannot_be_written_is_known_before(tmp_path: Path) -> None:
    assert files.why_not(tmp_path / "a" / "b" / "h.jsonl") is None
    assert files.why_not(tmp_path) == "it is a folder"
    (tmp_path / "file").write_text("")
    assert files.why_not(tmp_path / "file") is None
    assert files.why_not(tmp_path / "file" / "h.jsonl") == f"{tmp_path / 'file'} is no folder"
