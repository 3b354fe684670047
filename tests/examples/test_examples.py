"""Every recipe runs as it is shipped."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "conftest_examples"


def run(pytester: pytest.Pytester, name: str, *words: str) -> pytest.RunResult:
    shutil.copytree(EXAMPLES / name, pytester.path, dirs_exist_ok=True)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n")
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *words)


def test_every_recipe_has_a_conftest_and_a_test_and_is_run_here() -> None:
    folders = {path.name: path for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert set(folders) == {
        "agent_conversation",
        "capacity_sweep",
        "ci_gate",
        "first_test",
        "hosted_provider",
        "isolation",
        "parallel",
        "router_fleet",
        "slo_gate",
        "trace_capacity",
        "version_regression",
        "vllm_server",
    }
    for path in folders.values():
        assert (path / "conftest.py").exists()
        assert list(path.glob("test_*.py"))


def test_first_test(pytester: pytest.Pytester, sim: str) -> None:
    result = run(pytester, "first_test", f"--kv-endpoint={sim}")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["hit rate 0.000, wanted 0.700 ± 0.020 (0.700 below): 0 of 81,920 tokens hit [[]KV201[]]. *[[]KV315[]]"]
    )


def test_vllm_server_uses_a_given_endpoint(pytester: pytest.Pytester, sim: str) -> None:
    result = run(pytester, "vllm_server", f"--kv-endpoint={sim}")
    assert result.ret == pytest.ExitCode.OK
    assert result.parseoutcomes()["passed"] >= 1


def test_vllm_server_skips_with_a_reason_where_there_is_none(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_COMMAND", "no-such-program")
    result = run(pytester, "vllm_server", "-rs")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["SKIPPED*no endpoint, and no no-such-program to start*"])


def test_agent_conversation(pytester: pytest.Pytester, sim: str) -> None:
    result = run(pytester, "agent_conversation", f"--kv-endpoint={sim}")
    result.assert_outcomes(passed=3)


def test_isolation(pytester: pytest.Pytester, sim: str) -> None:
    result = run(pytester, "isolation", f"--kv-endpoint={sim}")
    result.assert_outcomes(passed=3)


def test_trace_capacity_needs_no_endpoint(pytester: pytest.Pytester) -> None:
    result = run(pytester, "trace_capacity", "-rs", "--kv-markdown=out.md")
    result.assert_outcomes(passed=3, skipped=1)
    result.stdout.fnmatch_lines(["ceiling *knee *GiB *", "*lru, engine rules *traffic.jsonl *test_capacity.py"])
    assert (pytester.path / "out.md").read_text().startswith("### kvcache: 1 curve\n")
    result.stdout.fnmatch_lines(["SKIPPED*no endpoint to measure*"])


@pytest.mark.parametrize(("blocks", "least", "most"), [("1000000", 0.797, 0.798), ("40", 0.6, 0.72)])
def test_trace_capacity_sends_its_traffic(
    pytester: pytest.Pytester, start_sim: Callable[..., str], blocks: str, least: float, most: float
) -> None:
    """A cache that holds everything reuses all that is shared; one of 40 blocks loses what the curve says it does."""
    url = start_sim("--capacity-blocks", blocks)
    run(pytester, "trace_capacity", f"--kv-endpoint={url}", "--kv-report=kv.json").assert_outcomes(passed=4)
    (check,) = json.loads((pytester.path / "kv.json").read_text())["checks"]
    assert least <= check["hit_rate"]["measured"] <= most


PROVIDER = [
    *("--block-size", "128", "--minimum-tokens", "1024", "--api-key-env", "PROVIDER_KEY"),
    *("--fault", "metrics_status=404", "--fault", "status=429", "--fault", "retry_after=0.05", "--fault", "every=3"),
]


def test_hosted_provider(
    pytester: pytest.Pytester, start_sim: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No metrics, no tokenizer, a key, steps of 128 from 1,024 on, and every third request refused for a moment."""
    monkeypatch.setenv("PROVIDER_KEY", "sk-not-to-be-shown")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-to-be-shown")
    result = run(pytester, "hosted_provider", f"--kv-endpoint={start_sim(*PROVIDER)}", "--kv-report=kv.json", "-rA")
    result.assert_outcomes(passed=1)
    report = (pytester.path / "kv.json").read_text()
    assert "KV314" in report
    assert "sk-not-to-be-shown" not in report + result.stdout.str()
    (check,) = json.loads(report)["checks"]
    cached = [turn["cached_tokens"] for turn in check["runs"][0]["turns"]]
    assert cached[0] == 0
    assert all(tokens >= 1024 and tokens % 128 == 0 for tokens in cached[1:])


def test_slo_gate(pytester: pytest.Pytester, start_sim: Callable[..., str]) -> None:
    result = run(pytester, "slo_gate", f"--kv-endpoint={start_sim('--prefill-rate', '100000')}")
    result.assert_outcomes(passed=3)


def test_capacity_sweep_goes_on_where_it_was(pytester: pytest.Pytester, sim: str) -> None:
    words = (f"--kv-endpoint={sim}", "--kv-resume=results", "--level-seconds=0.2")
    first = run(pytester, "capacity_sweep", *words, "-k", "throughput and 512")
    first.assert_outcomes(passed=5, deselected=8)
    second = run(pytester, "capacity_sweep", *words, "-k", "throughput")
    second.assert_outcomes(passed=10, deselected=3)
    second.stdout.fnmatch_lines(["5 measured before*, 5 now*"])


