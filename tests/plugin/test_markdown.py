"""``--kv-markdown``, and the summary of a GitHub job: when they are written, and what is never in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..documents import Seen, validate
from .conftest import FAILING, PASSING, Run

MIB = 1024 * 1024
SUMMARY = "GITHUB_STEP_SUMMARY"


@pytest.fixture
def summary(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that GitHub names; it is not there yet."""
    path = pytester.path / "summary.md"
    monkeypatch.setenv(SUMMARY, str(path))
    return path


def test_the_file_and_the_summary_say_the_same(
    pytester: pytest.Pytester, run: Run, sim: str, summary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_a=PASSING + FAILING.replace("import pytest", "").replace("test_shared", "test_low"))
    summary.write_text("what was there")
    run(f"--kv-endpoint={sim}", "--kv-markdown=deep/out.md").assert_outcomes(passed=1, failed=1)
    text = (pytester.path / "deep/out.md").read_text()
    assert summary.read_text() == f"what was there\n{text}"
    seen = Seen.of(text)
    assert [row[:4] for row in seen.rows[1:]] == [
        ["fail", "test_a.py::test_low", "0.500", "0.900"],
        ["pass", "test_a.py::test_shared", "0.500", "0.500"],
    ]
    assert "KV201" in seen.names
    assert f"(simulated) · model sim · {sim}" in seen.text
    monkeypatch.delenv(SUMMARY)
    run(f"--kv-endpoint={sim}")
    assert summary.read_text() == f"what was there\n{text}"


def test_no_summary_where_nothing_was_measured(pytester: pytest.Pytester, run: Run, sim: str, summary: Path) -> None:
    pytester.makepyfile(test_a="def test_other(): pass", test_b=PASSING)
    run("--kv-markdown=out.md").assert_outcomes(passed=1, skipped=1)
    run(f"--kv-endpoint={sim}", "-k", "other").assert_outcomes(passed=1)
    assert not summary.exists()
    assert (pytester.path / "out.md").read_text() == "### kvcache: nothing was measured\n"


def test_one_summary_of_all_workers(pytester: pytest.Pytester, run: Run, sim: str, summary: Path) -> None:
    pytester.makepyfile(test_a=PASSING)
    run(f"--kv-endpoint={sim}", "-n", "2").assert_outcomes(passed=1)
    assert summary.read_text().count("### kvcache: 1 passed") == 1


@pytest.mark.parametrize("room", [700, 20])
def test_a_summary_has_no_more_room_than_github_gives(
    pytester: pytest.Pytester, run: Run, sim: str, summary: Path, room: int
) -> None:
    pytester.makepyfile(test_a=FAILING)
    summary.write_bytes(b"x" * (MIB - room))
    result = run(f"--kv-endpoint={sim}")
    added = summary.read_text()[MIB - room :]
    assert len(added.encode()) <= room
    assert ("Cut off here" in added) is (room > 20)
    told = f"GITHUB_STEP_SUMMARY: * holds {MIB - room:,} bytes already, and GitHub shows no more than {MIB:,}"
    (result.stdout.no_fnmatch_line if room > 20 else lambda line: result.stdout.fnmatch_lines([line]))(told)


def test_a_summary_that_cannot_be_written_is_told_and_no_failure(
    pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_a=PASSING)
    monkeypatch.setenv(SUMMARY, str(pytester.path))
    result = run(f"--kv-endpoint={sim}")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"GITHUB_STEP_SUMMARY: {pytester.path} cannot be written (Is a directory)"])


