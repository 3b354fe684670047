"""What goes wrong in the field ends with one clear line and the right exit code: never a pass, never our traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import pytest_kvcache.reset

from .conftest import PASSING, Run

Start = Callable[..., str]
USAGE = PASSING.replace("tol=0.0", "tol=0.0, source='usage'")


def ends_with(result: pytest.RunResult, line: str) -> None:
    """The only test failed, with exactly this line as its failure text, and nothing of ours around it."""
    result.assert_outcomes(failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([line.replace("[", "[[]")])
    for ours in ("Traceback", "During handling", "src/pytest_kvcache", "runtime.py", "experiment.py"):
        assert ours not in result.stdout.str()


def check(pytester: pytest.Pytester, run: Run, line: str, *words: str, body: str = PASSING) -> pytest.RunResult:
    pytester.makepyfile(body)
    result = run(*words)
    ends_with(result, line)
    return result


def test_nobody_listens(pytester: pytest.Pytester, run: Run) -> None:
    check(
        pytester, run, "inconclusive: nobody answers at http://127.0.0.1:1/v1/models (*); is the server up?",
        "--kv-endpoint=http://127.0.0.1:1",
    )  # fmt: skip


def test_model_is_not_served(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    line = f"inconclusive: {sim} serves sim, not 'nope'; correct --kv-model"
    check(pytester, run, line, f"--kv-endpoint={sim}", "--kv-model=nope")


def test_wrong_base_url(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    line = f"inconclusive: {sim}/gw/v1/models answered 404: *; expected a list of models (is --kv-endpoint the base*"
    check(pytester, run, line, f"--kv-endpoint={sim}/gw")


@pytest.mark.parametrize(("key", "what"), [("", "it wants an API key"), ("wrong-key", "the API key was refused")])
def test_401(
    pytester: pytest.Pytester, run: Run, start_sim: Start, monkeypatch: pytest.MonkeyPatch, key: str, what: str
) -> None:
    monkeypatch.setenv("SERVER_KEY", "right-key")
    url = start_sim("--api-key-env", "SERVER_KEY")
    if key:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    line = f"inconclusive: {url}/v1/models answered 401: Unauthorized; {what} (set the variable that --kv-api-key-env*"
    check(pytester, run, line, f"--kv-endpoint={url}")
    monkeypatch.setenv("OPENAI_API_KEY", "right-key\n")  # as of a file
    run(f"--kv-endpoint={url}").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        (
            "metrics_status=404",
            "answered 404: planted fault; name the page with --kv-metrics, or judge by usage alone*",
        ),
        ("metrics_status=401", "answered 401: planted fault; the counters cannot be read, or judge by usage alone*"),
        ("metrics_body=html", "expected Prometheus text, got an HTML page titled 'Gateway'; name the page*"),
        ("metrics_body=truncated", "is cut off in the middle of a line: 'sim:prefix_cache_hits_total{*"),
        ("metrics_body=empty", "holds no samples (0 characters); expected Prometheus text*"),
        ("metrics_drop=sim:cache_config_info", "carries none of the samples of a known engine: are its*"),
        ("metrics_nan=sim:prefix_cache_hits_total", "sim:prefix_cache_hits_total is nan, which is no count*"),
    ],
)
def test_metrics_page(pytester: pytest.Pytester, run: Run, start_sim: Start, fault: str, what: str) -> None:
    url = start_sim("--fault", fault)
    check(pytester, run, f"inconclusive: {url}/metrics*{what}", f"--kv-endpoint={url}")
    if "nan" not in fault:  # usage says the same, when it is asked for
        run(f"--kv-endpoint={url}", "--kv-engine=usage", "--kv-tokenizer=builtin").assert_outcomes(passed=1)


@pytest.mark.parametrize("sample", ["sim:prefix_cache_hits_total", "sim:num_requests_running"])
def test_counters_absent(pytester: pytest.Pytester, run: Run, start_sim: Start, sample: str) -> None:
    url = start_sim("--fault", f"metrics_drop={sample}")
    check(pytester, run, "inconclusive: *" if "running" not in sample else f"*has no {sample}*", f"--kv-endpoint={url}")


def test_caching_is_off(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--no-prefix-caching")
    line = "inconclusive: the server says that its prefix cache is off; switch it on (start it without *) [KV107]"
    check(pytester, run, line, f"--kv-endpoint={url}")


def test_engine_restarts_in_the_middle(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--fault", "restart_after=6")  # two prefill requests, then eight
    line = f"inconclusive: process_start_time_seconds changed on {url}/metrics: the engine restarted*[KV102]"
    check(pytester, run, line, f"--kv-endpoint={url}")


def test_another_client_sends_traffic(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--fault", "foreign_tokens=100")
    arithmetic = "inconclusive: the server looked up 2,848 tokens where 2,048 were sent: 800 more; "
    line = arithmetic + "another client used the server meanwhile: its prompt counter shows 2,848 too [KV103]"
    check(pytester, run, line, f"--kv-endpoint={url}")


def test_engine_that_counts_requests_again(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--fault", "retry_lookups=2")
    arithmetic = "inconclusive: the server looked up 4,096 tokens where 2,048 were sent: 2,048 more; "
    line = arithmetic + "the engine counted requests more than once: its prompt counter shows 2,048 [KV103]"
    check(pytester, run, line, f"--kv-endpoint={url}")


def test_engine_that_never_rests(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--fault", "stuck_running")
    line = f"inconclusive: {url}/metrics: 1 requests still run or wait after 10 s; is another client using the server?"
    check(pytester, run, line, f"--kv-endpoint={url}")


def test_counters_that_come_late_are_waited_for(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--fault", "late_counters=0.7")
    pytester.makepyfile(PASSING)
    run(f"--kv-endpoint={url}").assert_outcomes(passed=1)


def test_cached_tokens_absent(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--no-prompt-tokens-details")
    line = "inconclusive: only 0 of 8 replies report cached_tokens; the server needs a start without * [KV111]"
    check(pytester, run, line, f"--kv-endpoint={url}", body=USAGE)
    again = pytester.makepyfile(test_again=PASSING)
    run(f"--kv-endpoint={url}", again).assert_outcomes(passed=1)  # the counters need no usage details


def test_wrong_tokenizer(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--fault", "tokens_off=3")
    line = "inconclusive: the server counted * prompt tokens where * were composed; the tokenizer is not*[KV113]"
    check(pytester, run, line, f"--kv-endpoint={url}")


def test_missing_tokenizer(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    line = "inconclusive: tokenizer './none.json': there is no file none.json; name a tokenizer.json or a folder*"
    check(pytester, run, line, f"--kv-endpoint={sim}", "--kv-tokenizer=./none.json")


def test_prompt_longer_than_the_model_takes(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--max-model-len", "200")
    line = "inconclusive: shared_prefix: 256 prompt and 2 output tokens are more than the 200 that 'sim' takes*"
    check(pytester, run, line, f"--kv-endpoint={url}")


def test_rate_out_of_reach(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--block-size", "100")
    line = (
        "inconclusive: shared_prefix: hit_rate=0.5 is out of reach with 256-token prompts and blocks of 100: the"
        " nearest reachable are 0.391 (prefix_len=100) or 0.781 (prefix_len=200), the highest is 0.781; ask for*"
    )
    check(pytester, run, line, f"--kv-endpoint={url}")


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("wait", ["", "2"])
def test_some_requests_are_refused(
    pytester: pytest.Pytester, run: Run, start_sim: Start, status: int, wait: str
) -> None:
    faults = ["--fault", f"status={status}", "--fault", "every=5"] + (
        ["--fault", f"retry_after={wait}"] if wait else []
    )
    url = start_sim(*faults)
    asked = "; the server asked to wait 2 s" if wait else ""
    line = f"hit rate 0.500, * (2 of 8 requests failed: 2 x HTTP {status}: planted fault: try again later{asked}):*"
    check(pytester, run, line, f"--kv-endpoint={url}", "--kv-concurrency=1")


def test_prefill_is_refused(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--fault", "status=503", "--fault", "retry_after=1")
    line = "inconclusive: prefill failed: 2 of 2 requests, first: HTTP 503: planted fault: try again later [KV110]"
    check(pytester, run, line, f"--kv-endpoint={url}")


def test_stream_is_cut_in_the_middle(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--fault", "cut_stream=1")
    check(
        pytester, run, "inconclusive: all 8 requests failed: 8 x the connection ended*[KV109]", f"--kv-endpoint={url}"
    )


def test_error_inside_a_stream(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--fault", "error_in_stream")
    line = "inconclusive: prefill failed: 2 of 2 requests, first: planted fault: engine died [KV110]"
    check(pytester, run, line, f"--kv-endpoint={url}")


def test_missing_done_and_usage_in_every_chunk_are_fine(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--fault", "no_done", "--fault", "usage_every_chunk")
    pytester.makepyfile(PASSING)
    run(f"--kv-endpoint={url}").assert_outcomes(passed=1)


def test_reset_is_not_to_be_had(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--no-dev-mode")
    line = "inconclusive: --kv-reset=require: the cache could not be reset; reset: unavailable (404); it needs *"
    check(pytester, run, line, f"--kv-endpoint={url}", "--kv-reset=require")
    result = run(f"--kv-endpoint={url}", "--kv-reset=auto", "--kv-report=out.json")
    result.assert_outcomes(passed=1)
    assert "reset: unavailable (404)" in (pytester.path / "out.json").read_text()
    assert run(f"--kv-endpoint={url}", "--kv-reset=auto").parseoutcomes() == {"passed": 1}  # and again: not warmer


def test_reset_that_does_nothing_is_not_believed(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--fault", "reset_lies")
    line = "inconclusive: --kv-reset=require: the cache could not be reset; reset: incomplete (a prompt sent before it*"
    check(pytester, run, line, f"--kv-endpoint={url}", "--kv-reset=require")


@pytest.mark.parametrize("patience", [0.0, 10.0])
def test_reset_is_tried_again_while_requests_run(
    pytester: pytest.Pytester, run: Run, start_sim: Start, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    import threading
    import urllib.request

    monkeypatch.setattr(pytest_kvcache.reset, "BUSY_SECONDS", patience)
    url = start_sim("--decode-time", "0.02")
    body = b'{"prompt": [1, 2, 3], "max_tokens": 100}'
    request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
    busy = threading.Thread(target=lambda: urllib.request.urlopen(request).close())
    busy.start()
    wait_for(lambda: served(url) >= 3)
    if patience:
        pytester.makepyfile(PASSING)
        run(f"--kv-endpoint={url}", "--kv-reset=require").assert_outcomes(passed=1)
    else:
        line = "inconclusive: --kv-reset=require: the cache could not be reset; reset: refused by the server for 0 s, *"
        check(pytester, run, line, f"--kv-endpoint={url}", "--kv-reset=require")
    busy.join()


def test_same_seed_twice_is_never_silently_warm(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim()
    pytester.makepyfile(PASSING)
    run(f"--kv-endpoint={url}", "--kv-seed=0").assert_outcomes(passed=1)
    result = run(f"--kv-endpoint={url}", "--kv-seed=0")
    ends_with(
        result, "inconclusive: the measured rate 0.9375 is above 0.5000, the most that any cache can reach*[KV108]"
    )
    result.stdout.fnmatch_lines(["*warm start: *"])
    run(f"--kv-endpoint={url}", "--kv-seed=0", "--kv-reset=require").assert_outcomes(passed=1)
    run(f"--kv-endpoint={url}").assert_outcomes(passed=1)  # a fresh nonce needs no reset


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a process group")
def test_ctrl_c_stops_the_server_and_keeps_partial_results(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_long(kv, kv_workload, kv_endpoint):
            open("url", "w").write(kv_endpoint.url)
            kv.run(kv_workload.shared_prefix(requests=4000, input_len=64, hit_rate=0, output_len=20), concurrency=1)
        """
    )
    words = ["-p", "no:cacheprovider", "--kv-endpoint=sim", "--kv-report=out.json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *words], cwd=pytester.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    url = wait_for(lambda: (pytester.path / "url").exists() and (pytester.path / "url").read_text())
    wait_for(lambda: served(url) > 20)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "inconclusive" in output
    assert "Task was destroyed" not in output
    report = (pytester.path / "out.json").read_text()
    assert '"interrupted": true' in report
    assert "KV116" in report
    wait_for(lambda: served(url) < 0)


def served(url: str) -> float:
    """Return the query tokens counted so far, -1 when nobody listens."""
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as page:
            lines = page.read().decode().splitlines()
    except (urllib.error.URLError, ConnectionError):
        return -1
    return next(float(line.split()[-1]) for line in lines if line.startswith("sim:prefix_cache_queries_total{"))


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return str(found)
        time.sleep(0.02)
    raise TimeoutError(f"not within {seconds} s")


def test_server_dies_with_its_parent(tmp_path: Path) -> None:
    script = (
        "import os, sys, time\nfrom pytest_kvcache.simulate.process import SimProcess\n"
        "p = SimProcess().start()\nprint(p.url, flush=True)\nos._exit(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    wait_for(lambda: served(done.stdout.strip()) < 0)
