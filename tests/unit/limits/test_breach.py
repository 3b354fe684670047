"""Did it hold, and if not, why?"""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_kvcache.limits.asked import Asked, of_concurrency, of_rate
from pytest_kvcache.limits.breach import Stalled, amount, judge
from pytest_kvcache.limits.confidence import interval_of
from pytest_kvcache.limits.headroom import is_ample, is_lost, used
from pytest_kvcache.model import Level
from pytest_kvcache.slo.wording import title

from .stretches import stretch

P95 = of_concurrency(2.0)
MEAN = of_concurrency(2.0, "avg")
MAX = of_concurrency(2.0, "max")
SPEED = of_concurrency(None, min_tokens_per_req=30.0)
SHARE = of_rate(2.0)
FAST = Level(rate=10.0)


def test_what_held_has_no_reason() -> None:
    assert judge(P95, stretch([1.0] * 19 + [2.0])) == ""


@pytest.mark.parametrize(
    ("asked", "ttft", "why"),
    [
        # 20 samples: the 95th percentile lies 0.05 of the way from the 19th to the 20th
        (P95, [1.0] * 18 + [2.31] * 2, "TTFT p95 2.31 s above 2 s"),
        (P95, [1.0] * 19 + [20.0], ""),
        (P95, [1.0] * 19 + [21.4], "TTFT p95 2.02 s above 2 s"),
        (MEAN, [1.0, 3.5], "TTFT mean 2.25 s above 2 s"),
        (MEAN, [1.0, 3.0], ""),
        (MAX, [1.0] * 99 + [2.5], "TTFT max 2.5 s above 2 s"),
        (P95, [2.0001] * 20, "TTFT p95 2.0001 s above 2 s"),
        (P95, [1234.5] * 20, "TTFT p95 1234 s above 2 s"),
    ],
)
def test_time_to_first_token(asked: Asked, ttft: list[float], why: str) -> None:
    assert judge(asked, stretch(ttft)) == why


def test_tokens_of_a_request() -> None:
    assert judge(SPEED, stretch(tokens_per_s=[20.0, 40.0])) == ""
    assert judge(SPEED, stretch(tokens_per_s=[20.0, 39.0])) == "tokens/s of a request mean 29.5 tok/s below 30 tok/s"


def test_every_broken_objective_is_told() -> None:
    asked = of_concurrency(1.0, "max", 30.0, "p5")
    why = judge(asked, stretch([1.5] * 20, tokens_per_s=[10.0] * 20))
    assert why == "TTFT max 1.5 s above 1 s; tokens/s of a request p5 10 tok/s below 30 tok/s"


def test_a_share_counts_failed_requests_too() -> None:
    asked = of_rate(2.0, max_failed=0.5)
    assert judge(asked, stretch([1.0] * 95, good=95, failed=5)) == ""
    assert judge(asked, stretch([1.0] * 95, good=94, failed=5)) == "attainment 0.94 below 0.95"


@pytest.mark.parametrize(
    ("failed", "why"),
    [
        (1, ""),
        (2, "2 of 101 requests failed, more than 1 %"),
        (101, "101 of 200 requests failed, more than 1 %"),
    ],
)
def test_failures(failed: int, why: str) -> None:
    assert judge(P95, stretch([1.0] * 99, failed=failed)) == why


def test_nothing_at_all() -> None:
    assert judge(P95, stretch()) == "no request ended in 30 s"


def test_what_is_not_known_is_not_held() -> None:
    assert judge(P95, stretch(requests=50)) == "TTFT p95 is not known"
    assert judge(SHARE, stretch(requests=50)) == "attainment is not known"


def test_requests_without_an_answer() -> None:
    assert judge(P95, stretch([1.0] * 50), Stalled(3, 41.3)) == "3 requests without an answer for 41 s"
    assert judge(P95, stretch([1.0] * 50), Stalled(1, 41.3)) == "1 request without an answer for 41 s"


@pytest.mark.parametrize(
    ("tokens", "why"), [(20_010.0, ""), (19_900.0, "throughput fell from 1000 to 663 tok/s"), (90_000.0, "")]
)
def test_a_throughput_that_collapsed(tokens: float, why: str) -> None:
    # 10 users may have 10 answers of 50 just behind the end: 1.2 * 666.7 = 800
    assert judge(P95, stretch([1.0] * 50, output_tokens=tokens), best=1000.0) == why


def test_the_throughput_of_random_arrivals_may_vary() -> None:
    calm = {"level": FAST, "good": 300, "requests": 300}  # 300 due: 0.8 - 2 sqrt(2 / 300) = 0.6367
    assert judge(SHARE, stretch(output_tokens=30 * 640.0, **calm), best=1000.0) == ""  # type: ignore[arg-type] # keywords
    why = judge(SHARE, stretch(output_tokens=30 * 630.0, **calm), best=1000.0)  # type: ignore[arg-type] # keywords
    assert why == "throughput fell from 1000 to 630 tok/s"


