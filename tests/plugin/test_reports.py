"""What a session tells: JUnit properties, the JSON document, the table; the same with and without workers."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from pytest_kvcache.regression.metrics import METRICS

from .conftest import FAILING, PASSING, Run, properties

SUITE = (
    PASSING
    + FAILING.replace("import pytest", "").replace("test_shared", "test_low")
    + """
@pytest.mark.hit_rate(target=0.25, tol=0.0)
def test_two_runs(kv, kv_workload):
    for rate in (0.5, 0.0):
        kv.run(kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=rate, output_len=1))

def test_unmarked(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=0.5, output_len=1))

@pytest.mark.hit_rate(min=0.5)
def test_wrong_model(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests=1, input_len=100_000, hit_rate=0, output_len=99_000))

def test_other():
    pass
"""
)


def stable(document: dict[str, Any]) -> dict[str, Any]:
    """The document without what a clock decides."""
    volatile = {"ttft_s", "itl_s", "tpot_s", "e2e_s", "output_tokens_per_s", "server_latency_s", "client", "statements"}
    volatile |= {"kv_usage_peak", "running_peak", "waiting_peak", "samples", "started", "phases"}
    volatile |= METRICS.keys() - {"hit_rate", "hit_tokens", "attainment", "error_rate"}

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: clean(inner) for key, inner in value.items() if key not in volatile}
        return [clean(inner) for inner in value] if isinstance(value, list) else value

    cleaned: dict[str, Any] = clean(document)
    return cleaned


def timeless(markdown: str) -> list[str]:
    """The lines of a Markdown text without what a clock decides."""
    figures = re.compile(r"[\d.,]+ (µs|ms|s|tok/s)\b")
    told = re.compile(r"  (TTFT|server|pressure|cached blocks)[: ]")
    return [figures.sub(r"_ \1", line) for line in markdown.splitlines() if not told.match(line)]


def test_reports_are_the_same_with_and_without_workers(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_suite=SUITE)
    words = [f"--kv-endpoint={sim}"]
    alone = run(*words, "--kv-report=alone.json", "--kv-markdown=alone.md", "--junitxml=alone.xml")
    shared = run(*words, "--kv-report=shared.json", "--kv-markdown=shared.md", "--junitxml=shared.xml", "-n", "2")
    assert alone.parseoutcomes() == shared.parseoutcomes() == {"passed": 4, "failed": 2}
    documents = [json.loads((pytester.path / f"{name}.json").read_text()) for name in ("alone", "shared")]
    assert stable(documents[0]) == stable(documents[1])
    texts = [timeless((pytester.path / f"{name}.md").read_text()) for name in ("alone", "shared")]
    assert texts[0] == texts[1]
    assert "### kvcache: 3 passed, 1 failed, 1 inconclusive" in texts[0]
    assert properties(pytester.path / "alone.xml") == properties(pytester.path / "shared.xml")
    tables = [
        [line.split("  ")[0] for line in r.outlines if "test_suite.py::" in line and "/" in line]
        for r in (alone, shared)
    ]
    assert tables[0] == tables[1] != []


def test_document(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_suite=SUITE)
    run(f"--kv-endpoint={sim}", "--kv-report=deep/er/out.json")
    document = json.loads((pytester.path / "deep/er/out.json").read_text())
    assert (document["schema"], document["endpoint"], document["interrupted"]) == ("pytest-kvcache/1", sim, False)
    checks = {check["nodeid"].split("::")[1]: check for check in document["checks"]}
    assert list(checks) == ["test_low", "test_shared", "test_two_runs", "test_unmarked", "test_wrong_model"]
    good = checks["test_shared"]
    assert good["verdict"] == "pass"
    rates = {name: good["hit_rate"][name] for name in ("measured", "target", "predicted", "ceiling")}
    assert rates == {"measured": 0.5, "target": 0.5, "predicted": 0.5, "ceiling": 0.5}
    assert (good["hit_tokens"], good["query_tokens"], good["source"]) == (1024, 2048, "counters")
    assert good["requests"] == {"total": 8, "failed": 0, "aborted": 0, "prefill": 2}
    assert good["engines"] == {
        "0": {
            "query_tokens": 2048, "hit_tokens": 1024, "hit_rate": 0.5, "local_hit_tokens": 1024,
            "external_hit_tokens": 0, "tiers": {"local": 1024, "external": 0}, "prompt_tokens": 2048,
        }
    }  # fmt: skip
    assert good["aside"] == {}
    assert good["tiers"]["local"] == {"hit_tokens": 1024, "hit_rate": 0.5}
    assert (good["pressure"]["preemptions"], good["pressure"]["missed"]) == (0, 0)
    assert good["pressure"]["samples"] >= 2
    assert {name: told["count"] for name, told in good["server_latency_s"].items()} == {
        "ttft": 8, "queue": 8, "prefill": 8, "decode": 8, "e2e": 8,
    }  # fmt: skip
    assert good["engine"]["simulated"] is True
    assert good["engine"]["block_size"] == 16
    assert good["ttft_s"]["count"] == 8
    assert 0 < good["ttft_s"]["p50"] <= good["ttft_s"]["p95"] <= good["ttft_s"]["p99"]
    assert [f["code"] for f in checks["test_low"]["findings"]] == ["KV201"]
    assert checks["test_two_runs"]["hit_rate"]["measured"] == 0.25
    assert [r["hit_rate"]["measured"] for r in checks["test_two_runs"]["runs"]] == [0.5, 0.0]
    assert checks["test_unmarked"]["verdict"] == "pass"
    bad = checks["test_wrong_model"]
    assert (bad["verdict"], bad["hit_rate"]["measured"], bad["findings"][0]["code"]) == ("inconclusive", None, "KV119")


def test_junit_properties(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(test_suite=SUITE)
    run(f"--kv-endpoint={sim}", "--junitxml=j.xml")
    cases = properties(pytester.path / "j.xml")
    engine = cases["test_shared"].pop("kv_engine")
    assert engine.startswith("sim ")
    assert cases["test_shared"] == {
        "kv_verdict": "pass", "kv_hit_rate": "0.500000", "kv_target": "0.500000", "kv_predicted": "0.500000",
        "kv_simulated": "0.500000", "kv_hit_tokens": "1024", "kv_query_tokens": "2048", "kv_findings": "",
        "kv_saved_tokens": "1024",
    }  # fmt: skip
    assert cases["test_low"]["kv_findings"] == "KV201"
    assert (cases["test_two_runs"]["kv_1_hit_rate"], cases["test_two_runs"]["kv_2_hit_rate"]) == (
        "0.500000",
        "0.000000",
    )
    assert cases["test_other"] == {}


def test_hostile_text_cannot_break_the_files(pytester: pytest.Pytester, run: Run, start_sim: Any) -> None:
    url = start_sim("--model", "tiny\x1b[31m]]> & <b>")
    pytester.makepyfile(test_h=FAILING)
    result = run(f"--kv-endpoint={url}", "--kv-model=a\x1b[31m ]]> & <b>\x07", "--junitxml=j.xml", "--kv-report=o.json")
    result.assert_outcomes(failed=1)
    text = ET.parse(pytester.path / "j.xml").getroot().find(".//failure")
    assert text is not None
    assert "\\x1b[31m ]]> & <b>\\x07" in str(text.text)
    assert json.loads((pytester.path / "o.json").read_text())["checks"][0]["verdict"] == "inconclusive"
    assert "\x1b[31m ]]>" not in result.stdout.str()


@pytest.mark.parametrize(("flag", "shown"), [("-q", False), ("-v", True), ("--no-summary", False)])
def test_verbosity_is_respected(pytester: pytest.Pytester, run: Run, sim: str, flag: str, shown: bool) -> None:
    pytester.makepyfile(PASSING)
    assert ("hit/query tokens" in run(f"--kv-endpoint={sim}", flag).stdout.str()) is shown


def test_report_that_cannot_be_written_is_a_clear_error(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(PASSING)
    (pytester.path / "file").write_text("")
    result = run(f"--kv-endpoint={sim}", "--kv-report=file/out.json")
    assert result.ret != 0
    assert "--kv-report: file/out.json cannot be written" in result.stdout.str() + result.stderr.str()


def test_workers_on_one_endpoint_do_not_count_each_other(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    tests = [
        f"@pytest.mark.hit_rate(target={rate}, tol=0.0)\ndef test_{n}(kv, kv_workload):\n"
        f"    kv.run(kv_workload.shared_prefix(requests=10, input_len=1000, hit_rate={rate}, output_len=1))\n"
        for n, rate in enumerate([0.0, 0.896, 0.0, 0.896])
    ]
    pytester.makepyfile("import pytest\n" + "\n".join(tests))
    run(f"--kv-endpoint={sim}", "-n", "2").assert_outcomes(passed=4)


def test_each_worker_may_have_a_simulated_engine_of_its_own(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(PASSING + PASSING.replace("import pytest", "").replace("test_shared", "test_again"))
    run("--kv-endpoint=sim", "-n", "2").assert_outcomes(passed=2)


def test_properties_of_the_users_own_stay(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        PASSING.replace(
            "(kv, kv_workload):",
            "(kv, kv_workload, request):\n    request.node.user_properties.append(('kv_mine', 'yes'))",
        )
    )
    run(f"--kv-endpoint={sim}", "--junitxml=j.xml").assert_outcomes(passed=1)
    found = properties(pytester.path / "j.xml")["test_shared"]
    assert (found["kv_mine"], found["kv_verdict"]) == ("yes", "pass")
