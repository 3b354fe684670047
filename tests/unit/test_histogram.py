"""Buckets to means and quantiles: by hand, and against the data that was put into the buckets."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.histogram import Histogram, Quantile, merged

INF = math.inf
TEN = Histogram((0.1, 0.5, 1.0, INF), (2, 4, 3, 1), 7.5)

VALUES = st.lists(st.floats(0, 1e3), max_size=60)
BOUNDS = st.sets(st.floats(0.001, 1e3), max_size=8).map(lambda bounds: (*sorted(bounds), INF))


def filled(values: list[float], bounds: tuple[float, ...]) -> Histogram:
    buckets = Counter(bisect_left(bounds, value) for value in values)  # le: a bound belongs to its own bucket
    return Histogram(bounds, tuple(buckets[i] for i in range(len(bounds))), math.fsum(values))


def test_cumulative_buckets_become_counts_of_their_own() -> None:
    assert Histogram.cumulated({INF: 10, 0.5: 6, 0.1: 2, 1.0: 9}, 7.5) == TEN
    assert (TEN.count, TEN.mean) == (10, 0.75)


@pytest.mark.parametrize(
    "reached",
    [{}, {0.1: 2, 0.5: 6}, {0.1: 6, 0.5: 2, INF: 6}, {0.1: -1, INF: 3}, {0.1: 0.5, INF: 3}],
    ids=["nothing", "no infinite bucket", "falls", "negative", "half an observation"],
)
def test_numbers_that_contradict_each_other_are_no_histogram(reached: dict[float, float]) -> None:
    assert Histogram.cumulated(reached, 1.0) is None
    assert Histogram.cumulated({0.1: 2, INF: 3}, math.nan) is None


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        (0.0, Quantile(0.0, 0.0, 0.1)),
        (0.1, Quantile(0.05, 0.0, 0.1)),  # rank 1 of 2 in 0 .. 0.1
        (0.2, Quantile(0.1, 0.0, 0.1)),  # the second of ten is the last of its bucket
        (0.5, Quantile(0.4, 0.1, 0.5)),  # 0.1 + 0.4 * (5 - 2) / 4
        (0.9, Quantile(1.0, 0.5, 1.0)),  # 0.5 + 0.5 * (9 - 6) / 3
        (0.95, Quantile(1.0, 1.0, INF)),  # no upper bound: the lower one
        (1.0, Quantile(1.0, 1.0, INF)),
    ],
)
def test_quantiles_by_hand(q: float, expected: Quantile) -> None:
    found = TEN.quantile(q)
    assert found is not None
    assert (found.low, found.high) == (expected.low, expected.high)
    assert found.value == pytest.approx(expected.value)


def test_empty_buckets_are_skipped() -> None:
    assert Histogram((1.0, 2.0, 3.0, INF), (0, 0, 4, 0), 10.0).quantile(0.0) == Quantile(2.0, 2.0, 3.0)


def test_no_observation_is_no_number() -> None:
    empty = Histogram((1.0, INF), (0, 0), 0.0)
    assert (empty.count, empty.mean, empty.quantile(0.5)) == (0, None, None)


def test_one_infinite_bucket_tells_the_mean_only() -> None:
    assert Histogram((INF,), (4,), 2.0).mean == 0.5
    assert Histogram((INF,), (4,), 2.0).quantile(0.5) == Quantile(0.0, 0.0, INF)


@given(VALUES.filter(bool), BOUNDS, st.floats(0, 1))
def test_the_true_quantile_lies_between_the_bounds(values: list[float], bounds: tuple[float, ...], q: float) -> None:
    found = filled(values, bounds).quantile(q)
    assert found is not None
    true = sorted(values)[max(1, math.ceil(q * len(values))) - 1]
    assert found.low < true <= found.high or true == found.low == 0.0
    assert found.low <= found.value <= found.high


@given(st.lists(st.tuples(VALUES, BOUNDS), min_size=1, max_size=4))
def test_merging_is_filling_the_shared_buckets_with_everything(
    parts: list[tuple[list[float], tuple[float, ...]]],
) -> None:
    together = [value for values, _ in parts for value in values]
    shared = tuple(sorted(set.intersection(*(set(bounds) for _, bounds in parts))))
    whole, expected = merged(filled(*part) for part in parts), filled(together, shared)
    assert whole is not None
    assert (whole.bounds, whole.counts) == (expected.bounds, expected.counts)
    assert whole.sum == pytest.approx(expected.sum)


def test_merging_by_hand() -> None:
    other = Histogram((0.5, 2.0, INF), (1, 1, 1), 5.0)
    # shared bounds: 0.5 and infinity; 6 of ten and 1 of three lie up to 0.5
    assert merged([TEN, other]) == Histogram((0.5, INF), (7, 6), 12.5)
    assert merged([TEN]) == TEN
    assert merged([]) is None


@given(VALUES, BOUNDS)
def test_cumulating_and_back(values: list[float], bounds: tuple[float, ...]) -> None:
    one = filled(values, bounds)
    assert Histogram.cumulated(dict(zip(bounds, accumulate(one.counts), strict=True)), one.sum) == one