def test_an_open_loop_must_end_what_it_begins() -> None:
    # 300 due in 30 s: 3 * sqrt(300) + 15 = 66.96 may be missing
    assert judge(SHARE, stretch(level=FAST, requests=234, good=234)) == ""
    assert judge(SHARE, stretch(level=FAST, requests=233, good=233)) == "7.77 of 10 req/s ended: the queue grows"


def test_how_much_of_a_limit_is_used() -> None:
    assert used(P95, stretch([0.5] * 20)) == 0.25
    assert used(SPEED, stretch(tokens_per_s=[60.0] * 20)) == 0.5
    assert used(SPEED, stretch(tokens_per_s=[0.0] * 20)) == float("inf")
    assert used(of_concurrency(2.0, "avg", 30.0), stretch([0.5] * 20, tokens_per_s=[40.0] * 20)) == 0.75
    assert used(of_concurrency(2.0, "avg", 30.0), stretch([1.8] * 20, tokens_per_s=[40.0] * 20)) == 0.9
    assert used(P95, stretch(requests=3)) is None
    assert used(of_concurrency(2.0, "avg", 30.0), stretch([0.5] * 20)) is None


def test_of_a_share_the_request_where_it_ends_counts() -> None:
    asked = of_rate(2.0, 0.1, attainment=0.9)
    ttft = [i / 10 for i in range(11)]  # its 90th percentile is 0.9 s
    assert used(asked, stretch(ttft, tpot=[0.02] * 11, good=11)) == pytest.approx(0.45)
    assert used(asked, stretch(ttft, tpot=[0.08] * 11, good=11)) == pytest.approx(0.8)
    assert used(asked, stretch([4.0] * 11, good=0)) == 2.0
    assert used(asked, stretch([0.1] * 11, good=11, failed=4)) == 1.01  # broken by failures
    assert used(asked, stretch([0.1] * 9 + [8.0], good=9)) == pytest.approx((0.1 + 0.1 * 7.9) / 2)
    assert used(asked, stretch([1.0] * 9 + [50.0], good=9)) == 1.0  # held: interpolation alone says 2.95
    assert used(asked, stretch([1.0] * 11)) is None


def test_what_is_lost_need_not_be_waited_for() -> None:
    ten = {"seconds": 10.0}  # 60 requests so far, so 180 in 30 s: 9 + 1 may be beyond the limit
    assert not is_lost(P95, stretch([1.0] * 50 + [3.0] * 10, **ten), 30.0)  # type: ignore[arg-type] # keywords
    assert is_lost(P95, stretch([1.0] * 49 + [3.0] * 11, **ten), 30.0)  # type: ignore[arg-type] # keywords


def test_a_mean_is_lost_when_the_sum_is() -> None:
    assert not is_lost(MEAN, stretch([6.0] * 60, seconds=10.0), 30.0)  # 360 s of 180 * 2
    assert is_lost(MEAN, stretch([6.1] * 60, seconds=10.0), 30.0)


def test_a_maximum_is_lost_at_once() -> None:
    assert is_lost(MAX, stretch([1.0] * 60 + [2.1], seconds=1.0), 30.0)
    assert not is_lost(MAX, stretch([1.0] * 60 + [2.0], seconds=1.0), 30.0)


def test_a_share_is_lost_when_too_many_are_bad() -> None:
    assert not is_lost(SHARE, stretch([1.0] * 60, good=51, seconds=10.0), 30.0)  # 9 of 180
    assert is_lost(SHARE, stretch([1.0] * 60, good=50, seconds=10.0), 30.0)
    assert not is_lost(SHARE, stretch([1.0] * 60, seconds=10.0), 30.0)  # not known is told at the end


def test_a_speed_that_may_still_rise_is_not_lost() -> None:
    assert not is_lost(SPEED, stretch(tokens_per_s=[1.0] * 60, seconds=10.0), 30.0)
    slow = of_concurrency(None, min_tokens_per_req=30.0, tokens_per_req_metric="p10")
    assert is_lost(slow, stretch(tokens_per_s=[1.0] * 20 + [50.0] * 40, seconds=10.0), 30.0)  # 20 of 180 > 18 + 1
    assert not is_lost(slow, stretch(tokens_per_s=[1.0] * 19 + [50.0] * 41, seconds=10.0), 30.0)


def test_few_requests_are_lost_when_those_that_a_verdict_needs_would_be() -> None:
    assert not is_lost(P95, stretch([9.0] * 2, seconds=60.0), 30.0)  # 1 + 1 of 20 may be
    assert is_lost(P95, stretch([9.0] * 3, seconds=60.0), 30.0)