def test_capacity_sweep_finds_a_capacity(pytester: pytest.Pytester, start_sim: Callable[..., str]) -> None:
    """An engine that waits rather than computes, so that what else the machine does hardly matters."""
    engine = start_sim("--prefill-rate", "50000", "--batch-slots", "64")  # 20 ms for what is not cached
    words = (f"--kv-endpoint={engine}", "--level-seconds=1")
    result = run(pytester, "capacity_sweep", *words, "-k", "capacity", "-rA")
    result.assert_outcomes(passed=3, deselected=10)
    result.stdout.fnmatch_lines(["*concurrency * held over * periods*"])


def test_version_regression(pytester: pytest.Pytester, sim: str, start_sim: Callable[..., str]) -> None:
    """The baseline of one engine, against one that evicts and takes 50 ms for what took none."""
    base = "--kv-baseline=kv-baseline.json"
    words = ("--repeats=5", "--kv-sample-interval=0")
    made = run(pytester, "version_regression", f"--kv-endpoint={sim}", base, "--kv-update-baseline", *words)
    made.assert_outcomes(passed=2)
    made.stdout.fnmatch_lines(["baseline kv-baseline.json: 2 new, 0 changed, 0 as they were"])
    worse = start_sim("--capacity-blocks", "140", "--prefill-rate", "10000")
    history = "--kv-history=kv-history.jsonl"
    result = run(pytester, "version_regression", f"--kv-endpoint={worse}", base, history, *words)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["hit rate fell from 0.703 to *KV208*", "TTFT p50 rose from *p=0.004, 5 runs*KV208*"])
    assert len((pytester.path / "kv-history.jsonl").read_text().splitlines()) == 2


GATE = EXAMPLES / "ci_gate"


def commands(path: Path) -> list[str]:
    """The pytest commands of a workflow or of the console blocks of a page."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    return re.findall(r"^ *(?:- run: |run: |\$ )((?:\w+=\S+ )*pytest .*)$", text, re.MULTILINE)


@pytest.mark.parametrize("page", ["kv-cache.yml", "README.md"])
def test_ci_gate_as_the_job_runs_it(
    pytester: pytest.Pytester, sim: str, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    (command,) = commands(GATE / page)
    monkeypatch.setenv("PYTEST_KV_ENDPOINT", sim)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    program, folder, *words = shlex.split(command.replace("http://127.0.0.1:8000", sim))
    assert (program, folder) == ("pytest", "conftest_examples/ci_gate")
    run(pytester, "ci_gate", *words).assert_outcomes(passed=2)
    assert {path.name for path in pytester.path.glob("*.*")} >= {"junit.xml", "kv.json", "summary.md"}


def test_ci_gate_is_closed_where_the_cache_is_off(pytester: pytest.Pytester, start_sim: Callable[..., str]) -> None:
    result = run(pytester, "ci_gate", f"--kv-endpoint={start_sim('--no-prefix-caching')}")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["inconclusive: *prefix cache is off*KV107*"])


def test_ci_gate_is_closed_below_its_rate(pytester: pytest.Pytester, start_sim: Callable[..., str]) -> None:
    """Four prefixes in turn over three engines: of twelve pairs four are warm, so 8 of 40 miss: 0.6, not 0.75."""
    result = run(pytester, "ci_gate", f"--kv-endpoint={start_sim('--engines', '3')}", "--kv-concurrency=1")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["hit rate 0.600, wanted at least 0.700 *: 49,152 of 81,920 tokens hit*KV201*"])


def test_ci_gate_is_closed_without_an_endpoint(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_KV_ENDPOINT", raising=False)
    assert run(pytester, "ci_gate", "-o", "kv_require=true").ret == pytest.ExitCode.USAGE_ERROR


def test_router_fleet_by_prefix(pytester: pytest.Pytester, start_sim: Callable[..., str]) -> None:
    url = start_sim("--engines", "4", "--routing", "prefix")
    run(pytester, "router_fleet", f"--kv-endpoint={url}").assert_outcomes(passed=3)


def test_router_fleet_in_turn(pytester: pytest.Pytester, start_sim: Callable[..., str]) -> None:
    """52 requests of 13 prefixes in turn over 4 engines: no prefix comes to an engine twice, so nothing hits."""
    url = start_sim("--engines", "4")
    result = run(pytester, "router_fleet", f"--kv-endpoint={url}", f"--kv-metrics=fleet={url}/metrics")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["hit rate 0.000, *: 0 of 54,080 tokens hit*4 engines with 13 misses each*KV308*"])


def test_router_fleet_misses_an_engine_that_nobody_asks(
    pytester: pytest.Pytester, start_sim: Callable[..., str]
) -> None:
    url = start_sim("--engines", "3", "--routing", "prefix")
    run(pytester, "router_fleet", f"--kv-endpoint={url}", "-k", "left_out").assert_outcomes(failed=1, deselected=2)


def looked_up(url: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics") as page:
        return sum(
            float(line.split()[-1])
            for line in page.read().decode().splitlines()
            if line.startswith("sim:prefix_cache_queries_total")
        )


def test_parallel_on_one_server(pytester: pytest.Pytester, sim: str) -> None:
    shutil.copytree(EXAMPLES / "parallel", pytester.path, dirs_exist_ok=True)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2", f"--kv-endpoint={sim}")
    result.assert_outcomes(passed=4)


def test_parallel_on_a_server_for_each_worker(
    pytester: pytest.Pytester, start_sim: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = start_sim(), start_sim()
    monkeypatch.setenv("KV_ENDPOINTS", " ".join(urls))
    shutil.copytree(EXAMPLES / "parallel", pytester.path, dirs_exist_ok=True)
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2").assert_outcomes(passed=4)
    assert all(looked_up(url) > 0 for url in urls)
