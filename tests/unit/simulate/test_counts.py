"""Histograms and counts that are told late."""

from __future__ import annotations

from pytest_kvcache.simulate.counts import Counts, Histogram, LateCounts


def test_a_bound_belongs_to_its_bucket() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert (histogram.buckets, histogram.sum) == ([2, 2, 1], 7.5)


def test_late_counts_are_those_of_a_moment_ago() -> None:
    counts = Counts(queries=1)
    late = LateCounts(counts)
    for moment in (10.0, 20.0):
        counts.queries += 100
        counts.finished["length"] += 1
        late.note(moment, counts)
    assert [late.at(moment).queries for moment in (9.9, 10.0, 19.9, 20.0, 99.0)] == [1, 101, 101, 201, 201]
    assert late.at(99.0).finished == {"length": 2}
