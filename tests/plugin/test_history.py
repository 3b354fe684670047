"""``--kv-history``: one line a test and session, written by the controller when the session ends."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from .conftest import FAILING, PASSING, Run

QUICK = ("--kv-sample-interval=0",)
SUITE = PASSING + FAILING.replace("import pytest", "").replace("test_shared", "test_low")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_session_adds_one_line_a_test(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=SUITE + "\ndef test_other():\n    pass\n")
    path = pytester.path / "deep" / "h.jsonl"
    result = run(f"--kv-endpoint={sim}", *QUICK, "--kv-history=deep/h.jsonl")
    result.stdout.fnmatch_lines(["history deep/h.jsonl: 2 added"])
    first = path.read_bytes()
    run(f"--kv-endpoint={sim}", *QUICK, "--kv-history=deep/h.jsonl", "-n", "2", "-q")
    assert path.read_bytes().startswith(first)
    found = lines(path)
    assert [(each["nodeid"], each["verdict"]) for each in found] == 2 * [
        ("test_a.py::test_low", "fail"),
        ("test_a.py::test_shared", "pass"),
    ]
    assert len({each["session"] for each in found}) == 2
    assert found[0]["session"] == found[1]["session"]
    assert datetime.now(timezone.utc) - datetime.fromisoformat(found[0]["time"]) < timedelta(minutes=10)
    values = found[1]["values"]
    assert (values["hit_rate"], values["hit_tokens"], values["query_tokens"], found[1]["runs"]) == (0.5, 1024, 2048, 1)
    assert values["ttft_p50"] > 0
    assert found[1]["context"]["engine"] == "sim"
    assert all(len(line) < 4000 for line in path.read_text().splitlines())


def test_a_torn_line_of_a_session_that_was_killed_stays_alone(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=PASSING)
    path = pytester.path / "h.jsonl"
    path.write_text('{"schema": "pytest-kvcache-history/1", "sess')
    run(f"--kv-endpoint={sim}", *QUICK, "--kv-history=h.jsonl").assert_outcomes(passed=1)
    torn, whole = path.read_text().splitlines()
    assert torn.endswith('"sess')
    assert json.loads(whole)["nodeid"] == "test_a.py::test_shared"


def test_what_was_measured_before_is_not_added_again(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=PASSING)
    words = (f"--kv-endpoint={sim}", *QUICK, "--kv-history=h.jsonl", "--kv-resume=res")
    for _ in range(2):
        run(*words).assert_outcomes(passed=1)
    assert len(lines(pytester.path / "h.jsonl")) == 1


def test_a_session_that_measures_nothing_leaves_no_file(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a="def test_other():\n    pass\n")
    run(f"--kv-endpoint={sim}", "--kv-history=h.jsonl").assert_outcomes(passed=1)
    assert not (pytester.path / "h.jsonl").exists()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (".", "--kv-history: nothing can be added to .: it is a folder"),
        ("file/h.jsonl", "--kv-history: nothing can be added to file/h.jsonl: file is no folder"),
        ("", "--kv-history is empty*"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_sent(
    pytester: pytest.Pytester, run: Run, path: str, says: str
) -> None:
    (pytester.path / "file").write_text("")
    pytester.makepyfile(test_a=PASSING)
    result = run("--kv-endpoint=http://127.0.0.1:9", f"--kv-history={path}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: kvcache: {says}"])


def test_of_a_test_that_ran_again_only_the_last_attempt_is_added(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_a=FAILING)
    run(f"--kv-endpoint={sim}", *QUICK, "--kv-history=h.jsonl", "--reruns=1")
    assert [each["verdict"] for each in lines(pytester.path / "h.jsonl")] == ["fail"]
