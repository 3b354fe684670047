"""Objectives against values by hand: pass, fail, too few, in doubt, and whose fault."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.model import Attained, Measurement
from pytest_kvcache.slo.figures import bounding, needed
from pytest_kvcache.slo.judging import Judged, judge_level, judged

from .made import answer, asked, client, failed, level, run

HUNDRED = [answer(at / 100, sent=10.0 * at) for at in range(1, 101)]  # TTFT 0.01 to 1.00 s
WHOLE = run(HUNDRED)


def one(measurements: Measurement | list[Measurement], **limits: object) -> Judged:
    several = measurements if isinstance(measurements, list) else [measurements]
    return judged(asked(**limits), several)[0]


def attained(measurements: Measurement | list[Measurement], **limits: object) -> Attained:
    return one(measurements, **limits).attained


def codes(found: Judged) -> list[str]:
    return [finding.code for finding in found.findings]


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ttft_p50", 0.505),  # between the 50th and the 51st
        ("ttft_p95", 0.9505),
        ("ttft_p99", 0.9901),
        ("ttft_mean", 0.505),
        ("ttft_max", 1.0),
        ("tpot_p50", 0.01),
        ("itl_p99", 0.01),
        ("e2e_p50", 0.605),
        ("e2e_max", 1.1),
        ("tokens_per_s_p5", 11 / 1.05),
        ("tokens_per_s_p10", 11 / 1.0),
    ],
)
def test_values_of_samples(name: str, value: float) -> None:
    most = not name.startswith("tokens")
    found = attained(WHOLE, **{name: value * 1.01 if most else value * 0.98})
    assert found.reached == "pass"
    assert found.value == pytest.approx(value, rel=6e-3)
    assert found.objective.name == name
    assert attained(WHOLE, **{name: value * 0.98 if most else value * 1.02}).reached == "fail"


def test_values_of_all_together() -> None:
    seconds = 1000.0 + 1.1 - 10.0
    measured = run([*HUNDRED, failed(sent=500.0, end=501.0)])
    level_ = asked(output_tok_s=1, input_tok_s=1, goodput=0.01, attainment=0.1, ttft=0.5, error_rate=0.02)
    values = {found.objective.name: (found.value, found.samples) for found in judge_level(level_, [measured])}
    assert values == {
        "output_tok_s": (pytest.approx(1100 / seconds), 101),
        "input_tok_s": (pytest.approx(10_000 / seconds), 101),
        "goodput": (pytest.approx(50 / seconds), 101),
        "attainment": (pytest.approx(50 / 101), 101),
        "error_rate": (pytest.approx(1 / 101), 101),
    }


def test_a_limit_itself_is_met() -> None:
    assert attained(WHOLE, ttft_max=1.0).reached == "pass"
    ten = run([answer(0.1, sent=float(at)) for at in range(9)] + [failed()])
    assert attained(ten, error_rate=0.1).reached == "pass"
    assert attained(ten, attainment=0.9, ttft=1).reached == "pass"
    nine = run([*ten.exchanges[1:], failed()])
    assert attained(nine, attainment=0.9, ttft=1).reached == "fail"


def test_intervals_stand_beside_values() -> None:
    found = attained(WHOLE, ttft_p50=1)
    assert (found.low, found.high) == (pytest.approx(0.40), pytest.approx(0.61))
    found = attained(WHOLE, ttft_p95=2)
    assert (found.low, found.high) == (pytest.approx(0.90), pytest.approx(1.0))  # ranks 90 and 100
    assert attained(WHOLE, ttft_max=2).low is attained(WHOLE, ttft_max=2).high is None
    found = attained(run([*HUNDRED[:90], *[failed()] * 10]), error_rate=0.2)
    assert (found.low, found.high) == (pytest.approx(0.0552, abs=1e-4), pytest.approx(0.1744, abs=1e-4))
    assert attained(WHOLE, output_tok_s=1).low is None  # a run's ends are no steady state


def test_the_throughput_of_a_level_has_an_interval_from_its_parts() -> None:
    exchanges = [answer(0.02, sent=0.1 * at, tokens=2 + at % 3, step=0.01) for at in range(400)]
    kept = level(exchanges, 0.0, 40.0)
    for limits, value in (({"output_tok_s": 1}, 30), ({"input_tok_s": 1}, 1000), ({"goodput": 1, "ttft": 1}, 10)):
        found = attained(kept, **limits)
        assert found.value == pytest.approx(value, rel=0.01)
        assert found.low is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high  # type: ignore[operator] # it has a value
    assert attained(kept, output_tok_s=1).low != attained(kept, output_tok_s=1).high


def test_gaps_of_an_answer_count_as_one_for_the_interval() -> None:
    few = run(HUNDRED[:5])  # 50 gaps of 5 answers
    found = one(few, itl_p95=1)
    assert (found.attained.reached, found.attained.samples) == ("pass", 50)
    assert (found.attained.low, found.attained.high) == (0.01, None)
    (doubt,) = found.findings
    assert (doubt.code, doubt.sentence) == ("KV327", "5 answers do not bound ITL p95 from above")


# --- sentences -------------------------------------------------------------------------------------------------------


def test_a_miss_says_what_was_seen_what_was_wanted_and_how_sure() -> None:
    found = one(WHOLE, ttft_p95=0.5)
    assert found.attained.sentence == (
        "TTFT p95 950.5 ms, wanted at most 500.0 ms (100 requests, 95 % between 900.0 ms and 1.000 s)"
    )
    (miss,) = found.findings
    assert (miss.code, miss.sentence) == ("KV207", found.attained.sentence)


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (
            {"output_tok_s": 2},
            "output throughput 1.11 tok/s, wanted at least 2.00 tok/s (1,100 tokens in 991.100 s)",
        ),
        (
            {"goodput": 1, "ttft": 0.5},
            "goodput 0.05 req/s, wanted at least 1.00 req/s (50 of 100 requests in 991.100 s)",
        ),
        (
            {"attainment": 0.9, "ttft": 0.5},
            "attainment 0.5000, wanted at least 0.9000 (50 of 100 requests, 95 % between 0.4038 and 0.5962)",
        ),
        ({"ttft_max": 0.5}, "TTFT max 1.000 s, wanted at most 500.0 ms (100 requests)"),
        (
            {"tokens_per_s_p10": 20},
            "tokens/s of a request p10 10.99 tok/s, wanted at least 20.00 tok/s"
            " (100 requests, 95 % between 10.38 tok/s and 11.70 tok/s)",
        ),
        (
            {"itl_p50": 0.001},
            "ITL p50 10.00 ms, wanted at most 1.00 ms (1,000 gaps, 95 % between 10.00 ms and 10.00 ms)",
        ),
    ],
)  # fmt: skip
def test_sentences(limits: dict[str, object], sentence: str) -> None:
    assert attained(WHOLE, **limits).sentence == sentence


def test_errors_are_told_by_kind() -> None:
    measured = run([*HUNDRED[:5], *[failed()] * 2, *[failed("timeout")] * 3])
    found = one(measured, error_rate=0.1)
    assert found.attained.sentence == (
        "error rate 0.5000, wanted at most 0.1000 (5 of 10 requests failed, 95 % between 0.2366 and 0.7634):"
        " 3 x timeout, 2 x HTTP 429: slow down"
    )
    assert found.findings[0].sentence == found.attained.sentence
    assert found.attained.note == "3 x timeout, 2 x HTTP 429: slow down"


# --- too few ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "least"),
    [
        ({"ttft_p50": 1}, 2), ({"itl_p95": 1}, 20), ({"e2e_p99": 1}, 100), ({"tokens_per_s_p5": 1}, 20),
        ({"tokens_per_s_p10": 1}, 10), ({"ttft_mean": 1}, 1), ({"ttft_max": 1}, 1), ({"output_tok_s": 1}, 1),
        ({"error_rate": 0.01}, 1), ({"attainment": 0.9, "ttft": 1}, 10), ({"attainment": 0.999, "ttft": 1}, 1000),
        ({"attainment": 1, "ttft": 1}, 1), ({"goodput": 1, "ttft": 1}, 1),
    ],
)  # fmt: skip
def test_a_figure_needs_a_sample_beyond_it(limits: dict[str, object], least: int) -> None:
    assert needed(asked(**limits).objectives[0]) == least


def test_a_share_needs_as_many_as_the_percentile_that_it_is() -> None:
    found = one(run(HUNDRED[:19]), attainment=0.95, ttft=9)
    assert (found.attained.reached, codes(found)) == ("inconclusive", ["KV126"])
    assert found.attained.sentence == "attainment: 19 samples, and a share of 0.95 needs at least 20"
    assert attained(run(HUNDRED[:20]), attainment=0.95, ttft=9).reached == "pass"


@pytest.mark.parametrize(("name", "least"), [("ttft_p50", 2), ("ttft_p95", 20), ("ttft_p99", 100), ("ttft_max", 1)])
def test_too_few_samples_are_inconclusive_whatever_they_say(name: str, least: int) -> None:
    for limit in (1e6, 1e-9):
        if least > 1:
            found = one(run(HUNDRED[: least - 1]), **{name: limit})
            assert (found.attained.reached, codes(found)) == ("inconclusive", ["KV126"])
            assert found.attained.value is not None
            assert f"{name[5:]} needs at least {least}" in found.attained.sentence
            assert "send more requests" in found.findings[0].advice
        assert attained(run(HUNDRED[:least]), **{name: limit}).reached == ("pass" if limit > 1 else "fail")


def test_slow_tails_of_speeds_need_as_many() -> None:
    assert attained(run(HUNDRED[:19]), tokens_per_s_p5=1e-9).reached == "inconclusive"
    assert attained(run(HUNDRED[:20]), tokens_per_s_p5=1e-9).reached == "pass"
    assert attained(run(HUNDRED[:9]), tokens_per_s_p10=1e-9).reached == "inconclusive"
    assert attained(run(HUNDRED[:10]), tokens_per_s_p10=1e-9).reached == "pass"


def quiet() -> Measurement:
    from pytest_kvcache.distribution import Latency

    answers = [replace(e, first_content=None, last_content=None, chunks=()) for e in HUNDRED]
    return run(answers, gaps=Latency())


UNTOLD = run([replace(HUNDRED[0], completion_tokens=None, prompt_tokens=None), *HUNDRED[1:]])


@pytest.mark.parametrize(
    ("measured", "limits", "why", "advice"),
    [
        (quiet(), {"ttft_p95": 1}, "none of 100 answers has a first token to time", "stream=True"),
        (quiet(), {"itl_p95": 1}, "none of 100 answers has a second token to time", "2 output tokens"),
        (quiet(), {"tpot_p95": 1}, "none of 100 answers has a second token to time", "2 output tokens"),
        (quiet(), {"attainment": 1, "ttft": 1}, "are not known of every answer", "stream the answers"),
        (UNTOLD, {"tpot_p50": 1}, "1 of 100 answers do not tell their completion tokens", "usage"),
        (UNTOLD, {"tokens_per_s_avg": 1}, "1 of 100 answers do not tell their completion tokens", "usage"),
        (UNTOLD, {"output_tok_s": 1}, "1 of 100 answers do not tell their completion tokens", "usage"),
        (UNTOLD, {"input_tok_s": 1}, "the answers do not tell their prompt tokens", "usage"),
        (run([failed()] * 30), {"e2e_p95": 1}, "none of 30 requests was answered", ""),
        (run([failed()] * 30), {"output_tok_s": 1}, "no request was answered", ""),
        (run([]), {"error_rate": 0.5}, "no request had ended", "measure longer"),
        (run([], own_traffic=False), {"ttft_p95": 1}, "traffic of your own is not timed here", "kv.run"),
    ],
)
def test_no_value_is_inconclusive(measured: Measurement, limits: dict[str, object], why: str, advice: str) -> None:
    found = one(measured, **limits)
    assert (found.attained.reached, found.attained.value, codes(found)) == ("inconclusive", None, ["KV126"])
    assert why in found.attained.sentence
    assert advice in found.findings[0].advice


def test_no_measurement_is_inconclusive() -> None:
    found = one([], ttft_p95=1)
    assert (found.attained.reached, codes(found)) == ("inconclusive", ["KV126"])
    assert found.attained.sentence == "TTFT p95: nothing was measured"


# --- in doubt --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "reached", "doubt"),
    [
        ({"ttft_p50": 0.55}, "pass", "TTFT p50 may lie on either side of 550.0 ms: it is between 400.0 ms and 610"),
        ({"ttft_p50": 0.45}, "fail", "TTFT p50 may lie on either side of 450.0 ms"),
        ({"ttft_p50": 0.611}, "pass", None),
        ({"ttft_p50": 0.399}, "fail", None),
        ({"ttft_p99": 5.0}, "pass", "100 requests do not bound TTFT p99 from above"),
        ({"ttft_p99": 0.5}, "fail", None),
        ({"ttft_max": 1.0}, "pass", None),
        ({"attainment": 0.55, "ttft": 0.5}, "fail", "attainment may lie on either side of 0.5500"),
        ({"error_rate": 0.01}, "pass", "error rate may lie on either side of 0.0100: it is between 0.0000 and 0.0370"),
        ({"error_rate": 0}, "pass", None),
        ({"output_tok_s": 1}, "pass", None),
    ],
)  # fmt: skip
def test_a_limit_inside_the_interval_is_told(limits: dict[str, object], reached: str, doubt: str | None) -> None:
    found = one(WHOLE, **limits)
    assert found.attained.reached == reached
    told = [finding for finding in found.findings if finding.code == "KV327"]
    assert [finding.sentence.startswith(doubt or "") for finding in told] == ([True] if doubt else [])


def test_how_many_would_bound_it_is_told() -> None:
    assert [bounding(name) for name in ("p50", "p95", "p99", "p5", "p10", "mean")] == [6, 72, 368, 72, 36, 0]
    (doubt,) = one(run(HUNDRED[:30]), ttft_p95=5).findings
    assert doubt.sentence == "30 requests do not bound TTFT p95 from above"
    assert doubt.advice == "72 would; send more requests to be sure"


# --- several runs and levels -----------------------------------------------------------------------------------------

SLOW = run([replace(e, first_content=(e.first_content or 0) + 2, end=e.end + 2) for e in HUNDRED])


def test_every_run_has_to_meet_it() -> None:
    found = one([WHOLE, SLOW], ttft_p95=1.5)
    assert found.attained.reached == "fail"
    assert found.attained.sentence.startswith("TTFT p95 2.951 s in run 2 of 2, wanted at most 1.500 s (100 requests")
    assert attained([SLOW, WHOLE], ttft_p95=3).value == pytest.approx(2.9505)  # the nearest to the limit is told
    assert attained([WHOLE, SLOW], output_tok_s=1).value == pytest.approx(1100 / 993.1)


def test_a_small_run_is_not_hidden_by_a_large_one() -> None:
    found = one([WHOLE, run(HUNDRED[:5])], ttft_p95=1.5)
    assert (found.attained.reached, codes(found)) == ("inconclusive", ["KV126"])
    assert found.attained.sentence == "TTFT p95 in run 2 of 2: 5 samples, and p95 needs at least 20"
    assert attained([SLOW, run(HUNDRED[:5])], ttft_p95=1.5).reached == "fail"  # which is certain


def test_the_lowest_level_that_missed_is_told() -> None:
    levels = [level(HUNDRED, 0, 1002, 4), *(level(list(SLOW.exchanges), 0, 1004, at) for at in (8, 16))]
    found = attained(levels, ttft_p95=1.5)
    assert found.sentence.startswith("TTFT p95 2.951 s at concurrency 8, wanted")
    assert found.note == "missed in 2 of 3 runs and levels"


def test_repetitions_are_enough_together() -> None:
    twice = [level(HUNDRED[:12], 0, 200), level(HUNDRED[12:24], 0, 300, lap=1)]
    assert attained(twice[:1], ttft_p95=5).reached == "inconclusive"
    assert (attained(twice, ttft_p95=5).reached, attained(twice, ttft_p95=5).samples) == ("pass", 24)


# --- the load generator ----------------------------------------------------------------------------------------------

LAG = [0.0] * 90 + [0.1] * 10  # p50 0, p95 0.1, mean 0.01


def lagging(measured: Measurement, lag: list[float] = LAG, busy: float | None = 0.3, processes: int = 1) -> Measurement:
    return replace(measured, client=client(lag, busy, processes))


@pytest.mark.parametrize(
    ("limits", "reached"),
    [
        ({"ttft_p95": 0.86}, "inconclusive"),  # 0.9505 - 0.1 is not above
        ({"ttft_p95": 0.84}, "fail"),
        ({"ttft_p95": 0.96}, "pass"),
        ({"ttft_p50": 0.5}, "fail"),  # the median of the lag is 0
        ({"ttft_mean": 0.496}, "inconclusive"),
        ({"ttft_mean": 0.494}, "fail"),
        ({"ttft_max": 0.91}, "inconclusive"),
        ({"e2e_p95": 0.96}, "inconclusive"),
        ({"itl_p95": 0.001}, "inconclusive"),
        ({"tpot_p95": 0.001}, "inconclusive"),  # 10 ms - 0.1 s / 10
        ({"tpot_max": 0.0005}, "inconclusive"),
        ({"tokens_per_s_p5": 10.6}, "inconclusive"),  # a tenth of a second of 0.605 s
        ({"tokens_per_s_p5": 13.0}, "fail"),
        ({"tokens_per_s_avg": 30.0}, "fail"),
        ({"attainment": 0.59, "ttft": 0.5}, "inconclusive"),
        ({"attainment": 0.61, "ttft": 0.5}, "fail"),
        ({"goodput": 59 / 991.2, "ttft": 0.5}, "inconclusive"),
        ({"goodput": 61 / 991, "ttft": 0.5}, "fail"),
        ({"output_tok_s": 2.0}, "fail"),
        ({"error_rate": 0}, "pass"),
    ],
)
def test_a_miss_that_the_clients_lag_explains_is_none(limits: dict[str, object], reached: str) -> None:
    found = one(lagging(WHOLE), **limits)
    assert found.attained.reached == reached
    assert ("KV127" in codes(found)) == (reached == "inconclusive")
    if reached == "inconclusive":  # the sentence is that of its finding, so that a report has it once
        assert (found.attained.sentence, found.attained.note) == (found.findings[0].sentence, "")
    without = attained(WHOLE, **limits).reached
    assert without == ("fail" if reached == "inconclusive" else reached)


def test_a_tpot_is_late_by_its_share_of_the_answer() -> None:
    late = lagging(WHOLE, [0.05] * 100)  # over ten steps: 5 ms
    assert attained(late, tpot_p95=0.0051).reached == "inconclusive"
    assert attained(late, tpot_p95=0.0049).reached == "fail"


def test_in_an_open_loop_the_client_is_late_twice() -> None:
    late = lagging(run([replace(e, scheduled=e.sent) for e in HUNDRED]), [0.1] * 100)
    for limits in (
        {"ttft_p50": 0.31},
        {"e2e_p50": 0.41},
        {"tokens_per_s_avg": 35.0},
        {"attainment": 0.69, "ttft": 0.5},
    ):
        assert attained(late, **limits).reached == "inconclusive"
        assert attained(lagging(WHOLE, [0.1] * 100), **limits).reached == "fail"
    for limits in ({"ttft_p50": 0.3}, {"e2e_p50": 0.4}, {"attainment": 0.71, "ttft": 0.5}):
        assert attained(late, **limits).reached == "fail"
    assert attained(lagging(late, [0.004] * 100), itl_p50=0.005).reached == "fail"  # gaps have no due time
    assert attained(lagging(late, [0.04] * 100), tpot_p50=0.005).reached == "fail"


def test_the_bottleneck_is_told_with_what_to_do() -> None:
    (finding,) = one(lagging(WHOLE, processes=2), ttft_p95=0.9).findings
    assert finding.code == "KV127"
    assert finding.sentence == (
        "the load generator was the bottleneck (its own event loop was 100.0 ms late): TTFT p95 950.5 ms, wanted at"
        " most 900.0 ms (100 requests, 95 % between 900.0 ms and 1.000 s)"
    )
    assert finding.advice == "spread the load over more processes (--kv-processes=4)"


@pytest.mark.parametrize("limits", [{"output_tok_s": 2}, {"input_tok_s": 20}, {"goodput": 2, "ttft": 9}])
def test_a_full_process_may_have_held_the_throughput_down(limits: dict[str, object]) -> None:
    full = lagging(WHOLE, [0.0], busy=0.96)
    found = one(full, **limits)
    assert (found.attained.reached, codes(found)) == ("inconclusive", ["KV127"])
    assert "(its busiest process computed 96 % of the time)" in found.findings[0].sentence
    assert attained(lagging(WHOLE, [0.0], busy=0.95), **limits).reached == "fail"
    assert attained(lagging(WHOLE, [0.0], busy=None), **limits).reached == "fail"
    assert attained(full, ttft_p95=0.5).reached == "fail"  # it was in time


def test_too_few_samples_come_before_the_client() -> None:
    assert codes(one(lagging(run(HUNDRED[:5])), ttft_p95=1e-9)) == ["KV126"]


# --- for any samples -------------------------------------------------------------------------------------------------

times = st.lists(st.floats(0.001, 100), min_size=20, max_size=60)
limits = st.floats(0.001, 100)
names = st.sampled_from(["ttft_p50", "ttft_p95", "ttft_mean", "ttft_max"])
ORDER = {"fail": 0, "pass": 1}


@given(times, limits, limits, names)
def test_a_wider_limit_is_never_harder(found: list[float], one_: float, other: float, name: str) -> None:
    measured = run([answer(ttft) for ttft in found])
    strict, wide = sorted((one_, other))
    before, after = attained(measured, **{name: strict}), attained(measured, **{name: wide})
    assert ORDER[before.reached] <= ORDER[after.reached]
    assert before.value == after.value


@given(times, limits, names, st.floats(0.1, 10))
def test_slower_requests_are_never_better(found: list[float], limit: float, name: str, slower: float) -> None:
    before = attained(run([answer(ttft) for ttft in found]), **{name: limit})
    after = attained(run([answer(ttft + slower) for ttft in found]), **{name: limit})
    assert ORDER[after.reached] <= ORDER[before.reached]


@given(times, limits, names, st.lists(st.floats(0, 10), min_size=1, max_size=20))
def test_lag_never_changes_a_pass_nor_hides_what_it_cannot_explain(
    found: list[float], limit: float, name: str, lag: list[float]
) -> None:
    measured = run([answer(ttft) for ttft in found])
    plain, late = attained(measured, **{name: limit}), attained(lagging(measured, lag), **{name: limit})
    if plain.reached == "pass":
        assert late == plain
    else:
        assert plain.value is not None
        assert late.reached == (
            "inconclusive" if plain.value - limit <= max(lag) and "load generator" in late.sentence else "fail"
        )
        assert plain.value - limit <= max(lag) or late.reached == "fail"
