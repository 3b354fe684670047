"""One comparison: what is worse, what is not, and what nobody can tell. Figures worked by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.model import Regression
from pytest_kvcache.regression.asked import allowed
from pytest_kvcache.regression.comparing import compare
from pytest_kvcache.regression.values import Group

STEADY = [0.100, 0.101, 0.102, 0.103, 0.104]


def group(**values: Any) -> Group:
    return Group("", len(next(iter(values.values()))), values)


def times(before: Any, now: Any, limit: Any = "+10%", name: str = "ttft_p95") -> Regression:
    return compare(allowed(name, limit), group(**{name: before}), group(**{name: now}))


def rates(before: Any, now: Any, limit: Any = 0, query: int = 1000) -> Regression:
    """Rates of runs that looked up the same."""
    sides = [
        group(hit_rate=side, hit_tokens=[round(rate * query) for rate in side], query_tokens=[query] * len(side))
        for side in (before, now)
    ]
    return compare(allowed("hit_rate", limit), *sides)


# --- counted ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "now", "limit", "reached"),
    [
        ([0.7], [0.7], 0, "pass"),
        ([0.7], [0.699], 0, "fail"),
        ([0.7], [0.9], 0, "pass"),
        ([0.7], [0.68], -0.02, "pass"),  # 0.7 - 0.02 is 0.6799999999999999
        ([0.7], [0.679], -0.02, "fail"),
        ([0.7] * 5, [0.67] * 3, -0.02, "fail"),
        ([0.7, 0.71], [0.695, 0.7], -0.02, "pass"),  # runs differ by less than is allowed
    ],
)
def test_the_hit_rate_is_compared_as_a_number(before: Any, now: Any, limit: Any, reached: str) -> None:
    found = rates(before, now, limit)
    assert (found.reached, found.exact, found.p) == (reached, True, None)


def test_the_rate_of_several_runs_is_that_of_their_tokens() -> None:
    before = group(hit_rate=[0.5, 0.6], hit_tokens=[50, 600], query_tokens=[100, 1000])
    now = group(hit_rate=[0.6], hit_tokens=[60], query_tokens=[100])
    found = compare(allowed("hit_rate", -0.1), before, now)
    assert found.baseline == pytest.approx(650 / 1100)
    assert found.change == pytest.approx(0.6 - 650 / 1100)


def test_what_printed_digits_leave_open_is_not_decided() -> None:
    def seen(low: float, rate: float, high: float) -> Group:
        return group(
            hit_rate=[rate], hit_tokens=[rate * 100], query_tokens=[100], hit_rate_low=[low], hit_rate_high=[high]
        )

    exact = group(hit_rate=[0.7], hit_tokens=[70], query_tokens=[100])
    limit = allowed("hit_rate", -0.02)
    found = compare(limit, exact, seen(0.67, 0.68, 0.69))
    assert (found.reached, found.low, found.high) == ("inconclusive", pytest.approx(-0.03), pytest.approx(-0.01))
    assert "between -3.0 points and -1.0 points as far as the counters tell" in found.sentence
    assert "printed digits" in found.advice
    assert compare(limit, exact, seen(0.68, 0.69, 0.7)).reached == "pass"
    assert compare(limit, exact, seen(0.65, 0.66, 0.67)).reached == "fail"
    assert compare(limit, seen(0.69, 0.7, 0.71), group(hit_rate=[0.685])).reached == "inconclusive"


def test_a_rate_that_differs_between_runs_by_more_than_is_allowed_is_tested() -> None:
    found = rates([0.70, 0.71], [0.69, 0.70], 0)
    assert (found.reached, found.exact) == ("inconclusive", False)
    assert "its runs differ by more than is allowed" in found.sentence
    before, now = [0.70, 0.701, 0.702, 0.703, 0.704], [0.65, 0.651, 0.652, 0.653, 0.654]
    found = rates(before, now, 0)
    assert (found.reached, found.exact, found.p) == ("fail", False, pytest.approx(1 / 252))
    assert found.change == pytest.approx(-0.05)
    assert rates(now, before, 0).reached == "pass"


def test_hit_tokens_are_those_of_a_run() -> None:
    limit = allowed("hit_tokens", "-10%")
    found = compare(limit, group(hit_tokens=[1000, 1010]), group(hit_tokens=[904]))
    assert (found.reached, found.baseline, found.exact) == ("fail", 1005, True)
    assert compare(limit, group(hit_tokens=[1000, 1010]), group(hit_tokens=[905])).reached == "pass"
    assert compare(limit, group(hit_tokens=[0]), group(hit_tokens=[0])).reached == "pass"


# --- noisy -----------------------------------------------------------------------------------------------------------


def test_worse_beyond_chance_and_beyond_what_is_allowed() -> None:
    found = times(STEADY, [value * 1.2 for value in STEADY])
    assert (found.reached, found.exact, found.n, found.n_baseline) == ("fail", False, 5, 5)
    assert found.change == pytest.approx(0.2)
    assert found.p == pytest.approx(1 / 252)
    assert found.low is not None
    assert found.low > 0.1
    assert found.sentence.startswith("TTFT p95 rose from 102.0 ms to 122.4 ms (+20.0 %, 98 % between +")
    assert found.sentence.endswith("allowed +10.0 %, p=0.004, 5 runs against 5)")


@pytest.mark.parametrize("factor", [0.5, 0.95, 1.0, 1.05, 1.099])
def test_not_worse_by_more_than_is_allowed(factor: float) -> None:
    assert times(STEADY, [value * factor for value in STEADY]).reached == "pass"


def test_a_small_probability_is_said_to_be_small() -> None:
    found = times([0.1 + i / 1e5 for i in range(20)], [0.2 + i / 1e5 for i in range(20)])
    assert found.sentence.endswith("allowed +10.0 %, p<0.0001, 20 runs against 20)")


def test_lower_is_worse_of_a_throughput() -> None:
    faster, slower = [100.0, 101, 102, 103, 104], [80.0, 81, 82, 83, 84]
    found = times(faster, slower, "-5%", "output_tok_s")
    assert (found.reached, found.change) == ("fail", pytest.approx(82 / 102 - 1, abs=0.01))
    assert found.p == pytest.approx(1 / 252)
    assert times(slower, faster, "-5%", "output_tok_s").reached == "pass"
    assert times(faster, [97.0, 98, 99, 100, 101], "-5%", "output_tok_s").reached == "pass"


def test_seconds_may_be_allowed_as_such() -> None:
    later = [value + 0.02 for value in STEADY]
    found = times(STEADY, later, 0.01)
    assert (found.reached, found.relative) == ("fail", False)
    assert found.change == pytest.approx(0.02)
    assert "(+20.00 ms, 98 % between" in found.sentence
    assert times(STEADY, later, 0.03).reached == "pass"


def test_too_few_runs_tell_nothing_however_far_apart() -> None:
    found = times([0.1] * 4, [0.9] * 4)
    assert found.reached == "inconclusive"
    assert found.sentence.endswith(
        "4 runs against 4 of the baseline cannot show a change: at best p=0.014, 0.01 is needed"
    )
    assert found.advice == "run it 5 times"  # 1 / C(9, 4) = 1/126
    assert times([0.1] * 3, [0.9] * 6).advice == "run it 5 times on each side, or 7 times against this baseline"
    found = times([0.1] * 20, [0.9])
    assert found.advice == "run it 2 times"  # 1 / C(22, 2) = 1/231
    assert times([0.1] * 20, [0.9] * 2).reached == "fail"


def test_a_spread_that_hides_what_is_allowed() -> None:
    """A change of 10 % could not have been told: that the medians agree says nothing."""
    found = times([0.08, 0.09, 0.10, 0.11, 0.12], [0.081, 0.091, 0.1, 0.111, 0.121])
    assert found.reached == "inconclusive"
    # the second of 25 quotients, 0.081 / 0.11, is the lower end: a rise of 0.11 / 0.081 * 1.0091 would have been told
    assert ": no change below +3" in found.sentence
    assert found.advice.startswith("about ")
    assert "runs on each side would probably do" in found.advice


def test_what_could_have_been_told_and_how_many_runs_would_do() -> None:
    """By hand: of 25 quotients the second from below is 8/11, the second from above 11/8, the middle one 1."""
    wide = [0.08, 0.09, 0.10, 0.11, 0.12]
    found = times(wide, wide)
    assert found.reached == "inconclusive"
    assert found.sentence.endswith(": no change below +37.5 % could have been told from none")  # 11/8 - 1
    assert found.advice == "about 86 runs on each side would probably do; or allow more"  # 5 x (1.1 x 3.75)^2 = 85.08
    found = times(wide, wide, "-10%", "output_tok_s")
    assert found.reached == "inconclusive"
    assert found.sentence.endswith(": no change below -27.3 % could have been told from none")  # 8/11 - 1
    found = times(wide, wide, 0.01)
    assert found.sentence.endswith(": no change below +30.00 ms could have been told from none")  # 0.11 - 0.08
    assert times([1e-9, 0.1, 0.1, 0.1, 0.2], [1e-9, 0.1, 0.1, 0.1, 9.0]).advice.startswith(
        "allow more, or make the runs"
    )


def test_a_wide_spread_does_not_hide_that_it_is_far_better() -> None:
    found = times([0.8, 0.9, 1.0, 1.1, 1.2], [0.08, 0.09, 0.10, 0.11, 0.12])
    assert found.reached == "pass"
    assert found.high is not None
    assert found.high < 0.1


@pytest.mark.parametrize(
    ("before", "now", "limit", "name"),
    [
        (STEADY, [0.1, 0.101, 0.102, 0.18, 0.181], "+10%", "ttft_p95"),
        ([0.0] * 10, [0.0] * 6 + [0.5] * 4, 0.01, "error_rate"),
        ([100.0] * 5, [100.0, 100.0, 100.0, 50.0, 50.0], "-10%", "output_tok_s"),
    ],
)
def test_some_runs_that_are_far_off_are_not_hidden_by_most_that_are_not(
    before: Any, now: Any, limit: Any, name: str
) -> None:
    """The median is the same, and as far as most runs go a change would have been seen."""
    found = times(before, now, limit, name)
    assert found.reached == "inconclusive"
    assert found.sentence.endswith("some runs are far off, so it may be more than twice that")
    assert found.advice.startswith("allow more, or make the runs more alike")


def test_an_interval_up_to_twice_what_is_allowed_is_that_of_runs_that_are_alike() -> None:
    """Pairs by hand: a median of 0, the near end at 0; the far end is the second largest of the 25."""
    before = [1.0] * 5
    assert times(before, [1.0, 1.0, 1.0, 1.2, 1.2], 0.1).reached == "pass"
    assert times(before, [1.0, 1.0, 1.0, 1.21, 1.21], 0.1).reached == "inconclusive"
    assert times(before, [1.0, 1.0, 1.0, 1.0, 9.0], 0.1).reached == "inconclusive"


def test_medians_that_differ_by_rounding_alone_are_the_same() -> None:
    before = [0.1 + number * 1e-4 for number in range(5)]
    assert sorted(before)[2] != 0.1002
    assert times(before, [0.1, 0.1001, 0.1002, 0.1003, 0.1004]).sentence.startswith("TTFT p95 stayed at 100.2 ms (")


def test_beyond_what_is_allowed_and_chance_explains_it() -> None:
    found = times([0.1, 0.11, 0.12, 0.2, 0.3], [0.12, 0.13, 0.14, 0.25, 0.31])
    assert found.change is not None
    assert found.change > 0.1
    assert found.p is not None
    assert found.p > 0.01
    assert found.reached == "inconclusive"


def test_no_change_at_all_cannot_be_shown_of_a_noisy_figure() -> None:
    found = times(STEADY, STEADY, 0)
    assert found.reached == "inconclusive"
    assert "say how much it may" in found.advice
    assert times(STEADY, [0.05] * 5, 0).reached == "pass"  # better for certain


def test_no_change_is_allowed_without_a_sign() -> None:
    assert json.dumps([rates([0.7], [0.7]).allowed, rates([0.7], [0.7], -0.02).allowed]) == "[0.0, -0.02]"


@pytest.mark.parametrize("value", [0.0, 0.1])
def test_all_the_same_on_both_sides_is_no_change(value: float) -> None:
    found = times([value] * 5, [value] * 5)
    assert (found.reached, found.change, found.p) == ("pass", 0.0, 1.0)


def test_from_nothing_to_something() -> None:
    found = times([0.0] * 5, [0.1] * 5)
    assert found.reached == "fail"
    assert "from nothing" in found.sentence
    assert times([0.1] * 5, [0.0] * 5).reached == "pass"
    assert times([0.0] * 5, [0.05] * 5, 0.02, "error_rate").reached == "fail"


def test_what_is_not_known_of_every_run_is_not_compared() -> None:
    found = times(STEADY, [0.1, None, 0.1, 0.1, 0.1])
    assert (found.reached, found.sentence) == ("inconclusive", "TTFT p95 is not known now of 1 of 5 runs")
    assert found.advice == "a value takes at least 20 samples in every run"
    found = compare(allowed("ttft_p95", "+10%"), group(hit_rate=[0.7]), group(ttft_p95=STEADY))
    assert found.sentence == "TTFT p95 is not known in the baseline"
    assert found.advice.endswith("make it anew (--kv-update-baseline)")


@given(
    before=st.lists(st.floats(0, 1e3), min_size=1, max_size=8),
    now=st.lists(st.floats(0, 1e3), min_size=1, max_size=8),
    limit=st.sampled_from(["+10%", 0.1, 0, "+0%"]),
)
def test_any_values_are_told_as_a_line_that_json_holds(before: list[float], now: list[float], limit: Any) -> None:
    from pytest_kvcache.regression.plain import regressions

    found = times(before, now, limit)
    json.dumps(regressions([found]), allow_nan=False)
    assert found.sentence.startswith("TTFT p95 ")
    assert "\n" not in found.sentence
    if found.reached == "fail":
        assert found.p is not None
        assert found.p <= 0.01
        assert found.change is not None
        assert found.change > found.allowed
    if len(before) < 5 and len(now) < 5:
        assert found.reached == "inconclusive"


@given(values=st.lists(st.floats(0.01, 10), min_size=5, max_size=8))
def test_a_session_against_itself_never_failed(values: list[float]) -> None:
    assert times(values, values).reached != "fail"
    assert times(values, values[::-1], "-10%", "output_tok_s").reached != "fail"
