"""From what was seen to the whole: sums on grids, ratios, regression, errors."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.capacity import estimate
from pytest_kvcache.capacity.estimate import (
    DEVIATIONS,
    GROUPS,
    Estimate,
    Stage,
    at_place,
    on_grid,
    place,
    rounded,
    settled,
    through,
)
from pytest_kvcache.errors import TraceError

CHANGES = st.dictionaries(st.integers(1, 5000), st.integers(-9, 9), max_size=8)


def sum_at(changes: dict[int, float], budget: int) -> float:
    """Of a change at a distance counts what lies between it and the budget."""
    return sum(change * max(0, budget - distance + 1) for distance, change in changes.items())


@pytest.mark.parametrize("bits", [1, 2, 8])
def test_a_grid_of_equal_steps_within_each_double(bits: int) -> None:
    places = [at_place(index, bits) for index in range(12 << bits)]
    assert places[: 2 << bits] == list(range(2 << bits))
    assert places == sorted(set(places))
    for number in (2 << bits, 4 << bits, 1 << (bits + 7)):
        assert sum(number <= at < 2 * number for at in places) == 1 << bits
    for number in range(places[-1]):
        assert at_place(place(number, bits), bits) <= number < at_place(place(number, bits) + 1, bits)


@given(st.integers(1, 10**6), st.sampled_from([2, 8]))
def test_on_a_grid_the_sum_stays_right_at_every_place(distance: int, bits: int) -> None:
    index, lower, upper = on_grid(distance, 3.0, bits)
    for at in range(max(0, index - 2), index + 6):
        budget = at_place(at, bits)
        shared = lower * max(0, budget - at_place(index, bits)) + upper * max(0, budget - at_place(index + 1, bits))
        assert shared == pytest.approx(3.0 * max(0, budget - distance + 1))


@given(CHANGES)
def test_folding_keeps_the_sum_at_places(changes: dict[int, int]) -> None:
    folded = estimate._folded(dict(changes))
    for budget in (at_place(index, 8) for index in range(256, 256 * 7, 37)):
        assert sum_at(folded, budget) == pytest.approx(sum_at(dict(changes), budget), abs=1e-6)


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(-50, 50)), max_size=8))
def test_a_line_goes_through_its_points_in_whole_numbers(steps: list[tuple[int, int]]) -> None:
    line, at, value = [(0, 0)], 0, 0
    for width, rise in steps:
        at, value = at + width, value + rise
        line.append((at, value))
    found = through(line)
    for (start, low), (end, high) in pairwise(line):
        for budget in range(start, end + 1):
            exact = low + (high - low) * (budget - start) / (end - start)
            assert exact - 1e-9 <= found(budget) < exact + (end - start)
            assert min(low, high) <= found(budget) <= max(low, high)
        rises = {found(budget + 1) - found(budget) for budget in range(start, end)}
        assert max(rises) - min(rises) <= 1
        assert found(end) == high
    assert found(at + 1000) == value


@given(st.lists(st.tuples(st.integers(1, 300), st.floats(0, 9)), max_size=8), st.integers(0, 500))
def test_a_rounded_sum_is_near_never_falls_and_stays_below_the_most(pieces: list[tuple[int, float]], most: int) -> None:
    changes: dict[int, float] = {}
    for distance, amount in pieces:
        changes[distance] = changes.get(distance, 0.0) + amount
        changes[distance + 10] = changes.get(distance + 10, 0.0) - amount
    found = rounded(changes, most)
    values = [found(budget) for budget in range(320)]
    assert values == sorted(values)
    for budget in (distance - 1 for distance in changes):
        assert abs(found(budget) - min(most, sum_at(changes, budget))) <= 0.5 + 1e-6


def test_a_sum_that_falls_is_held() -> None:
    # 5 more at a distance of 1, 3 less at 2, 2 more at 5 to 7: 5, 2, 2, 2, 4, 6, 8
    held = rounded({1: 5.0, 2: -8.0, 3: 3.0, 5: 2.0, 8: -2.0}, 7)
    assert [held(budget) for budget in (0, 1, 2, 4, 7, 9)] == [0, 5, 5, 5, 7, 7]


def stage(share: float = 0.5, *, counted: bool = True) -> Stage:
    return Stage(share, counted)


def test_a_ratio_by_hand() -> None:
    """Branches: 10 of 40 blocks were seen, 4 of them hit at distances 3 to 6. Trunk: all 5 blocks, of which 2 hit."""
    one = stage()
    one.branches.blocks, one.branches.requests = 40, 4
    one.branches.seen.add(0, 10, [(0, 4, 3)])
    one.trunk.blocks, one.trunk.requests = 5, 1
    one.trunk.seen.add(1, 5, [(1, 3, 1)])
    found = Estimate([one], 16)
    hits = rounded(found.hit_blocks(), 1000)
    assert [hits(at) for at in range(8)] == [0, 1, 2, 6, 10, 14, 18, 18]
    tokens = rounded(found.tokens(), 10_000)
    assert [tokens(at) for at in range(8)] == [16 * hits(at) for at in range(8)]


def test_partial_blocks_weigh_less() -> None:
    one = stage()
    one.branches.blocks, one.branches.requests = 8, 2
    one.branches.seen.add(0, 4, [(0, 4, 1)])
    one.branches.seen.correct(4, 5 - 16)  # the last block holds 5 tokens
    found = Estimate([one], 16)
    tokens = rounded(found.tokens(), 1000)
    assert [tokens(at) for at in range(6)] == [0, 32, 64, 96, 96 + 10, 106]
    assert rounded(found.hit_blocks(), 1000).most == 8


def test_rows_that_only_fill_are_stored_and_do_not_count() -> None:
    stages = [stage(counted=False), stage()]
    for one in stages:
        one.branches.blocks, one.branches.requests = 10, 1
        one.branches.seen.add(0, 10, [(0, 5, 1)])
    found = Estimate(stages, 16)
    assert rounded(found.hit_blocks(), 1000).most == 10
    assert rounded(found.tokens(), 1000).most == 5 * 16


def test_regression_takes_what_depends_on_the_number_of_requests() -> None:
    """Every request adds one block of its own, and hits with all others: then hits are blocks - requests, exactly,
    however unlike the sample is to all: here it has 3 blocks a request, and all have 4."""
    one = stage()
    one.branches.blocks, one.branches.requests = 400, 100
    for group, size in ((0, 2), (1, 2), (2, 5), (3, 3)):
        one.branches.seen.add(group, size, [(0, size - 1, 1)])
    hits = rounded(Estimate([one], 16).hit_blocks(), 10_000)
    assert hits.most == pytest.approx(300, abs=1)


def test_groups_that_are_alike_leave_no_error_but_the_least() -> None:
    one = stage(0.75)
    one.branches.blocks, one.branches.requests = 4 * GROUPS, GROUPS
    for group in range(GROUPS):
        one.branches.seen.add(group, 3, [(0, 2, 5)])
    found = Estimate([one], 16)
    told = dict(found.errors(rounded(found.tokens(), 10**6), 400.0))
    assert told.pop(0) == 0
    assert set(told.values()) == {100}  # of which a quarter has not been sampled


def test_the_error_of_groups_by_hand() -> None:
    """Half of the groups hit 2 of 4 blocks, half of them none: the deviation of a sum of 64 such is 8, of its ratio
    estimate so too; a scale of 2; half of the branches are known, so the root of a half of that."""
    one = stage(0.5)
    one.branches.blocks, one.branches.requests = 2 * 4 * GROUPS, 2 * GROUPS
    for group in range(GROUPS):
        one.branches.seen.add(group, 4, [(0, 2, 5)] if group % 2 else [])
    found = Estimate([one], 16)
    tokens = rounded(found.tokens(), 10**6)
    assert tokens.most == 2 * 64 * 16
    told = dict(found.errors(tokens, 0.0))
    deviation = 8 * 2 * math.sqrt(0.5) * math.sqrt(GROUPS / (GROUPS - 2))
    assert told[max(told)] == math.ceil(DEVIATIONS * deviation * 16)
    assert told[4] == 0
    # at 5 half of that; and all distances may be wrong by as much as what has missed so far, 512 - 64 blocks, is: in
    # the double around it all hits fall in
    blocks, distances = deviation / 2 * 16, deviation / 2 / (512 - 64) * tokens.most / math.log(2)
    assert told[5] == math.ceil(DEVIATIONS * math.hypot(blocks, distances))


def test_all_that_is_followed_is_exact() -> None:
    one = stage(1.0)
    one.branches.blocks, one.branches.requests = 4, 1
    one.branches.seen.add(0, 4, [(0, 2, 5)])
    found = Estimate([one], 16)
    assert found.errors(rounded(found.tokens(), 1000), 10.0) == []


def test_a_stage_too_short_to_be_seen_goes_to_its_neighbour() -> None:
    stages = [stage(1.0, counted=False), stage(1.0), stage(), stage(0.25), stage(0.125)]
    for at in (1, 3):
        stages[at].branches.seen.add(0, 10, [(0, 5, 1)])
    for one in stages:
        one.branches.blocks, one.branches.requests = 10, 2
    stages[4].trunk.blocks, stages[4].trunk.requests = 7, 1
    stages[1].trunk.blocks, stages[1].trunk.requests = 9, 1
    stages[1].trunk.seen.add(0, 9, [])
    settled(stages)
    assert [one.branches.blocks for one in stages] == [10, 20, 10, 20, 10]
    assert [one.branches.requests for one in stages] == [2, 4, 2, 4, 2]
    assert stages[1].trunk.blocks == 16
    found = Estimate(stages, 16)
    assert rounded(found.tokens(), 10_000).most == 16 * (5 * 20 + 5 * 20) // 10


def test_rows_that_only_fill_are_neighbours_of_their_own_kind() -> None:
    stages = [stage(counted=False), stage(counted=False), stage()]
    for one in stages:
        one.branches.blocks, one.branches.requests = 10, 2
    for at in (0, 2):
        stages[at].branches.seen.add(0, 10, [(0, 5, 1)])
    settled(stages)
    assert [one.branches.blocks for one in stages] == [20, 10, 10]


def test_nothing_seen_of_what_counts_is_an_error() -> None:
    stages = [stage(counted=False), stage()]
    stages[0].branches.blocks, stages[0].branches.requests = 5, 2
    assert settled(stages) is stages  # what only fills is not told of
    stages[1].branches.blocks, stages[1].branches.requests = 5000, 1200
    with pytest.raises(TraceError, match="none of 1,200 requests: give a larger share"):
        settled(stages)


def test_many_distances_are_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "_KEPT", 40)
    one = stage(0.5)
    for distance in range(1, 400, 7):
        one.branches.blocks += 3
        one.branches.requests += 1
        one.branches.seen.add(0, 3, [(0, 3, 100 * distance)])
        one.branches.seen.correct(100 * distance + 2, -7)
    found = Estimate([one], 16)
    tokens = rounded(found.tokens(), 10**6)
    assert len(one.branches.seen.hits) < 200
    assert len(one.branches.seen.less) < 200
    assert tokens.most == 57 * (3 * 16 - 7)
    for budget in (5000, 20_000, 39_000):
        assert tokens(budget) == pytest.approx(41 * sum(100 * d <= budget for d in range(1, 400, 7)), rel=0.02, abs=41)
