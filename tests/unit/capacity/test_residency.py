"""How long blocks stay, wait and are in use: against lists of all of them, and by hand."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.capacity import timing
from pytest_kvcache.capacity.rules import REFERENCE, Rules
from pytest_kvcache.capacity.simulate import simulate
from pytest_kvcache.capacity.timing import Gaps, Spread, Window, WorkingSet
from pytest_kvcache.model import Row

from .oracle import RULES, B, blocks_of, play, row, traces


def spread(values: Sequence[float]) -> Spread:
    if not values:
        return Spread(0, None, None, None)
    ordered = sorted(values)
    at = 0.95 * (len(ordered) - 1)
    low = int(at)
    p95 = ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (at - low)
    return Spread(len(values), statistics.fmean(values), statistics.median(values), p95)


def same(found: Spread | None, expected: Spread) -> None:
    assert found is not None
    assert found.count == expected.count
    got, want = ((s.mean, s.median, s.p95) for s in (found, expected))
    assert got == want if None in want else got == pytest.approx(want)


def gaps(found: Gaps, pairs: list[tuple[int, int]], rows: list[Row]) -> None:
    """Each pair has the number of a request at which something began, and at which it ended."""
    same(found.requests, spread([end - start for start, end in pairs]))
    times = [r.time for r in rows]
    same(found.seconds, spread([(times[end] or 0.0) - (times[start] or 0.0) for start, end in pairs]))


@pytest.mark.parametrize("policy", ["lru", "fifo", "lfu", "s3fifo"])
@given(rows=traces(), slots=st.integers(0, 15), rules=st.sampled_from(RULES), warm=st.integers(0, 4))
@settings(max_examples=50)
def test_how_long_blocks_stay_and_wait(policy: str, rows: list[Row], slots: int, rules: Rules, warm: int) -> None:
    found, told = simulate(rows, B, policy, slots=slots, rules=rules, warm_rows=warm), play(rows, policy, slots, rules)
    gaps(found.residency.lifetime, told.lifetimes, rows)
    gaps(found.residency.idle, told.idles, rows)
    gaps(found.reuse.gap, [pair for pair in told.reuses if pair[1] >= warm], rows)


@given(rows=traces(requests=30, longest=2), slots=st.integers(0, 15))
@settings(max_examples=50)
def test_the_working_set_does_not_depend_on_the_cache(rows: list[Row], slots: int) -> None:
    found = simulate(rows, B, slots=slots).working_set
    windows: dict[int, dict[tuple[object, ...], int]] = {}
    start = rows[0].time or 0.0
    for r in rows:
        for block in blocks_of(r, REFERENCE):
            windows.setdefault(int(((r.time or 0.0) - start) // 60), {}).setdefault(block.name, block.holds)
    expected = [Window(60.0 * number, len(blocks), sum(blocks.values())) for number, blocks in windows.items()]
    assert found == WorkingSet("seconds", 60.0, tuple(expected))
    assert found.peak_blocks == max((window.blocks for window in expected), default=0)
    assert found.peak_tokens == max((window.tokens for window in expected), default=0)


def test_by_hand() -> None:
    rows = [
        row(1, [1, 2], time=100.0),
        row(2, [1], time=101.0),
        row(3, [3, 4], time=102.5),  # 2 goes, then 1
        row(4, [1, 2], time=190.0),
    ]
    found = simulate(rows, B, "lru", slots=2)
    lifetime, idle = found.residency
    assert lifetime.requests == Spread(4, 1.5, 1.5, 2.0)  # 2, 2, then 1, 1
    assert idle.requests == Spread(4, 1.25, 1.0, pytest.approx(1.85))  # 2, 1, 1, 1
    assert lifetime.seconds == Spread(4, 45.0, 45.0, 87.5)
    assert found.reuse.gap.requests == Spread(1, 1.0, 1.0, 1.0)
    assert found.working_set.windows == (Window(0.0, 4, 16), Window(60.0, 2, 8))
    assert found.working_set.peak_tokens == 16


@pytest.mark.parametrize("times", [(None, 1.0), (1.0, None), (2.0, 1.0), (1.0, float("nan"))])
def test_times_that_cannot_be_used(times: tuple[float | None, float | None]) -> None:
    found = simulate([row(1, [1], time=times[0]), row(2, [1], time=times[1])], B, slots=1)
    assert found.reuse.gap == Gaps(Spread(1, 1.0, 1.0, 1.0), None)
    assert found.residency.idle == Gaps(Spread(0, None, None, None), None)
    assert found.working_set == WorkingSet("requests", 1000.0, (Window(0.0, 1, B),))


def test_windows_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "WINDOW_REQUESTS", 2)
    rows = [row(1, [1, 2]), row(2, [1], 3), row(3, [], 1), row(4, [1, 3], 6), row(5, [], 9), row(6, [], 9), row(7, [1])]
    found = simulate(rows, B, slots=1).working_set
    assert found == WorkingSet("requests", 2.0, (Window(0.0, 2, 8), Window(2.0, 2, 6), Window(6.0, 1, 4)))


def test_a_gap_of_years_is_no_window_each() -> None:
    found = simulate([row(1, [1], time=0.0), row(2, [1], time=1.7e9)], B, slots=1).working_set
    assert [window.blocks for window in found.windows] == [1, 1]


def test_no_rows() -> None:
    found = simulate([], B, slots=1)
    assert found.working_set == WorkingSet("seconds", 60.0, ())
    assert found.working_set.peak_blocks == 0
