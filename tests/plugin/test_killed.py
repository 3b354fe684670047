"""A sweep that is killed, and killed again, and resumed: nothing is measured twice, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import properties
from .test_resume import looked_up

COUNT = 40
SWEEP = f"""
import pytest

@pytest.mark.hit_rate(target=0.0, tol=0.0)
@pytest.mark.parametrize("number", range({COUNT}))
def test_sweep(kv, kv_workload, number):
    kv.run(kv_workload.shared_prefix(requests=2, input_len=32 + number, hit_rate=0.0, output_len=1))
"""
LONGEST = 2 * (32 + COUNT - 1)  # prompt tokens of a test
ALL = sum(2 * (32 + number) for number in range(COUNT))


def started(folder: Path, url: str, *words: str) -> subprocess.Popen[str]:
    quiet = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--kv-sample-interval=0")
    command = [sys.executable, "-m", "pytest", *quiet, f"--kv-endpoint={url}", "--kv-resume=res", *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip


def kept(folder: Path) -> list[dict[str, Any]]:
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines(keepends=True)]
    return [json.loads(line)["result"] for line in lines if line.endswith("\n")]


def broken_off(folder: Path, url: str) -> int:
    """Prompt tokens that the engine has looked up and no result accounts for."""
    return looked_up(url) - sum(result["record"]["query_tokens"] for result in kept(folder))


def kill_in_the_middle(process: subprocess.Popen[str], folder: Path, url: str, least: int) -> None:
    """Kill a session and its workers, without a warning, while a test runs and so many results are there."""
    before = broken_off(folder, url)
    with process:
        while len(kept(folder)) < least or broken_off(folder, url) <= before:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("workers", "kills"), [((), (10, 25)), (("-n", "2"), (10,))], ids=["alone and twice", "with workers"]
)
def test_killed(
    tmp_path: Path, start_sim: Callable[..., str], workers: tuple[str, ...], kills: tuple[int, ...]
) -> None:
    url, results = start_sim(), tmp_path / "res"
    (tmp_path / "test_it.py").write_text(SWEEP)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    for least in kills:
        kill_in_the_middle(started(tmp_path, url, *workers), results, url, least)
    last = started(tmp_path, url, *workers, "--kv-report=out.json", "--junitxml=out.xml")
    output = last.communicate()[0]
    assert last.returncode == 0, output

    done = kept(results)
    names = [f"test_it.py::test_sweep[{number}]" for number in range(COUNT)]
    assert Counter(result["nodeid"] for result in done) == Counter(names)
    sessions = Counter(result["session"] for result in done)
    assert len(sessions) == 1 + len(kills)
    now = sessions[max(done, key=lambda result: result["ended"])["session"]]
    assert 0 < now <= COUNT - max(kills)
    assert f"\n{COUNT - now} measured before (res), {now} now\n" in output
    assert f"{COUNT} passed" in output

    assert looked_up(url) - ALL == broken_off(results, url) <= len(kills) * LONGEST

    checks = json.loads((tmp_path / "out.json").read_text())["checks"]
    assert {check["nodeid"]: check["query_tokens"] for check in checks} == {
        name: 2 * (32 + number) for number, name in enumerate(names)
    }
    assert {check["verdict"] for check in checks} == {"pass"}
    cases = properties(tmp_path / "out.xml")
    assert len(cases) == COUNT
    assert {case["kv_verdict"] for case in cases.values()} == {"pass"}