def test_a_file_that_cannot_be_written_is_a_clear_error(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(PASSING)
    (pytester.path / "file").write_text("")
    result = run(f"--kv-endpoint={sim}", "--kv-markdown=file/out.md")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--kv-markdown: file/out.md cannot be written" in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("by", ["key", "userinfo"])
def test_no_secret(
    pytester: pytest.Pytester, run: Run, sim: str, summary: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-verysecret")
    endpoint = sim.replace("http://", "http://someone:passw0rd@") if by == "userinfo" else sim
    words = [f"--kv-endpoint={endpoint}", "--kv-header=X-Tenant: tenantsecret"]
    words += ["--kv-api-key-env=MY_KEY"] if by == "key" else []
    pytester.makepyfile(test_a=FAILING)
    run(*words, "--kv-report=o.json", "--kv-markdown=o.md").assert_outcomes(failed=1)
    for path in (summary, pytester.path / "o.md", pytester.path / "o.json"):
        text = path.read_text()
        assert sim.removeprefix("http://").partition(":")[2] in text  # the port: the endpoint is told
        assert not [secret for secret in ("verysecret", "tenantsecret", "passw0rd", "someone") if secret in text]


def test_hostile_names_and_messages(
    pytester: pytest.Pytester, run: Run, start_sim: Callable[..., str], summary: Path
) -> None:
    model = "m|`x`<script>\x1b[31m @someone #1 http://a.b ](c"
    url = start_sim("--model", model)
    names = ["a|b", "<b>", "`", "@someone", "#1", "x" * 300]
    body = FAILING.replace("@pytest", f"@pytest.mark.parametrize('name', {names!r})\n@pytest", 1)
    pytester.makepyfile(test_h=body.replace("(kv,", "(name, kv,"))
    run(f"--kv-endpoint={url}", f"--kv-model={model}", "--kv-report=o.json").assert_outcomes(failed=6)
    seen = Seen.of(summary.read_text())
    assert {len(row) for row in seen.rows[:7]} == {len(seen.rows[0])}
    assert seen.tags.count("details") == 6
    assert {row[1].partition("[")[2].rstrip("]") for row in seen.rows[1:7]} >= {"a|b", "<b>", "`", "@someone", "#1"}
    assert "m|`x`<script>\\x1b[31m @someone #1 http://a.b ](c" in seen.names


STOPPED = (
    PASSING
    + """
def test_stopped(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests=2, input_len=64, hit_rate=0, output_len=1))
    raise KeyboardInterrupt
"""
)


@pytest.mark.usefixtures("run")  # its ini file
def test_an_interrupted_session_says_so(pytester: pytest.Pytester, sim: str, summary: Path) -> None:
    pytester.makepyfile(STOPPED)
    words = ["-p", "no:cacheprovider", f"--kv-endpoint={sim}", "--kv-report=o.json"]
    assert pytester.runpytest_subprocess(*words).ret == pytest.ExitCode.INTERRUPTED  # in this process it would end all
    validate(pytester.path / "o.json")
    assert json.loads((pytester.path / "o.json").read_text())["interrupted"] is True
    assert "**The session was interrupted; this is not all of it.**" in summary.read_text()


LOADS = """
import pytest

@pytest.fixture
def work(kv_workload):
    return kv_workload.shared_prefix(requests=8, input_len=64, hit_rate=0.5, prefixes=2, output_len=2)

@pytest.mark.kv_slo(ttft_p50=60)
def test_levels(kv, work):
    kv.steps(work, [2, 4], duration=0.3)

def test_search(kv, work):
    kv.sustain(work, max_ttft=60.0, duration=1, assessment=0.2, step=2, limit=4)

def test_cold_and_warm(kv, work):
    kv.speedup(work)

def test_talk(kv, kv_workload):
    kv.run(kv_workload.conversation(turns=2))

def test_probe(kv):
    kv.probe.granularity()

def test_measured(kv, kv_metrics):
    with kv.measure():
        pass
"""


def test_documents_of_many_kinds(pytester: pytest.Pytester, run: Run, sim: str, summary: Path) -> None:
    pytester.makepyfile(test_loads=LOADS)
    result = run(f"--kv-endpoint={sim}", "--kv-report=o.json", "--kv-sample-interval=0.1")  # `run` validates it
    checks: dict[str, Any] = {
        check["nodeid"].partition("::")[2]: check
        for check in json.loads((pytester.path / "o.json").read_text())["checks"]
    }
    assert list(checks) == [
        f"test_{name}" for name in ("cold_and_warm", "levels", "measured", "probe", "search", "talk")
    ]
    assert result.ret in (0, 1)
    assert [run_["stretch"] is None for run_ in checks["test_levels"]["runs"]] == [False, False]
    assert checks["test_search"]["runs"][0]["limit"]["periods"] != []
    assert checks["test_talk"]["runs"][0]["turns"] != []
    sentence = checks["test_search"]["runs"][0]["limit"]["sentence"]
    assert f"test_search: {' '.join(sentence.split())}" in Seen.of(summary.read_text()).text
