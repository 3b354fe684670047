"""Intervals against tables, against all binomial terms, and against the truth: how often do they hold it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from math import ceil, comb, log, sqrt
from random import Random
from statistics import NormalDist, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.distribution import Latency
from pytest_kvcache.slo import intervals

TRIALS = 1000


def below(n: int, k: int, q: Fraction) -> Fraction:
    """Probability of at most k of n."""
    return sum((comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(k + 1)), Fraction(0))


@pytest.mark.parametrize(
    ("n", "q", "expected"),
    [
        (5, 0.5, (None, None)),  # 2 * 0.5^5 = 0.0625
        (6, 0.5, (1, 6)),
        (100, 0.5, (40, 61)),  # as in tables of the median's interval
        (20, 0.95, (17, None)),  # 0.95^20 = 0.36 of all samples of 20 lie below
        (71, 0.95, (63, None)),
        (72, 0.95, (64, 72)),  # 0.95^72 = 0.0249
        (100, 0.99, (97, None)),
        (20, 0.05, (None, 4)),
    ],
)
def test_ranks_of_tables(n: int, q: float, expected: tuple[int | None, int | None]) -> None:
    assert intervals.ranks(n, q) == expected


@pytest.mark.parametrize("percent", [5, 10, 50, 95, 99])
@pytest.mark.parametrize("n", [1, 2, 9, 10, 30, 59, 120, 368])
@pytest.mark.parametrize("tenths", [950, 975])
def test_ranks_are_the_narrowest_that_leave_each_tail_its_share(n: int, percent: int, tenths: int) -> None:
    low, high = intervals.ranks(n, percent / 100, tenths / 1000)
    q, tail = Fraction(percent, 100), Fraction(1000 - tenths, 2000)
    if low is not None:
        assert below(n, low - 1, q) <= tail
    assert below(n, low or 0, q) > tail
    if high is not None:
        assert below(n, high - 1, q) >= 1 - tail
        assert below(n, high - 2, q) < 1 - tail
    else:
        assert below(n, n - 1, q) < 1 - tail


def test_many_samples_take_ranks_near_the_normal_ones() -> None:
    n, q = 1_000_000, 0.95
    low, high = intervals.ranks(n, q)
    half = 1.959964 * sqrt(n * q * (1 - q))
    assert low == pytest.approx(n * q - half, abs=2)
    assert high == pytest.approx(n * q + half, abs=2)


def test_a_quantile_lies_between_two_samples() -> None:
    samples = Latency.of(range(1, 101))
    assert intervals.quantile(samples, 0.5) == (40, 61)
    assert intervals.quantile(Latency.of(range(1, 21)), 0.95) == (17, None)


def test_samples_that_are_alike_count_as_one() -> None:
    samples = Latency.counted(Counter({float(value): 10 for value in range(1, 101)}))  # 100 answers, 10 gaps each
    assert intervals.quantile(samples, 0.5, independent=100) == (40, 61)
    narrow = intervals.quantile(samples, 0.5)
    assert narrow == (47, 54)  # ranks 469 and 532 of 1,000
    odd = Latency.of(range(1, 102))  # ranks 2 and 9 of 10, as shares of 101: within, never inside
    assert intervals.quantile(odd, 0.5, independent=10) == (11, 91)
    assert intervals.quantile(samples, 0.5, independent=5) == (None, None)
    assert intervals.quantile(Latency.of([1.0, 2.0]), 0.5, independent=0) == (None, None)
    wide, all_of_them = intervals.mean(samples, independent=100), intervals.mean(samples)
    assert wide[0] is not None
    assert all_of_them[0] is not None
    assert wide[0] < all_of_them[0] < 50.5


def test_students_t_of_tables() -> None:
    table = {(0.975, 9): 2.26216, (0.975, 19): 2.09302, (0.975, 99): 1.98422, (0.9875, 9): 2.68501}
    for (p, df), t in table.items():
        assert intervals.student(p, df) == pytest.approx(t, rel=1e-4)
    assert intervals.student(0.975, 10**9) == pytest.approx(NormalDist().inv_cdf(0.975), rel=1e-6)


def test_a_mean_by_hand() -> None:
    values = [float(value) for value in range(1, 11)]
    half = 2.26216 * stdev(values) / sqrt(10)
    low, high = intervals.mean(Latency.of(values))
    assert (low, high) == (pytest.approx(5.5 - half, rel=1e-4), pytest.approx(5.5 + half, rel=1e-4))
    assert intervals.mean(Latency.counted(Counter(values))) == (pytest.approx(low), pytest.approx(high))
    assert intervals.mean(Latency.of(values[:9])) == (None, None)
    assert intervals.mean(Latency()) == (None, None)
    assert intervals.rate(values) == (low, high)
    assert intervals.rate([]) == (None, None)


def test_what_is_never_negative_has_no_negative_end() -> None:
    low, high = intervals.mean(Latency.of([0.0] * 9 + [1.0]))
    assert low == 0.0
    assert high is not None
    assert high > 0.1


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(10, 100, 0.0552, 0.1744), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (50, 100, 0.4038, 0.5962)],
)
def test_shares_of_tables(count: int, of: int, low: float, high: float) -> None:
    assert intervals.share(count, of) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    if count in (0, of):
        assert (low if count == 0 else high) in intervals.share(count, of)


def test_no_share_of_nothing() -> None:
    assert intervals.share(0, 0) == (None, None)


def test_a_quotient_takes_the_far_ends() -> None:
    assert intervals.ratio((4.0, 6.0), (1.0, 2.0)) == (2.0, 6.0)
    assert intervals.ratio((4.0, None), (1.0, 2.0)) == (2.0, None)
    assert intervals.ratio((None, 6.0), (1.0, 2.0)) == (None, 6.0)
    assert intervals.ratio((4.0, 6.0), (None, 2.0)) == (2.0, None)
    assert intervals.ratio((4.0, 6.0), (0.0, None)) == (None, None)


# --- how often is the truth inside? ----------------------------------------------------------------------------------


def held(make: Callable[[Random], intervals.Interval], truth: float) -> float:
    inside = 0
    for trial in range(TRIALS):
        low, high = make(Random(trial))
        inside += (low is None or low <= truth) and (high is None or truth <= high)
    return inside / TRIALS


@pytest.mark.parametrize(("q", "n"), [(0.5, 25), (0.5, 101), (0.95, 100), (0.95, 400), (0.99, 500), (0.05, 100)])
@pytest.mark.parametrize("skewed", [False, True])
def test_quantiles_hold_the_truth_as_often_as_they_say(q: float, n: int, skewed: bool) -> None:
    def draw(random: Random) -> float:
        return random.expovariate(1.0) ** 3 if skewed else random.random()

    truth = (-log(1 - q)) ** 3 if skewed else q
    found = held(lambda random: intervals.quantile(Latency.of(draw(random) for _ in range(n)), q), truth)
    assert 0.94 <= found <= 0.995  # ranks are whole, so never less but for chance, and little more


def test_means_hold_the_truth_where_samples_are_not_too_skewed() -> None:
    def flat(random: Random) -> intervals.Interval:
        return intervals.mean(Latency.of(random.random() for _ in range(12)))

    def skewed(random: Random) -> intervals.Interval:
        return intervals.mean(Latency.of(random.expovariate(1.0) for _ in range(50)))

    assert held(flat, 0.5) == pytest.approx(0.95, abs=0.02)
    assert held(skewed, 1.0) == pytest.approx(0.95, abs=0.035)


@pytest.mark.parametrize("p", [0.02, 0.5, 0.95])
def test_shares_hold_the_truth(p: float) -> None:
    found = held(lambda random: intervals.share(sum(random.random() < p for _ in range(150)), 150), p)
    assert found == pytest.approx(0.955, abs=0.03)


def test_a_quotient_holds_the_truth_also_of_pairs() -> None:
    each = (1 + intervals.LEVEL) / 2

    def draw(random: Random) -> intervals.Interval:
        cold = [random.expovariate(1.0) + 3 for _ in range(40)]
        warm = [value / 3 + random.random() for value in cold]  # a slow prompt is slow in both
        return intervals.ratio(
            intervals.quantile(Latency.of(cold), 0.5, each), intervals.quantile(Latency.of(warm), 0.5, each)
        )

    many = Random(9)
    cold = sorted(many.expovariate(1.0) + 3 for _ in range(100_001))
    warm = sorted(value / 3 + many.random() for value in cold)
    assert held(draw, cold[50_000] / warm[50_000]) >= 0.95


# --- for any samples -------------------------------------------------------------------------------------------------

values = st.lists(st.floats(0, 1e4, allow_subnormal=False), min_size=1, max_size=80)
quantiles = st.sampled_from([0.05, 0.1, 0.5, 0.95, 0.99])


@given(values, quantiles)
def test_the_percentile_is_inside_and_more_confidence_is_wider(found: list[float], q: float) -> None:
    enough = ceil(1 / min(q, 1 - q))
    samples = Latency.of(found * enough)  # of fewer, that the truth is beyond the last one may be nearly sure
    value = samples.percentile(100 * q)
    assert value is not None
    (low, high), (lower, higher) = intervals.quantile(samples, q), intervals.quantile(samples, q, 0.99)
    assert low is None or low <= value
    assert high is None or value <= high
    assert lower is None or (low is not None and lower <= low)
    assert higher is None or (high is not None and higher >= high)


@given(values, quantiles, st.integers(1, 90))
def test_fewer_independent_samples_are_never_surer(found: list[float], q: float, independent: int) -> None:
    samples = Latency.of(found)
    narrow, wide = intervals.quantile(samples, q), intervals.quantile(samples, q, independent=min(independent, 10))
    if len(found) >= 10 * min(independent, 10):  # whole ranks of nearly as many may round either way
        assert wide[0] is None or (narrow[0] is not None and wide[0] <= narrow[0])
        assert wide[1] is None or (narrow[1] is not None and wide[1] >= narrow[1])


@given(st.integers(0, 400), st.integers(1, 400))
def test_a_share_is_inside(count: int, of: int) -> None:
    low, high = intervals.share(min(count, of), of)
    assert low is not None
    assert high is not None
    assert 0 <= low <= min(count, of) / of <= high <= 1
