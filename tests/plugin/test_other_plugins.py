"""Beside other plugins: what they keep of a test holds its evidence and its properties, with workers and without."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run, properties

TESTS = """
import pytest

def shared(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests=4, input_len=64, hit_rate=0.5, output_len=1))

@pytest.mark.hit_rate(target=0.5, tol=0.0)
def test_pass(kv, kv_workload):
    shared(kv, kv_workload)

@pytest.mark.hit_rate(target=0.9, tol=0.0)
def test_fail(kv, kv_workload):
    shared(kv, kv_workload)

@pytest.mark.hit_rate(min=0.5)
def test_inconclusive(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests=1, input_len=100_000, hit_rate=0, output_len=99_000))

@pytest.mark.xfail(reason="a known miss", strict=True)
@pytest.mark.hit_rate(target=0.9, tol=0.0)
def test_known(kv, kv_workload):
    shared(kv, kv_workload)

def test_other():
    print("nothing measured")
"""
VERDICTS = {"test_pass": "pass", "test_fail": "fail", "test_inconclusive": "inconclusive", "test_known": "fail"}
EVIDENCE = {
    "test_pass": "128 of 256 hit, by counters",
    "test_fail": "-> hit rate 0.500 is 0.400 below 0.900 [KV201]",
    "test_inconclusive": "shorten input_len or output_len [KV119]",
    "test_known": "an ideal cache reaches 0.500",
}
BARE = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:randomly", "-p", "no:sugar"]


def started(folder: Path, *words: str, **variables: str) -> tuple[int, str]:
    """Run pytest in a process of its own, where each plugin is new. Warnings of other plugins are not ours to judge."""
    (folder / "test_it.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *BARE, *words],
        cwd=folder, env={**inherited, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture(scope="module", params=[(), ("-n", "2")], ids=["alone", "workers"])
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sim: str) -> Path:
    """What a session with three plugins left."""
    for module in ("allure_pytest", "pytest_html", "pytest_reportlog"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("left")
    words = ["--html=out.html", "--self-contained-html", "--report-log=log.jsonl", "--alluredir=allure"]
    status, output = started(folder, f"--kv-endpoint={sim}", "--junitxml=junit.xml", *words, *request.param)
    assert status == pytest.ExitCode.TESTS_FAILED, output
    assert "2 failed, 2 passed, 1 xfailed" in output
    return folder


def test_html(left: Path) -> None:
    page = (left / "out.html").read_text()
    kept = json.loads(html.unescape(re.findall(r'data-jsonblob="(.*?)"', page, re.DOTALL)[0]))["tests"]
    logs = {name.partition("::")[2]: html.unescape(str([entry["log"] for entry in kept[name]])) for name in kept}
    assert set(logs) == {*EVIDENCE, "test_other"}
    for name, evidence in EVIDENCE.items():
        assert logs[name].count("Captured kvcache call") == 1
        assert evidence in logs[name]
    assert "Captured kvcache call" not in logs["test_other"]


def test_reportlog(left: Path) -> None:
    lines = [json.loads(line) for line in (left / "log.jsonl").read_text().splitlines()]
    calls = {line["nodeid"].partition("::")[2]: line for line in lines if line.get("when") == "call"}
    for name, evidence in EVIDENCE.items():
        [section] = [text for title, text in calls[name]["sections"] if title == "Captured kvcache call"]
        assert evidence in section
        assert dict(calls[name]["user_properties"])["kv_verdict"] == VERDICTS[name]
        assert calls[name]["kvcache"]["nodeid"] == f"test_it.py::{name}"
    assert calls["test_other"]["user_properties"] == []
    assert "kvcache" not in calls["test_other"]


def test_allure(left: Path) -> None:
    results = [json.loads(path.read_text()) for path in (left / "allure").glob("*-result.json")]
    by_name: dict[str, dict[str, Any]] = {result["name"]: result for result in results}
    assert set(by_name) == {*EVIDENCE, "test_other"}
    for name, evidence in EVIDENCE.items():
        files = {
            a["name"]: (a["type"], (left / "allure" / a["source"]).read_text()) for a in by_name[name]["attachments"]
        }
        assert files["kvcache"][0] == "text/plain"
        assert evidence in files["kvcache"][1]
        kind, told = files["kvcache properties"]
        assert (kind, json.loads(told)) == ("application/json", properties(left / "junit.xml")[name])
    assert [a["name"] for a in by_name["test_other"]["attachments"]] == ["stdout"]


def test_a_rerun_shows_its_own_evidence_alone(tmp_path: Path, sim: str) -> None:
    pytest.importorskip("pytest_reportlog")
    words = ["--reruns=1", "test_it.py::test_fail", "--report-log=log.jsonl"]
    status, output = started(tmp_path, f"--kv-endpoint={sim}", *words)
    assert (status, "1 failed, 1 rerun" in output) == (1, True), output
    assert output.count("Captured kvcache call") == 1
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    sections = [[title for title, _ in line["sections"]] for line in lines if line.get("when") == "call"]
    assert sections == [["Captured kvcache call"]] * 2


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("pytest_timeout", ["--timeout=60"]),
        ("pytest_randomly", ["-p", "randomly", "-p", "no:rich"]),
        ("pytest_sugar", ["-p", "sugar", "--force-sugar"]),
        ("pytest_rich", ["--rich"]),
        ("pytest_github_actions_annotate_failures", []),
    ],
)
def test_beside(tmp_path: Path, sim: str, module: str, words: list[str]) -> None:
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    status, output = started(
        tmp_path, f"--kv-endpoint={sim}", "--junitxml=junit.xml", *words, GITHUB_ACTIONS="true", TERM="xterm"
    )
    assert status == pytest.ExitCode.TESTS_FAILED, output
    assert {
        name: kept.get("kv_verdict") for name, kept in properties(tmp_path / "junit.xml").items() if kept
    } == VERDICTS
    for name in ("test_fail", "test_inconclusive"):
        assert EVIDENCE[name] in output
    if module == "pytest_github_actions_annotate_failures":
        line = TESTS.splitlines().index("@pytest.mark.hit_rate(target=0.9, tol=0.0)") + 1
        assert f"::error file=test_it.py,line={line}::test_fail" in output


def test_a_verdict_stands_where_its_test_is(tmp_path: Path, sim: str) -> None:
    _, output = started(tmp_path, f"--kv-endpoint={sim}", "--tb=line", "-k", "test_fail or inconclusive")
    lines = [line for line in output.splitlines() if ": Failed: " in line]
    assert [line.partition(": Failed: ")[0].rpartition("/")[2] for line in lines] == ["test_it.py:11", "test_it.py:15"]


def test_the_package_needs_none_of_them() -> None:
    code = (
        "import sys, pytest_kvcache.plugin, pytest_kvcache.plugin.attaching\n"
        "print([name for name in ('allure', 'pytest_html', 'pytest_reportlog') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_words_of_the_documentation_are_taken(tmp_path: Path, sim: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
    commands = re.findall(r"pytest (--kv-endpoint=\S+.*)", page)
    assert len(commands) == 2
    for command in commands:
        words = re.sub(r"--kv-endpoint=(\$\{\{.*?\}\}|\$\w+)", f"--kv-endpoint={sim}", command).split()
        status, output = started(tmp_path, *words, "-k", "test_pass")
        assert status == 0, output
        assert (tmp_path / "kv.json").is_file()
        assert (tmp_path / "junit.xml").is_file()


def test_an_attempt_that_measured_nothing_has_no_evidence_of_the_one_before(
    pytester: pytest.Pytester, run: Run, sim: str
) -> None:
    pytester.makepyfile(
        """
        tries = []
        def test_again(kv, kv_workload):
            tries.append(None)
            assert len(tries) == 1, "before anything was measured"
            kv.run(kv_workload.shared_prefix(requests=2, input_len=64, hit_rate=0.5, output_len=1))
            assert False, "measured"
        """
    )
    result = run(f"--kv-endpoint={sim}", "--reruns=1", "--junitxml=j.xml")
    assert result.parseoutcomes() == {"failed": 1, "rerun": 1}
    result.stdout.no_fnmatch_line("*Captured kvcache call*")
    assert properties(pytester.path / "j.xml")["test_again"] == {}
