"""The verdict is an ordinary outcome of the test, wherever pytest looks at outcomes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import FAILING, PASSING, Run


def test_pass(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(PASSING)
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*pass *0.500 *0.500 *0.500*1,024/2,048*test_pass.py::test_shared"])


def test_fail_is_one_sentence_and_a_section(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(FAILING)
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "hit rate 0.500, wanted 0.900 ± 0.000 (0.400 below): 1,024 of 2,048 tokens hit [[]KV201[]]. These *",
            "*Captured kvcache call*",
            "  1,024 of 2,048 hit, by counters · 8 requests · sim *",
            "  an ideal cache reaches 0.500, 0.000 more than was measured",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*runtime.py*")


@pytest.mark.parametrize(("bounds", "shown"), [("min=0.4", "≥0.400"), ("min=0.4, max=0.6", "≥0.400 ≤0.600")])
def test_bounds_stand_where_a_target_would(
    pytester: pytest.Pytester, run: Run, sim: str, bounds: str, shown: str
) -> None:
    pytester.makepyfile(PASSING.replace("target=0.5, tol=0.0", bounds))
    result = run(f"--kv-endpoint={sim}", "--kv-markdown=kv.md")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"*pass *0.500 *{shown} *0.500*1,024/2,048*"])
    assert f"| 0.500 | {shown} | 0.500 |" in (pytester.path / "kv.md").read_text(encoding="utf-8")


def test_without_a_target_the_prediction_is_the_target(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(PASSING.replace("target=0.5, tol=0.0", "tol=0.0"))
    run(f"--kv-endpoint={sim}").assert_outcomes(passed=1)


def test_strict_xfail_sees_the_failure(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        FAILING.replace("@pytest.mark.hit_rate", "@pytest.mark.xfail(strict=True)\n@pytest.mark.hit_rate")
    )
    run(f"--kv-endpoint={sim}").assert_outcomes(xfailed=1)


def test_strict_xfail_sees_the_pass(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        PASSING.replace("@pytest.mark.hit_rate", "@pytest.mark.xfail(strict=True)\n@pytest.mark.hit_rate")
    )
    run(f"--kv-endpoint={sim}").assert_outcomes(failed=1)


def test_exitfirst(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(FAILING + "\ndef test_other(): pass\n")
    run(f"--kv-endpoint={sim}", "-x").assert_outcomes(failed=1)


def test_body_failure_is_not_shouted_over(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(FAILING + "    assert 1 == 2, 'mine'\n")
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*AssertionError: mine*"])
    result.stdout.no_fnmatch_line("hit rate 0.500, wanted*FAILED*")


def test_skip_in_the_body_stays_a_skip(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.hit_rate(min=0)\ndef test_s(kv):\n    pytest.skip('no')\n")
    run(f"--kv-endpoint={sim}").assert_outcomes(skipped=1)


def test_marker_without_any_run_is_inconclusive(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.hit_rate(min=0)\ndef test_n(kv): pass\n")
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: the test measured nothing*"])


def test_result_is_readable_in_the_test(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        """
        def test_numbers(kv, kv_workload):
            w = kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=0.5, output_len=3)
            r = kv.run(w, concurrency=2)
            assert (r.hit_rate, r.hit_tokens, r.query_tokens) == (0.5, 512, 1024)
            assert r.predicted == r.ceiling == 0.5
            assert r.verdict.status == "pass"
            assert r.engines["0"].query == 1024
            assert len(r.exchanges) == 4 and all(e.completion_tokens == 3 for e in r.exchanges)
            assert len(r.ttft) == 4 and 0 < r.ttft.p50 <= r.ttft.max <= r.e2e.max
            assert len(r.itl) == 8 and r.itl.p95 >= 0
            assert {e.finish_reason for e in r.exchanges} == {"length"}
        """
    )
    run(f"--kv-endpoint={sim}").assert_outcomes(passed=1)


def test_a_run_without_a_reset_needs_no_room_for_a_probe(
    pytester: pytest.Pytester, run: Run, start_sim: Callable[..., str]
) -> None:
    # a reset's probe is three blocks and one token: more than this model takes
    url = start_sim("--block-size", "100", "--max-model-len", "280")
    pytester.makepyfile(PASSING.replace("input_len=256", "input_len=200"))
    run(f"--kv-endpoint={url}").assert_outcomes(passed=1)


def test_two_runs_are_judged_together(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.hit_rate(target=0.25, tol=0.0)
        def test_two(kv, kv_workload):
            for rate in (0.5, 0.0):
                kv.run(kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=rate, output_len=1))
        """
    )
    run(f"--kv-endpoint={sim}").assert_outcomes(passed=1)


def test_the_same_workload_twice_in_one_test_is_cold_each_time(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        """
        def test_twice(kv, kv_workload):
            workload = kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=0.5, output_len=1)
            assert [kv.run(workload).hit_rate for _ in range(2)] == [0.5, 0.5]
        """
    )
    run(f"--kv-endpoint={sim}").assert_outcomes(passed=1)


def test_reruns_measure_each_attempt_once_and_cold(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    pytester.makepyfile(
        """
        import pytest
        tries = []

        @pytest.mark.hit_rate(target=0.5, tol=0.0)
        def test_flaky(kv, kv_workload):
            result = kv.run(kv_workload.shared_prefix(requests=4, input_len=256, hit_rate=0.5, output_len=1))
            assert result.query_tokens == 1024
            tries.append(result.hit_tokens)
            assert len(tries) > 1
        """
    )
    result = run(f"--kv-endpoint={sim}", "--reruns=2", "--junitxml=j.xml", "--kv-seed=3")
    result.stdout.fnmatch_lines(["*1 passed*1 rerun*"])
    from .conftest import properties

    assert properties(pytester.path / "j.xml")["test_flaky"]["kv_hit_tokens"] == "512"
