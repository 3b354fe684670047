"""How many blocks were used in the meantime, when a sample of them is known."""

from __future__ import annotations

from array import array

import pytest

from pytest_kvcache.capacity.branches import Branches
from pytest_kvcache.capacity.trunk import WORD, Use

START: Use = (-1, 0, 0, 0.0)


def blocks(count: int, first: int = 0) -> array[int]:
    return array("q", range(first, first + count))


def test_of_what_was_not_sampled_all_is_distinct_until_something_repeats() -> None:
    branches = Branches(0.5, 1000)
    assert branches.since(START, 100) == 100.0  # nothing was sampled yet
    assert branches.since(START, 0) == 0.0
    assert branches.use(blocks(10), 7, 0, 30) == []
    assert branches.sampled == (1, 10.0)
    assert branches.since(START, 50) == 50.0  # 10 were seen, all distinct, and so are 40 others


def test_it_repeats_itself_as_what_was_sampled_does() -> None:
    branches = Branches(0.5, 1000)
    branches.use(blocks(600), 7, 0, 400)
    branches.use(blocks(600), 7, 1, 1500)
    # 1,200 used blocks were 600; what all windows of this length weigh beside it, 100 blocks, is a half as well
    assert branches.since(START, 3000) == pytest.approx(600 + 1800 * 0.5)
    # nothing was sampled after the second; what is known of such windows, none: all distinct
    now: Use = (1, 2100, *branches.sampled)
    assert branches.since(now, 3000) == 900.0


def test_windows_of_which_little_is_seen_are_like_others_of_their_length() -> None:
    branches = Branches(0.5, 10_000)
    for turn in range(4):  # windows of 1,500 events, of which 1,000 were seen: 250 distinct ones
        branches.use(blocks(250), 7, turn, 300 * turn)
    assert branches.since(START, 1500) == pytest.approx(250 + 500 * 0.25)
    branches.use(blocks(50, 10_000), 8, 4, 1500)
    seen = branches.since((3, 1500, 4, 1000.0), 3000)  # 50 distinct of 50; of all such windows 300 of 1,050
    assert seen == pytest.approx(50 + 1450 * (50 + 100 * 300 / 1050) / (50 + 100))


def test_what_windows_were_like_is_forgotten() -> None:
    branches = Branches(0.5, 10**6)
    for turn in range(200):  # all the same 500 blocks: next to nothing is distinct
        branches.use(blocks(500), 7, turn, 1000 * turn)
        branches.since((turn - 1, 1000 * turn, turn, 500.0 * turn), 1000 * turn + 600)
        branches.since(START, 1000)
    repeated = branches.since((199, 200_000, *branches.sampled), 201_000)
    for turn in range(200, 400):  # from now on everything is new
        branches.use(blocks(500, 10**6 + 500 * turn), turn, turn, 1000 * turn)
        branches.since((turn - 1, 1000 * turn, turn, 500.0 * turn), 1000 * turn + 1000)
    fresh = branches.since((399, 400_000, *branches.sampled), 401_000)
    assert repeated < 400
    assert fresh > 950


def test_distances_of_a_branch_are_those_of_its_own_and_of_others() -> None:
    branches = Branches(0.5, 1000)
    assert branches.use(blocks(4), 7, 3, 0) == []
    # 10 blocks were used in between, none of them sampled
    assert branches.use(blocks(6), 7, 5, 14) == [(0, 4, 10.0, 3)]
    assert branches.use(array("q", [0, 1, 9]), 7, 6, 20) == [(0, 2, 0.0, 5)]
    # the first two blocks are on top, 9 behind them; before the rest are these three and 5 others
    assert branches.use(blocks(6), 7, 7, 28) == [(0, 2, 5.0, 6), (2, 6, pytest.approx(3 + 5.0), 5)]


def test_halving_keeps_lower_marks_and_what_they_used() -> None:
    branches = Branches(1.0, 100)
    marks = [WORD // 16 * part for part in (1, 9, 3, 11, 5, 13, 7, 15)]
    for row, mark in enumerate(marks):
        branches.use(blocks(12), mark, row, 12 * row)
    assert not branches.full()
    assert branches.held == 96
    moments: list[Use] = [(row, 0, row + 1, 12.0 * (row + 1)) for row in range(8)]
    branches.use(blocks(12), WORD // 16 * 2, 8, 96)
    assert branches.full()
    changed = branches.tidy()
    assert (branches.share, branches.held) == (0.5, 96)
    assert branches.limit == 2**63
    # every other one, and the last one, are left: of 9 requests five, and so of what they used
    assert branches.sampled == (5, 60.0)
    assert [changed(moment)[2] for moment in moments] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert changed(moments[7])[3] == pytest.approx(96 * 5 / 9)
    # behind the fifth request 48 blocks were used: 24 of them are known, of the others as many as were before: 21.3
    assert branches.use(blocks(12), marks[4], 9, 108) == [(0, 12, pytest.approx(24 + 21.3 * 0.9, abs=0.1), 4)]
