"""The Hodges-Lehmann shift and its interval: worked by hand, and as often right as they say."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.regression.shift import Shift

VALUES = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=7)


def test_by_hand() -> None:
    first, second = [1.0, 2.0, 4.0, 8.0, 16.0], [2.0, 4.0, 8.0, 16.0, 32.0]
    shift = Shift.of(first, second, 0.01, relative=True)
    # quotients 2^k, k from -3 to 5, their middle is 2; U <= 1 is the rarest 2 of 252, so one on each side is outside
    assert shift.change == 2.0
    assert (shift.low, shift.high) == (0.25, 16.0)
    shift = Shift.of([1.0, 2.0], [4.0, 8.0], 0.2, relative=False)
    assert (shift.change, shift.low, shift.high) == (4.5, 2.0, 7.0)  # 2 3 6 7, and P(U = 0) = 1/6


def test_an_end_is_open_where_no_values_could_be_told_apart() -> None:
    shift = Shift.of([1.0] * 4, [2.0] * 4, 0.01, relative=True)
    assert (shift.change, shift.low, shift.high) == (2.0, None, None)


@given(first=VALUES, second=VALUES)
def test_the_quotient_is_the_difference_of_logarithms(first: list[float], second: list[float]) -> None:
    logs = [[math.log(value) for value in values] for values in (first, second)]
    by_logs = Shift.of(logs[0], logs[1], 0.05, relative=False)
    direct = Shift.of(first, second, 0.05, relative=True)
    assert math.log(direct.change) == pytest.approx(by_logs.change, abs=1e-9)
    assert (direct.low is None) == (by_logs.low is None)
    if direct.low is not None and by_logs.low is not None:
        assert math.log(direct.low) == pytest.approx(by_logs.low, abs=1e-9)


def test_nothing_is_not_divided_by() -> None:
    assert Shift.of([0.0] * 5, [0.0] * 5, 0.01, relative=True) == Shift(1.0, 1.0, 1.0)
    assert Shift.of([0.0] * 5, [1.0] * 5, 0.01, relative=True) == Shift(math.inf, math.inf, math.inf)
    assert Shift.of([1.0] * 5, [0.0] * 5, 0.01, relative=True) == Shift(0.0, 0.0, 0.0)
    assert Shift.of([0.0, 1.0], [0.0, 1.0], 0.01, relative=True).change == 1.0
    assert Shift.of([0.0, 1.0], [0.0, 5.0], 0.01, relative=True).change == pytest.approx(math.sqrt(5))  # 0 1 5 inf
    assert Shift.of([1.0, 2.0], [0.0, 5.0], 0.01, relative=True).change == 0.0
    assert Shift.of([0.0, 1.0], [3.0, 5.0], 0.01, relative=True).change == math.inf


@pytest.mark.parametrize("runs", [5, 8, 10])
def test_the_interval_holds_as_often_as_it_says(runs: int) -> None:
    """98 %, or more because ranks are whole: 1 - 2 P(U <= critical) of 1,000 pairs of samples that differ by 1.1."""
    random_ = random.Random(f"interval {runs}")
    inside = 0
    for _ in range(1000):
        first = [math.exp(random_.gauss(0, 0.04)) for _ in range(runs)]
        second = [1.1 * math.exp(random_.gauss(0, 0.04)) for _ in range(runs)]
        shift = Shift.of(first, second, 0.01, relative=True)
        assert shift.low is not None
        assert shift.high is not None
        inside += shift.low <= 1.1 <= shift.high
    assert 970 <= inside <= 995


def test_the_estimate_is_the_median_of_all_pairs() -> None:
    random_ = random.Random("pairs")
    first, second = [[random_.random() for _ in range(6)] for _ in range(2)]
    assert Shift.of(first, second, 0.05, relative=False).change == pytest.approx(
        median(y - x for x in first for y in second)
    )
