"""Markers of latency, throughput and speed-up: ordinary outcomes of a test, and their errors at collection.

Limits are far from what any machine gives: 1 ms for what the simulated engine takes 200 ms for, and minutes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_kvcache.simulate.process import SimProcess

from .conftest import Run, properties


@pytest.fixture(scope="module")
def slow() -> Iterator[str]:
    """A prompt of 200 tokens takes 20 ms, one after the other, each token of an answer 10 ms."""
    with SimProcess("--prefill-rate=10000", "--decode-time=0.01", "--batch-slots=64") as process:
        yield process.url


def of(markers: str, body: str = "", requests: int = 24) -> str:
    sent = f"requests={requests}, input_len=200, hit_rate=0, output_len=3"
    body = body or f"kv.run(kv_workload.shared_prefix({sent}), concurrency=24)"
    return f"import pytest\n\n{markers}\ndef test_load(kv, kv_workload):\n    {body}\n"


def test_pass(pytester: pytest.Pytester, run: Run, slow: str) -> None:
    limits = "ttft_p95=60, itl_mean=60, tpot_max=60, e2e_p50=600, tokens_per_s_p10=1e-6, output_tok_s=1e-6"
    shares = "input_tok_s=1e-6, goodput=1e-6, attainment=0.95, ttft=60, tpot=60, e2e=600, error_rate=0"
    pytester.makepyfile(of(f"@pytest.mark.kv_slo({limits}, {shares})"))
    result = run(f"--kv-endpoint={slow}", "--junitxml=out.xml")
    result.assert_outcomes(passed=1)
    found = properties(pytester.path / "out.xml")["test_load"]
    assert found["kv_verdict"] == "pass"
    assert found["kv_hit_rate"] == "0.000000"  # told beside it


def test_a_miss_is_a_failure_in_the_tests_own_name(pytester: pytest.Pytester, run: Run, slow: str) -> None:
    pytester.makepyfile(of("@pytest.mark.kv_slo(ttft_p50=0.001, e2e_p50=60)"))
    result = run(f"--kv-endpoint={slow}", "--junitxml=out.xml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["TTFT p50 *s, wanted at most 1.00 ms (24 requests, 95 % between * and *) [[]KV207[]]", "*Captured kvcache*"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*runtime.py*")
    found = properties(pytester.path / "out.xml")["test_load"]
    assert (found["kv_verdict"], found["kv_findings"].split()[0]) == ("fail", "KV207")


def test_too_few_requests_are_inconclusive(pytester: pytest.Pytester, run: Run, slow: str) -> None:
    pytester.makepyfile(of("@pytest.mark.kv_slo(ttft_p99=60)"))
    result = run(f"--kv-endpoint={slow}", "--junitxml=out.xml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["inconclusive: TTFT p99: 24 samples, and p99 needs at least 100; send more requests * [[]KV126[]]"]
    )
    assert properties(pytester.path / "out.xml")["test_load"]["kv_verdict"] == "inconclusive"


def test_xfail_sees_it(pytester: pytest.Pytester, run: Run, slow: str) -> None:
    pytester.makepyfile(of("@pytest.mark.xfail(strict=True)\n@pytest.mark.kv_slo(ttft_p50=0.001)"))
    run(f"--kv-endpoint={slow}").assert_outcomes(xfailed=1)
    pytester.makepyfile(of("@pytest.mark.xfail(strict=True)\n@pytest.mark.kv_slo(ttft_p50=60)"))
    run(f"--kv-endpoint={slow}").assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("rate", "limits", "begins"),
    [
        ("target=0", "ttft_p50=60", None),
        ("target=0", "ttft_p50=0.001", "TTFT p50 *wanted at most 1.00 ms*[[]KV207[]]"),
        ("min=0.5", "ttft_p50=60", "hit rate 0.000, wanted at least 0.500 *[[]KV201[]]*"),
        ("min=0.5", "ttft_p50=0.001", "hit rate 0.000, wanted at least 0.500 *[[]KV201[]]*. TTFT p50 *[[]KV207[]]"),
        ("target=0", "ttft_p99=60", "inconclusive: TTFT p99: 24 samples*"),
    ],
)
def test_both_markers(
    pytester: pytest.Pytester, run: Run, slow: str, rate: str, limits: str, begins: str | None
) -> None:
    pytester.makepyfile(of(f"@pytest.mark.hit_rate({rate})\n@pytest.mark.kv_slo({limits})"))
    result = run(f"--kv-endpoint={slow}")
    result.assert_outcomes(**({"failed": 1} if begins else {"passed": 1}))
    if begins:
        result.stdout.fnmatch_lines([begins])


def test_a_level_of_its_own_for_each_step(pytester: pytest.Pytester, run: Run, slow: str) -> None:
    workload = "kv_workload.shared_prefix(requests=8, input_len=800, hit_rate=0, output_len=3)"
    steps = f"kv.steps({workload}, [4, 8], duration=0.9)"
    pytester.makepyfile(of("@pytest.mark.kv_slo(ttft_p50=0.001)", steps))
    result = run(f"--kv-endpoint={slow}", "--kv-report=out.json")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["TTFT p50 * at concurrency 4, wanted at most 1.00 ms (*) [[]KV207[]]"])
    (test,) = json.loads((pytester.path / "out.json").read_text())["checks"]
    assert [single["verdict"] for single in test["runs"]] == ["fail", "fail"]


@pytest.mark.parametrize(("count", "more"), [(1, "retries=1"), (2, "")])
def test_only_repetitions_of_a_level_are_one_sample(
    pytester: pytest.Pytester, run: Run, slow: str, count: int, more: str
) -> None:
    body = f"""shape = kv_workload.shared_prefix(requests=8, input_len=32, hit_rate=0, output_len=2)
    found = [step.results for _ in range({count}) for step in kv.steps(shape, [2], duration=0.3, {more})]
    assert [[result.stretch.lap for result in results] for results in found] == {[[0, 1]] if more else [[0], [0]]}"""
    pytester.makepyfile(of("@pytest.mark.kv_slo(ttft_p50=60, e2e_p50=1e-6)", body))
    result = run(f"--kv-endpoint={slow}")
    result.assert_outcomes(failed=1)
    told = next(line for line in result.outlines if line.startswith("E2E p50"))
    assert ("in run 1 of 2" in told) == (not more)


def test_rates_that_cannot_be_read_do_not_matter(pytester: pytest.Pytester, run: Run) -> None:
    with SimProcess("--no-prompt-tokens-details") as process:
        words = (f"--kv-endpoint={process.url}", "--kv-engine=usage")
        pytester.makepyfile(of("@pytest.mark.kv_slo(ttft_p50=60)"))
        run(*words).assert_outcomes(passed=1)
        pytester.makepyfile(of("@pytest.mark.hit_rate(max=1)\n@pytest.mark.kv_slo(ttft_p50=60)"))
        run(*words).assert_outcomes(failed=1)


@pytest.mark.parametrize(("limits", "outcome"), [("", "failed"), (", error_rate=0.5", "passed")])
def test_failed_requests_fail_it_unless_it_says_how_many_may(
    pytester: pytest.Pytester, run: Run, limits: str, outcome: str
) -> None:
    with SimProcess("--fault=status=429", "--fault=every=5") as process:
        pytester.makepyfile(of(f"@pytest.mark.kv_slo(ttft_p50=60{limits})", requests=40))
        result = run(f"--kv-endpoint={process.url}")
    result.assert_outcomes(**{outcome: 1})
    if outcome == "failed":
        result.stdout.fnmatch_lines(
            ["error rate 0.*, wanted at most 0.0000 (* of 40 requests failed*): * x *[[]KV207[]]"]
        )


def test_nothing_measured_and_own_traffic_are_inconclusive(pytester: pytest.Pytester, run: Run, slow: str) -> None:
    pytester.makepyfile(of("@pytest.mark.kv_slo(ttft_p50=60)", "pass"))
    result = run(f"--kv-endpoint={slow}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: the test measured nothing; call kv.run, which times what it sends *"])
    pytester.makepyfile(of("@pytest.mark.kv_slo(ttft_p50=60)", "with kv.measure(): pass"))
    result = run(f"--kv-endpoint={slow}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: TTFT p50: traffic of your own is not timed here; *"])


@pytest.mark.parametrize("marker", ["kv_slo(ttft_p50=60)", "kv_speedup(min=1.1)"])
def test_a_test_without_the_fixture_measures_nothing(
    pytester: pytest.Pytester, run: Run, slow: str, marker: str
) -> None:
    pytester.makepyfile(f"import pytest\n\n@pytest.mark.{marker}\ndef test_other():\n    pass\n")
    result = run(f"--kv-endpoint={slow}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: the test measured no*"])


SPEED_UP = "kv.speedup(kv_workload.shared_prefix(requests=6, input_len=3200, hit_rate=0.96, output_len=1))"


@pytest.mark.parametrize(
    ("marker", "outcome"),
    [("min=1.5", "passed"), ("min=1000", "failed"), ('min=1.2, of="e2e", statistic="mean"', "passed")],
)
def test_speed_ups(pytester: pytest.Pytester, run: Run, slow: str, marker: str, outcome: str) -> None:
    pytester.makepyfile(of(f"@pytest.mark.kv_speedup({marker})", SPEED_UP))
    result = run(f"--kv-endpoint={slow}")  # 320 ms cold, 13 ms warm
    result.assert_outcomes(**{outcome: 1})
    if outcome == "failed":
        told = "speed-up of TTFT p50 *x, wanted at least 1000.00x (* cold, * warm, 6 pairs*)"
        result.stdout.fnmatch_lines([f"{told}; ceiling 1/(1 - 0.960) = 25.00x [[]KV207[]]"])


def test_the_cold_run_of_a_speed_up_is_no_part_of_the_hit_rate(pytester: pytest.Pytester, run: Run, slow: str) -> None:
    pytester.makepyfile(of("@pytest.mark.hit_rate(min=0.9)", SPEED_UP))  # with both runs it would be 0.48
    run(f"--kv-endpoint={slow}").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("marker", "told"),
    [
        ("kv_slo()", "*test_load: @pytest.mark.kv_slo: no limit is given; say for example ttft_p95=2.0 (seconds)*"),
        ("kv_slo(2.0)", "*@pytest.mark.kv_slo: takes 0 positional arguments but 1 was given*"),
        ("kv_slo(ttft_p96=2)", "*ttft_p96= is no limit of a service level, did you mean ttft_p9*"),
        ("kv_slo(ttft_p95='2 s')", "*ttft_p95='2 s' is no limit; expected seconds, above 0*"),
        ("kv_slo(goodput=2)", "*add ttft=, tpot= or e2e= (seconds)*"),
        ("kv_slo(ttft=2)", "*ttft= is what each request has to meet; say how many must*"),
        ("kv_speedup()", "*missing 1 required keyword-only argument: 'min'; expected kv_speedup(min=, of='ttft'*"),
        ("hit_rate(10**400)", "*@pytest.mark.hit_rate: target=1000*is no rate; expected a ratio between 0 and 1*"),
        ("kv_speedup(min=0)", "*min=0 is no speed-up; expected cold over warm*"),
    ],
)  # fmt: skip
def test_wrong_arguments_stop_the_collection(pytester: pytest.Pytester, run: Run, marker: str, told: str) -> None:
    pytester.makepyfile(of(f"@pytest.mark.{marker}"))
    result = run("--kv-endpoint=http://127.0.0.1:9")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([told])


def test_markers_are_listed_with_what_they_take(run: Run) -> None:
    result = run("--markers")
    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.kv_slo([*][*]limits): Judge the latency and throughput*ttft_p95=2.0*error_rate*goodput*",
            "@pytest.mark.kv_speedup(min=, of='ttft', statistic='p50'): Judge what the cache gains*",
        ]
    )


def test_a_rerun_begins_anew(pytester: pytest.Pytester, run: Run, slow: str, tmp_path: Path) -> None:
    """A level that another test of the file misses is no part of this one."""
    good, bad = of("@pytest.mark.kv_slo(ttft_p50=60)"), of("@pytest.mark.kv_slo(ttft_p50=0.001)")
    pytester.makepyfile(test_one=good, test_two=bad)
    run(f"--kv-endpoint={slow}").assert_outcomes(passed=1, failed=1)
