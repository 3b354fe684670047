"""How much each series grew between two snapshots, and when that is no number."""

from __future__ import annotations

import re

import pytest

from pytest_kvcache.errors import CounterMissing, CounterReset, ProtocolError
from pytest_kvcache.scrape import Snapshot, delta, together

Q = "vllm:prefix_cache_queries_total"


def snapshot(**values: float) -> Snapshot:
    return Snapshot(0.0, {(name, ()): value for name, value in values.items()}, "page")


def test_delta_is_per_series_before_it_is_a_sum() -> None:
    before = Snapshot(0, {(Q, (("engine", "0"),)): 100.0, (Q, (("engine", "1"),)): 50.0}, "p")
    after = Snapshot(1, {(Q, (("engine", "0"),)): 10.0, (Q, (("engine", "1"),)): 500.0}, "p")
    with pytest.raises(CounterReset, match=r'\{engine="0"\} fell from 100 to 10'):
        delta(before, after, Q)


def test_series_absent_at_the_start_counts_from_zero() -> None:
    assert delta(snapshot(other=1), snapshot(c=7), "c") == {(): 7.0}


def test_series_that_vanishes_is_a_restart() -> None:
    with pytest.raises(CounterReset, match="gone"):
        delta(Snapshot(0, {("c", (("e", "0"),)): 3.0}, "p"), Snapshot(1, {("c", (("e", "1"),)): 9.0}, "p"), "c")


def test_counter_on_neither_page_is_an_error() -> None:
    with pytest.raises(CounterMissing, match="has no c"):
        delta(snapshot(other=1), snapshot(other=1), "c")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1.7e308])
def test_value_that_is_no_count_is_an_error_and_no_number(value: float) -> None:
    for before, after in ((snapshot(c=0), snapshot(c=value)), (snapshot(c=value), snapshot(c=9))):
        with pytest.raises(ProtocolError, match=rf"c is {re.escape(str(value))}, which is no count"):
            delta(before, after, "c")


def test_a_gauge_has_no_difference() -> None:
    after = Snapshot(0.0, {("c", ()): 9.0}, "page", kinds={"c": "gauge"})
    with pytest.raises(CounterMissing, match="c on page is a gauge"):
        delta(snapshot(c=1), after, "c")


def test_several_sources_together_keep_their_series_apart() -> None:
    a, b = Snapshot(1.0, {("c", ()): 3.0}, "a"), Snapshot(2.0, {("c", ()): 4.0}, "b")
    both = together([a, b])
    assert (both.total("c"), both.label("c", "source"), together([a])) == (7.0, ["a", "b"], a)
