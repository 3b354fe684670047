"""``kv.run`` at a rate, in a ramp and with retries: the same exact rates, and arguments that are refused."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from pytest_kvcache.plugin import progress

from .conftest import Run

Start = Callable[..., str]

BODY = """
import pytest

@pytest.mark.hit_rate(target=0.5, tol=0.0)
def test_paced(kv, kv_workload):
    workload = kv_workload.shared_prefix(requests=8, input_len=256, hit_rate=0.5, prefixes=2, output_len=2)
    result = kv.run(workload, ARGUMENTS)
    exchanges, prefill = result.exchanges, result.measurement.prefill
    CHECK
"""
SCHEDULED = """
    assert [e.scheduled for e in prefill] == [None, None]  # a cache is warmed in a closed loop
    times = [e.scheduled for e in exchanges]
    assert times == sorted(times)
    assert all(e.queued >= e.scheduled for e in exchanges)
    assert [e.ttft for e in exchanges] == [e.first_content - e.scheduled for e in exchanges]
    assert list(result.ttft.samples) == list(sorted(e.ttft for e in exchanges))
"""


def body(arguments: str, check: str = "") -> str:
    return BODY.replace("ARGUMENTS", arguments).replace("CHECK", check.strip())


@pytest.mark.parametrize(
    "arguments",
    [
        "rate=400",
        "rate=400, arrival='constant'",
        "rate=400, arrival='constant', ramp=0.02",
        "rate=400, ramp=0.02",
        "rate=1e6, concurrency=2",
    ],
)
def test_a_rate_run_reaches_the_predicted_rate(pytester: pytest.Pytester, run: Run, sim: str, arguments: str) -> None:
    pytester.makepyfile(body(arguments, SCHEDULED))
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*pass *0.500 *0.500 *0.500*1,024/2,048*::test_paced"])


def test_a_ramp_of_a_closed_loop(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(body("concurrency=4, ramp=0.02", "assert {e.scheduled for e in exchanges} == {None}"))
    run(f"--kv-endpoint={sim}").assert_outcomes(passed=1)


@pytest.mark.parametrize("arrival", ["constant", "poisson"])
def test_times_are_those_of_the_pace_and_come_again_with_the_seed(
    pytester: pytest.Pytester, run: Run, sim: str, arrival: str
) -> None:
    told = "print('GAPS', *(f'{e.scheduled - times[0]:.6f}' for e in exchanges))"
    pytester.makepyfile(body(f"rate=300, arrival={arrival!r}", f"{SCHEDULED}    {told}"))

    def gaps(*words: str) -> str:
        # the cache is emptied, since a seed sends the same prompts
        lines = run(f"--kv-endpoint={sim}", "-s", "--kv-reset=require", *words).outlines
        return next(line for line in lines if "GAPS" in line)

    first = gaps("--kv-seed=7")
    assert gaps("--kv-seed=7") == first
    if arrival == "constant":
        expected = " ".join(f"{at:.6f}" for at in (k / 300 for k in range(8)))
        assert first.endswith(f"GAPS {expected}")
    else:
        assert gaps("--kv-seed=8") != first


def test_progress_of_a_rate_run(pytester: pytest.Pytester, run: Run, sim: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.0)
    pytester.makepyfile(body("rate=400"))
    lines = run(f"--kv-endpoint={sim}").outlines
    told = re.findall(r"^test_paced: (\w+ \d+/\d+)", "\n".join(lines), re.MULTILINE)
    assert told == ["prefill 1/2", "prefill 2/2", *(f"load {done}/8" for done in range(1, 9))]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("concurrency=0", "kv.run(concurrency=0): expected at least 1 session at a time"),
        ("rate=0", "kv.run(rate=0): expected sessions per second, above 0"),
        ("rate=-1.5", "kv.run(rate=-1.5): expected sessions per second, above 0"),
        ("rate=float('nan')", "kv.run(rate=nan): expected sessions per second, above 0"),
        ("rate=float('inf')", "kv.run(rate=inf): expected sessions per second, above 0"),
        ("rate=1, arrival='uniform'", "kv.run(arrival='uniform'): expected 'poisson' or 'constant'"),
        ("rate=1, ramp=-1", "kv.run(ramp=-1): expected seconds, 0 or more"),
        ("ramp=float('inf')", "kv.run(ramp=inf): expected seconds, 0 or more"),
        ("settle=-1", "kv.run(settle=-1): expected seconds, 0 or more"),
        ("retries=-1", "kv.run(retries=-1): expected 0 or more"),
        ("reset='always'", "kv.run(reset='always'): expected 'never', 'auto' or 'require'"),
        ("sessions=3", "kv.run(sessions=...): only a conversation has sessions; see kv_workload.conversation"),
    ],
)
def test_arguments_that_are_refused(pytester: pytest.Pytester, run: Run, sim: str, arguments: str, text: str) -> None:
    pytester.makepyfile(body(arguments))
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"inconclusive: {text}*"])


def test_what_is_no_workload_is_refused(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile("def test_it(kv): kv.run('Hello')")
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: expected a workload, such as kv_workload.prompts(...)*; got 'str'"])


# --- retries ---------------------------------------------------------------------------------------------------------

# Two requests warm the two prefixes, eight follow, one at a time; every third that the server gets is refused.
EVERY_THIRD = ("--fault", "status=429", "--fault", "every=3", "--fault", "retry_after=0.05")
RETRIED = """
    assert all(e.ok for e in exchanges)
    # the server's requests 3 to 14: 3, 6, 9 and 12 are refused, and each is sent again as the next one
    assert [len(e.earlier) for e in exchanges] == [1, 0, 1, 0, 1, 0, 1, 0]
    assert {(e.earlier[0].status, e.earlier[0].failure.retry_after) for e in exchanges if e.earlier} == {(429, 0.05)}
    assert all(e.sent - e.earlier[0].end >= 0.05 for e in exchanges if e.earlier)
