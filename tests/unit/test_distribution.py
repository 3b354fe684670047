"""Percentiles of samples that are listed and of samples that are counted: the same, and those of the sorted list."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.distribution import Latency, merged

SECONDS = st.lists(st.integers(0, 50).map(lambda micro: micro / 1e6), max_size=60)


def percentile(values: list[float], q: float) -> float:
    """The definition: linear between the two nearest ranks of the sorted list."""
    ordered, position = sorted(values), (len(values) - 1) * q / 100
    low = ordered[math.floor(position)]
    return low + (ordered[math.ceil(position)] - low) * (position - math.floor(position))


@given(SECONDS.filter(bool), st.floats(0, 100))
def test_a_percentile_is_that_of_the_sorted_list_listed_or_counted(values: list[float], q: float) -> None:
    for made in (Latency.of(values), Latency.counted(Counter(values))):
        assert made.percentile(q) == pytest.approx(percentile(values, q), abs=1e-15)
        assert len(made) == len(values)
        assert (made.min, made.max) == (min(values), max(values))
        assert made.mean == pytest.approx(sum(values) / len(values), abs=1e-15)
        assert [made.ranked(rank) for rank in range(len(values))] == sorted(values)
        assert [value for value, times in made.counts() for _ in range(times)] == sorted(values)


def test_nothing_has_no_figures() -> None:
    for nothing in (Latency(), Latency.of([None, None]), Latency.counted({}), merged([])):
        figures = (nothing.p50, nothing.p95, nothing.p99, nothing.mean, nothing.max, nothing.min)
        assert (len(nothing), figures) == (0, (None,) * 6)


def test_none_is_a_request_without_a_sample_and_no_zero() -> None:
    assert list(Latency.of([None, 2.0, None, 0.0]).samples) == [0.0, 2.0]


def test_a_rank_beyond_the_samples_is_an_error() -> None:
    for made in (Latency.of([1.0]), Latency.counted({1.0: 3})):
        with pytest.raises(IndexError):
            made.ranked(3)


@given(st.lists(SECONDS, max_size=4))
def test_merged_are_all_samples_together(parts: list[list[float]]) -> None:
    several = [Latency.of(p) if at % 2 else Latency.counted(Counter(p)) for at, p in enumerate(parts)]
    together = merged(several)
    everything = sorted(value for part in parts for value in part)
    assert [together.ranked(rank) for rank in range(len(together))] == everything


def test_one_sample_alone_is_not_made_anew() -> None:
    """A run has a gap for every token, and every report asks for the samples of all of its runs."""
    alone = Latency.of([0.2, 0.1, 0.2])
    assert merged([Latency(), alone, Latency()]) is alone
    assert len(merged([Latency(), Latency()])) == 0
