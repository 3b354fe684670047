"""Hit rate, service level and speed-up as one verdict: which decides, what spoils which, and what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_kvcache.diagnose import __doc__ as codes_table
from pytest_kvcache.judge import judge
from pytest_kvcache.model import Expectation, Finding, Measurement, Severity, Tokens, Verdict
from pytest_kvcache.slo.asked import speed_up
from pytest_kvcache.slo.verdict import OF_RATE, judge_test

from .made import answer, asked, client, failed, level, run

ANSWERS = [answer(0.1, sent=float(at), cached_tokens=64) for at in range(30)]
GOOD = run(ANSWERS)
MET, MISSED = asked(ttft_p95=5), asked(ttft_p95=0.01)
RATE, OTHER_RATE = Expectation(target=0.64), Expectation(min=0.9)
FEW = asked(ttft_p99=5)


def codes(verdict: Verdict) -> list[str]:
    return [finding.code for finding in verdict.findings]


def reached(verdict: Verdict) -> list[str]:
    return [one.reached for one in verdict.objectives]


def test_without_a_service_level_it_is_the_verdict_on_the_rate() -> None:
    assert judge_test(RATE, [GOOD]) == judge(RATE, [GOOD])
    assert judge_test(None, [GOOD]) == judge(Expectation(min=0.0), [GOOD])
    assert judge_test(None, [run([*ANSWERS, failed()])]).status == "fail"  # told to nobody's harm: nothing was asked


@pytest.mark.parametrize(
    ("rate", "asks", "status", "begins"),
    [
        (None, MET, "pass", "TTFT p95 100.0 ms, wanted at most 5.000 s (30 requests"),
        (None, MISSED, "fail", "TTFT p95 100.0 ms, wanted at most 10.00 ms"),
        (None, FEW, "inconclusive", "inconclusive: TTFT p99: 30 samples, and p99 needs at least 100; send more"),
        (RATE, MET, "pass", "hit rate 0.640, wanted 0.640 ± 0.020"),
        (RATE, MISSED, "fail", "TTFT p95 100.0 ms, wanted at most 10.00 ms"),
        (RATE, FEW, "inconclusive", "inconclusive: TTFT p99"),
        (OTHER_RATE, MET, "fail", "hit rate 0.640, wanted at least 0.900"),
        (OTHER_RATE, MISSED, "fail", "hit rate 0.640, wanted at least 0.900"),
        (OTHER_RATE, FEW, "fail", "hit rate 0.640, wanted at least 0.900"),
    ],
)  # fmt: skip
def test_what_decides_is_said_first(rate: Expectation, asks: object, status: str, begins: str) -> None:
    verdict = judge_test(rate, [GOOD], asks)  # type: ignore[arg-type] # a service level
    assert verdict.status == status
    assert verdict.sentence.startswith(begins)
    assert reached(verdict)[0] == {MET: "pass", MISSED: "fail", FEW: "inconclusive"}[asks]  # type: ignore[index] # as above


def test_both_are_told_when_both_failed() -> None:
    verdict = judge_test(OTHER_RATE, [GOOD], MISSED)
    rate, _, objective = verdict.sentence.partition(". TTFT")
    assert rate == judge(OTHER_RATE, [GOOD]).sentence
    assert objective.endswith("[KV207]")
    assert codes(verdict)[:2] == ["KV201", "KV207"]


def test_several_misses_stand_in_one_line() -> None:
    verdict = judge_test(None, [GOOD], asked(ttft_p95=0.01, e2e_p50=0.01, ttft_p50=9))
    assert verdict.sentence.count("wanted at most") == 2
    assert "; E2E p50 200.0 ms" in verdict.sentence
    assert verdict.sentence.endswith(" [KV207]")
    assert reached(verdict) == ["pass", "fail", "fail", "pass"]  # the last one: no request failed


def test_what_is_certain_outweighs_what_is_not_known() -> None:
    verdict = judge_test(None, [GOOD], asked(ttft_p99=5, e2e_p50=0.01))
    assert verdict.status == "fail"
    assert codes(verdict)[0] == "KV207"
    assert "KV126" in codes(verdict)


# --- requests that failed --------------------------------------------------------------------------------------------

SOME = run([*ANSWERS, failed(), failed()])


def test_requests_may_fail_only_where_that_is_said() -> None:
    verdict = judge_test(None, [SOME], MET)
    assert verdict.status == "fail"
    assert verdict.sentence.startswith("error rate 0.0625, wanted at most 0.0000 (2 of 32 requests failed")
    assert "KV203" not in codes(verdict)
    assert judge_test(None, [SOME], asked(ttft_p95=5, error_rate=0.07)).status == "pass"
    assert judge_test(None, [SOME], asked(ttft_p95=5, error_rate=0.06)).status == "fail"


def test_both_markers_share_what_may_fail() -> None:
    assert judge_test(RATE, [SOME], MET).sentence.startswith("hit rate 0.640, wanted 0.640 ± 0.020 (2 of 32 requests")
    assert judge_test(replace(RATE, max_failed=2), [SOME], MET).status == "pass"
    assert judge_test(RATE, [SOME], asked(error_rate=0.07)).status == "pass"
    assert judge_test(RATE, [SOME], asked(error_rate=0.05)).status == "fail"
    assert judge_test(replace(RATE, max_failed=1), [SOME], asked(error_rate=0.05)).status == "fail"


def test_a_run_without_any_answer_measured_nothing() -> None:
    verdict = judge_test(None, [run([failed()] * 8, engines={})], asked(error_rate=0.5))
    assert verdict.status == "inconclusive"
    assert verdict.sentence.startswith("inconclusive: all 8 requests failed: 8 x HTTP 429: slow down")


def test_one_level_without_any_answer_missed() -> None:
    levels = [level(ANSWERS, 0.0, 40.0, 4), level([failed("timeout")] * 8, 0.0, 40.0, 80, engines={})]
    verdict = judge_test(None, levels, MET)
    assert (verdict.status, reached(verdict)) == ("fail", ["inconclusive", "fail"])
    assert verdict.sentence.startswith("error rate 1.0000 at concurrency 80, wanted at most 0.0000 (8 of 8 requests")
    assert "TTFT p95 at concurrency 80: none of 8 requests was answered" in [f.sentence for f in verdict.findings]


def test_a_share_of_requests_is_rounded_as_people_do() -> None:
    many = run([*(answer(0.1, sent=float(at), cached_tokens=64) for at in range(71)), *[failed()] * 29])
    assert judge_test(RATE, [many], asked(error_rate=0.29)).status == "pass"
    assert judge_test(RATE, [many], asked(error_rate=0.28)).status == "fail"


# --- what spoils what ------------------------------------------------------------------------------------------------


def found(code: str) -> Measurement:
    return run(ANSWERS, findings=(Finding(code, f"what {code} says", "do it"),))


@pytest.mark.parametrize("code", sorted(OF_RATE))
def test_what_is_wrong_with_the_rate_leaves_times_as_they_are(code: str) -> None:
    verdict = judge_test(None, [found(code)], MET)
    assert (verdict.status, reached(verdict)) == ("pass", ["pass", "pass"])
    assert verdict.hit_rate is verdict.hit_tokens is verdict.query_tokens is None
    assert code in codes(verdict)  # told all the same
    assert judge_test(None, [found(code)], MISSED).status == "fail"
    assert judge_test(RATE, [found(code)], MET).status == "inconclusive"
    certain = judge_test(RATE, [found(code)], MISSED)
    assert (certain.status, certain.hit_rate, codes(certain)[0]) == ("fail", None, "KV207")


INVALID = [line[:5] for line in (codes_table or "").splitlines() if line.startswith("KV1")]


@pytest.mark.parametrize("code", [*sorted({*INVALID} - OF_RATE - {"KV109"}), "KV199"])
def test_everything_else_spoils_them(code: str) -> None:
    for asks in (MET, MISSED):
        for rate in (None, RATE):
            verdict = judge_test(rate, [found(code)], asks)
            assert (verdict.status, set(reached(verdict))) == ("inconclusive", {"inconclusive"})
            assert verdict.sentence == f"inconclusive: what {code} says; do it [{code}]"
            assert "KV207" not in codes(verdict)


def test_the_table_of_codes_has_those_of_service_levels() -> None:
    assert {"KV102", "KV103", "KV105", "KV109", "KV110", "KV113", "KV116"} <= {*INVALID} - OF_RATE
    table = [line[:5] for line in (codes_table or "").splitlines() if line.startswith("KV")]
    assert {"KV126", "KV127", "KV128", "KV207", "KV327"} <= set(table)
    assert all(Finding(code, "").severity is Severity.INVALID for code in OF_RATE)


def test_counters_that_are_missing_are_no_reason() -> None:
    verdict = judge_test(None, [run([replace(e, cached_tokens=None) for e in ANSWERS], engines={})], MET)
    assert (verdict.status, verdict.hit_rate) == ("pass", None)
    assert judge_test(None, [run(ANSWERS, engines={"0": Tokens(9000, {"local": 64}, 9000)})], MET).status == (
        "inconclusive"  # foreign traffic
    )


def test_nothing_measured() -> None:
    verdict = judge_test(None, [], MET)
    assert (verdict.status, codes(verdict)) == ("inconclusive", ["KV106"])
    assert verdict.sentence == (
        "inconclusive: the test measured nothing; call kv.run, which times what it sends [KV106]"
    )
    assert judge_test(RATE, [], MET).sentence == judge(RATE, []).sentence


def test_the_load_generator_makes_it_inconclusive_and_never_a_pass_worse() -> None:
    late = replace(GOOD, client=client([0.2] * 100))
    verdict = judge_test(None, [late], MISSED)
    assert (verdict.status, codes(verdict)) == ("inconclusive", ["KV127"])
    assert verdict.sentence.startswith("inconclusive: the load generator was the bottleneck")
    assert judge_test(None, [late], MET).status == "pass"


# --- speed-ups -------------------------------------------------------------------------------------------------------

COLD = run([answer(1.0, sent=float(at)) for at in range(30)])


def test_speed_ups_are_judged_with_the_rest() -> None:
    verdict = judge_test(None, [GOOD], MET, speed_up(5), [(COLD, GOOD)])
    assert (verdict.status, reached(verdict)) == ("pass", ["pass", "pass", "pass"])
    verdict = judge_test(RATE, [GOOD], None, speed_up(50), [(COLD, GOOD)])
    assert (verdict.status, reached(verdict)) == ("fail", ["fail"])
    assert verdict.sentence.startswith("speed-up of TTFT p50 10.00x, wanted at least 50.00x")
    assert verdict.hit_rate == 0.64


def test_a_speed_up_that_was_not_measured() -> None:
    verdict = judge_test(None, [GOOD], None, speed_up(5))
    assert verdict.sentence == "inconclusive: the test measured no speed-up; call kv.speedup [KV106]"
    assert judge_test(None, [GOOD], MISSED, speed_up(5)).status == "fail"


def test_a_spoiled_cold_run_spoils_the_speed_up_alone() -> None:
    spoiled = replace(COLD, findings=(Finding("KV116", "interrupted"),))
    verdict = judge_test(None, [GOOD], MET, speed_up(5), [(spoiled, GOOD)])
    assert (verdict.status, reached(verdict)) == ("inconclusive", ["pass", "pass", "inconclusive"])
    assert verdict.sentence == "inconclusive: interrupted [KV116]"
    assert judge_test(None, [GOOD], MISSED, speed_up(5), [(spoiled, GOOD)]).status == "fail"
    assert judge_test(OTHER_RATE, [GOOD], None, speed_up(5), [(spoiled, GOOD)]).status == "fail"


def test_a_warm_run_with_a_wrong_tokenizer_spoils_it_too() -> None:
    other = run([replace(e, prompt_len=90) for e in ANSWERS])
    assert judge_test(None, [other], None, speed_up(5), [(COLD, other)]).sentence.endswith("[KV113]")