def test_failures_and_silence_lose_a_period() -> None:
    assert is_lost(P95, stretch(requests=0, failed=3, seconds=5.0), 30.0)
    assert not is_lost(P95, stretch([1.0] * 20, failed=1, seconds=10.0), 30.0)  # one may be chance
    assert is_lost(P95, stretch([1.0] * 60, failed=2, seconds=30.0), 30.0)
    assert not is_lost(P95, stretch([1.0] * 60, failed=2, seconds=3.0), 30.0)  # 2 of 620 by then
    assert is_lost(P95, stretch(seconds=1.0), 30.0, Stalled(1, 99.0))
    assert not is_lost(P95, stretch(seconds=29.0), 30.0)
    assert not is_lost(P95, stretch([9.0] * 50, seconds=0.0), 30.0)


LIMITS = st.sampled_from(["p95", "avg", "max"])


@given(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=120), LIMITS, st.floats(1.0, 60.0), st.integers(0, 5))
def test_what_is_lost_is_never_held(ttft: list[float], metric: str, seconds: float, failed: int) -> None:
    asked = of_concurrency(2.0, metric)  # type: ignore[arg-type] # one of them
    one = stretch(ttft, seconds=seconds, failed=failed)
    assume(is_lost(asked, one, 30.0))
    assert judge(asked, one)


@given(st.lists(st.floats(1.0, 99.0), min_size=1, max_size=120), st.sampled_from(["p5", "p10"]), st.floats(1.0, 60.0))
def test_what_is_too_slow_for_sure_is_never_held(speeds: list[float], metric: str, seconds: float) -> None:
    asked = of_concurrency(None, min_tokens_per_req=30.0, tokens_per_req_metric=metric)  # type: ignore[arg-type] # one of them
    one = stretch(tokens_per_s=speeds, seconds=seconds)
    assume(is_lost(asked, one, 30.0))
    assert judge(asked, one)


@given(st.integers(0, 200), st.integers(0, 200), st.floats(0.01, 1.0), st.floats(1.0, 60.0))
def test_a_share_that_is_lost_is_never_held(good: int, bad: int, attainment: float, seconds: float) -> None:
    asked = of_rate(2.0, attainment=attainment)
    one = stretch([1.0] * good + [3.0] * bad, good=good, seconds=seconds)
    assume(is_lost(asked, one, 30.0))
    assert judge(asked, one)


def test_ample_headroom_shows_in_a_third_of_a_period() -> None:
    assert is_ample(P95, stretch([1.0] * 20, seconds=10.0), 30.0)
    assert not is_ample(P95, stretch([1.01] * 30, seconds=10.0), 30.0)
    assert not is_ample(P95, stretch([1.0] * 20, seconds=9.9), 30.0)
    assert not is_ample(P95, stretch([1.0] * 20, failed=1, seconds=10.0), 30.0)
    assert is_ample(of_rate(2.0, attainment=0.99), stretch([1.0] * 20, good=20, seconds=10.0), 30.0)
    assert not is_ample(P95, stretch(requests=20, seconds=10.0), 30.0)


@pytest.mark.parametrize(("ttft", "few"), [(1.0, 20), (0.5, 10), (0.2, 4), (0.01, 4)])
def test_the_more_headroom_the_fewer_requests_show_it(ttft: float, few: int) -> None:
    assert is_ample(P95, stretch([ttft] * few, seconds=10.0), 30.0)
    assert not is_ample(P95, stretch([ttft] * (few - 1), seconds=10.0), 30.0)


def test_titles_and_amounts() -> None:
    assert title(P95.objectives[0]) == "TTFT p95"
    assert title(MEAN.objectives[0]) == "TTFT mean"
    assert title(SHARE.objectives[0]) == "attainment"
    assert amount(P95.objectives[0], 0.12345) == "0.123 s"
    assert amount(SPEED.objectives[0], 123456.7) == "123457 tok/s"
    assert amount(SHARE.objectives[0], 0.95) == "0.95"


def test_intervals_of_each_kind_of_objective() -> None:
    ttft = [i / 100 for i in range(1, 201)]
    # Bin(200, 0.95): P(at most 183) = 0.0238, P(at most 195) = 0.974, P(at most 196) = 0.991
    assert interval_of(P95.objectives[0], stretch(ttft)) == pytest.approx((1.84, 1.97), abs=0.011)
    low, high = interval_of(MEAN.objectives[0], stretch([1.0, 3.0] * 50))
    assert (low, high) == pytest.approx((2 - 0.1994, 2 + 0.1994), abs=1e-3)  # t(99) = 1.984, s = 1.005
    assert interval_of(MAX.objectives[0], stretch(ttft)) == (None, None)
    assert interval_of(SHARE.objectives[0], stretch([1.0] * 90, good=90, failed=10)) == pytest.approx(
        (0.826, 0.945), abs=1e-3
    )
    assert interval_of(SHARE.objectives[0], stretch(requests=5)) == (None, None)
