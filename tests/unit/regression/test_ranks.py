"""Mann-Whitney: against every way to deal the values, against figures of scipy, and where it stops being exact."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.regression import ranks

SMALL = st.lists(st.integers(0, 5), min_size=1, max_size=5)
REAL = st.lists(st.floats(0, 1e6) | st.just(math.inf), min_size=1, max_size=5)


def statistic(first: list[float], second: list[float]) -> float:
    return sum((y > x) + 0.5 * (y == x) for x in first for y in second)


def enumerated(first: list[float], second: list[float]) -> float:
    """The share of all ways to deal the values that are at least as extreme."""
    values, seen = [*first, *second], statistic(first, second)
    deals = list(combinations(range(len(values)), len(second)))
    extreme = 0
    for deal in deals:
        chosen = [values[i] for i in deal]
        rest = [value for i, value in enumerate(values) if i not in deal]
        extreme += statistic(rest, chosen) >= seen
    return extreme / len(deals)


@given(first=SMALL, second=SMALL)
@settings(deadline=None)
def test_with_ties_as_enumerated(first: list[float], second: list[float]) -> None:
    assert ranks.p_above(first, second) == pytest.approx(enumerated(first, second), abs=1e-12)


@given(first=REAL, second=REAL)
@settings(deadline=None)
def test_any_values_as_enumerated(first: list[float], second: list[float]) -> None:
    assert ranks.p_above(first, second) == pytest.approx(enumerated(first, second), abs=1e-12)


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [  # scipy 1.17.1: mannwhitneyu(second, first, alternative="greater", method="exact").pvalue
        ([1.1, 2.2, 3.3, 4.4, 5.5], [2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 0.21428571428571427),
        ([0.12, 0.121, 0.118, 0.125, 0.119], [0.138, 0.141, 0.135, 0.139, 0.1205], 0.015873015873015872),
        ([19, 22, 16, 29, 24], [20, 11, 17, 12], 0.9682539682539683),
        (list(range(0, 40, 2)), [x + 0.5 for x in range(5, 45, 2)], 0.10548216362406039),
        # scipy 1.17.1: permutation_test over all ways of the U statistic, for ties
        ([1, 2, 2, 3, 3, 3, 4], [2, 3, 3, 4, 4, 5], 0.10372960372960373),
    ],
)
def test_figures_of_scipy(first: list[float], second: list[float], p: float) -> None:
    assert ranks.p_above(first, second) == pytest.approx(p, rel=1e-12)


def test_more_values_than_are_counted_as_scipy_approximates() -> None:
    """scipy 1.17.1: mannwhitneyu(second, first, alternative="greater", method="asymptotic").pvalue"""
    first, second = [float(i) for i in range(60)], [i + 7.0 for i in range(55)]
    assert ranks.p_above(first, second) == pytest.approx(0.0850503841653536, rel=1e-9)


def test_where_counting_stops_the_approximation_is_close() -> None:
    first, second = [float(i) for i in range(50)], [i + 8.5 for i in range(50)]
    exact = ranks.p_above(first, second)
    # one value far below changes U by nothing that matters here: it loses against all of them on both sides
    assert ranks.p_above([-1.0, *first], [-0.5, *second]) == pytest.approx(exact, abs=0.01)
    tied = [float(i // 2) for i in range(50)]
    assert ranks.p_above(tied, [value + 4 for value in tied]) == pytest.approx(
        ranks.p_above([*tied, -1.0], [*(value + 4 for value in tied), -0.5]), abs=0.01
    )


def test_all_the_same_is_no_evidence_however_many() -> None:
    assert ranks.p_above([1.0] * 5, [1.0] * 5) == 1.0
    assert ranks.p_above([1.0] * 60, [1.0] * 60) == 1.0


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("m", [1, 3, 6])
def test_ways_are_those_of_all_deals(n: int, m: int) -> None:
    values = list(range(n + m))
    counts = [0] * (n * m + 1)
    for deal in combinations(values, m):
        rest = [value for value in values if value not in deal]
        counts[sum(y > x for x in rest for y in deal)] += 1
    assert list(ranks.ways(n, m)) == counts


@pytest.mark.parametrize(
    ("n", "m", "alpha", "u"),
    [  # tables of the Mann-Whitney U test, one-sided (Milton, JASA 59, 1964): the largest U that is significant
        (4, 4, 0.01, None),
        (5, 5, 0.01, 1),
        (5, 5, 0.05, 4),
        (8, 8, 0.01, 9),
        (10, 10, 0.01, 19),
        (10, 10, 0.05, 27),
        (20, 20, 0.01, 114),
        (5, 10, 0.01, 6),
    ],
)
def test_critical_values_are_those_of_the_tables(n: int, m: int, alpha: float, u: int | None) -> None:
    assert ranks.critical(n, m, alpha) == u
    assert ranks.critical(m, n, alpha) == u


def test_critical_values_go_on_where_counting_stops() -> None:
    counted, more = ranks.critical(50, 50, 0.01), ranks.critical(51, 51, 0.01)
    assert counted is not None
    assert more is not None
    assert 0 < more - counted < 51
    assert ranks.critical(51, 1, 0.01) is None


def test_how_many_repeats_are_needed() -> None:
    assert [ranks.reachable(n, n, 0.01) for n in (4, 5)] == [False, True]  # 1/70 and 1/252
    assert ranks.repeats_needed(0.01) == 5
    assert ranks.repeats_needed(0.01, 3) == 7  # 1 / C(10, 3) = 1/120; 1 / C(9, 3) = 1/84
    assert ranks.repeats_needed(0.01, 1) == 99  # exactly 1/100
    assert ranks.repeats_needed(1e-9, 1) is None
    assert not ranks.reachable(0, 5, 1.0)