"""


def test_s12_refused_requests_are_not_sent_again_unless_asked(
    pytester: pytest.Pytester, run: Run, start_sim: Start
) -> None:
    pytester.makepyfile(body("concurrency=1", "assert {e.earlier for e in exchanges} == {()}"))
    result = run(f"--kv-endpoint={start_sim(*EVERY_THIRD)}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*3 of 8 requests failed: 3 x HTTP 429: *; the server asked to wait 0.05 s*KV203*"])


@pytest.mark.parametrize("source", ["counters", "usage"])
def test_s12_a_retry_waits_as_asked_and_is_told(
    pytester: pytest.Pytester, run: Run, start_sim: Start, source: str
) -> None:
    told = body("concurrency=1, retries=3", RETRIED).replace("tol=0.0", f"tol=0.0, source={source!r}")
    pytester.makepyfile(told)
    result = run(f"--kv-endpoint={start_sim(*EVERY_THIRD)}", "-rA")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*4 of 8 requests were tried again, first because of HTTP 429: *KV314*"])
    result.stdout.fnmatch_lines(["*pass *0.500 *0.500 *0.500*1,024/2,048*::test_paced"])


def test_s12_a_wait_in_an_open_loop_is_in_the_latency(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    waited = "assert [e.ttft >= 0.05 for e in exchanges if e.earlier] == [True] * 4"
    pytester.makepyfile(body("rate=400, concurrency=1, retries=3", SCHEDULED + f"    {waited}"))
    run(f"--kv-endpoint={start_sim(*EVERY_THIRD)}").assert_outcomes(passed=1)


def test_s12_a_server_that_asks_for_too_long_is_not_waited_for(
    pytester: pytest.Pytester, run: Run, start_sim: Start
) -> None:
    url = start_sim("--fault", "status=503", "--fault", "every=5", "--fault", "retry_after=3600")
    pytester.makepyfile(body("concurrency=1, retries=3"))
    result = run(f"--kv-endpoint={url}")
    result.assert_outcomes(failed=1)
    why = "(not tried again: a retry waits 120 s at most); the server asked to wait 3600 s"
    result.stdout.fnmatch_lines([f"*2 of 8 requests failed: 2 x HTTP 503: * {why}*KV203*"])


def test_a_prefill_request_is_tried_again_too(pytester: pytest.Pytester, run: Run, start_sim: Start) -> None:
    url = start_sim("--fault", "status=503", "--fault", "every=2", "--fault", "retry_after=0")
    check = "assert [len(e.earlier) for e in prefill] == [0, 1]"
    pytester.makepyfile(body("concurrency=1, retries=1", check))
    run(f"--kv-endpoint={url}").assert_outcomes(passed=1)
