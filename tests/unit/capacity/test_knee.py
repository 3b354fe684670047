"""Where returns flatten, and whether that is the ceiling."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_kvcache.capacity.curve import Curve
from pytest_kvcache.capacity.points import Point
from pytest_kvcache.capacity.rules import REFERENCE
from pytest_kvcache.capacity.stack import StackPass, stack_pass
from pytest_kvcache.capacity.steps import Steps
from pytest_kvcache.errors import TraceError
from pytest_kvcache.model import Row

B = 4


def found(prompts: Sequence[Sequence[int]]) -> StackPass:
    return stack_pass([Row(n, len(ids) * B, array("q", ids)) for n, ids in enumerate(prompts, 1)], B, REFERENCE)


def curve(prompts: Sequence[Sequence[int]], **more: Any) -> Curve:
    return Curve.of_stack(found(prompts), B, **more)


def rounds(sessions: int, turns: int) -> list[list[int]]:
    """Sessions of one block take turns one after the other, and all begin with the block 0: below it, everything
    comes back at a distance of ``sessions + 1`` blocks, nothing before."""
    return [[0, session] for _ in range(turns) for session in range(1, sessions + 1)]


def test_a_plateau_far_below_the_ceiling_is_thrashing() -> None:
    # 30 requests of 2 blocks; block 0 hits 29 times at a distance of 1, each other one twice at 11
    seen = curve(rounds(10, 3)).regime(blocks=4)
    assert (seen.name, seen.hit_rate, seen.ceiling) == ("thrashing", 29 / 60, 49 / 60)
    assert (seen.twice.blocks, seen.gain) == (8, 0.0)
    assert seen.evictions == 31 - 4  # stored: block 0 once, the others every time
    assert seen.distance is not None
    assert seen.distance.blocks == 11
    assert (
        seen.sentence
        == str(seen)
        == (
            "thrashing: hit rate 0.483 of 0.817 at 4 blocks (16 tokens); 8 blocks would add 0.000. No plateau: "
            "27 evictions turn it over 6.75 times, and half of the missing reuse lies at a distance of "
            "11 blocks (44 tokens) or more"
        )
    )


def test_where_more_helps_it_grows() -> None:
    seen = curve(rounds(10, 3)).regime(blocks=6)
    assert (seen.name, seen.gain, seen.evictions) == ("growing", 20 / 60, 25)
    assert seen.sentence == "growing: hit rate 0.483 of 0.817 at 6 blocks (24 tokens); 12 blocks would add 0.333"
    assert seen.distance is not None
    assert seen.distance.blocks == 11


def test_near_the_ceiling_it_is_a_plateau() -> None:
    seen = curve(rounds(10, 3)).regime(blocks=11)
    assert (seen.name, seen.hit_rate, seen.distance) == ("plateau", 49 / 60, None)
    assert (
        seen.sentence == "plateau: hit rate 0.817 of 0.817 at 11 blocks (44 tokens); more cache adds no more than 0.000"
    )
    assert curve(rounds(10, 3)).regime(blocks=4, within=0.34).name == "plateau"
    assert curve(rounds(10, 3)).regime(blocks=4, within=0.33).name == "thrashing"
    assert "no more than 0.333" in curve(rounds(10, 3)).regime(blocks=4, within=0.34).sentence


def test_the_distance_is_the_median_of_what_is_missing() -> None:
    # 5 comes back at 2, 4 at 3, ..., 1 at 6: of the 5 hit blocks a cache of 1 block misses all
    prompts = [[n] for n in (1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1)]
    plain = curve(prompts)
    assert [plain.hit_tokens(blocks=at) // B for at in range(7)] == [0, 0, 1, 2, 3, 4, 5]
    distances = [plain.regime(blocks=at, within=0.0).distance for at in range(7)]
    assert [distance and distance.blocks for distance in distances] == [4, 4, 4, 5, 5, 6, None]


def test_requests_that_do_not_fit_thrash_without_evictions() -> None:
    seen = curve([[7, *range(10 + 9 * n, 19 + 9 * n)] for n in (0, 1, 0, 1)]).regime(blocks=1)
    assert (seen.name, seen.evictions) == ("thrashing", 0)
    assert "No plateau: requests do not fit into it, and half" in seen.sentence


def test_no_cache_at_all_grows_where_a_block_helps() -> None:
    assert curve(rounds(10, 3)).regime(blocks=0).name == "growing"
    assert curve([[1], [2], [1], [2]]).regime(blocks=0).name == "thrashing"  # and one block would not help
    assert "0 blocks (0 tokens); 1 block would add" in curve(rounds(10, 3)).regime(blocks=0).sentence


def test_of_simulated_budgets_the_next_one_stands_for_twice() -> None:
    points = [Point(4, 29 * B, 27), Point(9, 29 * B, 22)]
    seen = Curve.of_points(points, "fifo", found(rounds(10, 3)), B).regime(blocks=4)
    assert (seen.name, seen.twice.blocks, seen.gain) == ("thrashing", 9, 0.0)
    assert seen.distance is not None
    assert seen.distance.blocks == 11
    far = Curve.of_points(points[:1], "fifo", found(rounds(10, 3)), B).regime(blocks=4)
    assert (far.name, far.twice.blocks) == ("growing", 11)


def test_gain_is_what_one_more_gib_brings() -> None:
    each = 2**30 / (2 * B)  # a block is half a GiB
    plain = curve(rounds(10, 3), bytes_per_token=each)
    assert plain.gain(blocks=8) == (0, 0.0, "GiB")
    assert plain.gain(blocks=9) == (20 * B, 20 / 60, "GiB")
    assert plain.gain(gib=5) == (20 * B, 20 / 60, "GiB")
    assert plain.gain(blocks=11) == (0, 0.0, "GiB")
    assert plain.gain_per_gib(blocks=10) == 20 / 60
    huge = curve(rounds(10, 3), bytes_per_token=2**30)  # a block is 4 GiB: a quarter of what the next one brings
    assert huge.gain(blocks=10) == (20 * B / 4, 20 / 60 / 4, "GiB")


def test_without_bytes_gain_is_per_million_tokens() -> None:
    plain = curve(rounds(10, 3))
    assert plain.gain(blocks=0) == (49 * B, 49 / 60, "M tokens")
    with pytest.raises(TraceError, match="gib=1: how many bytes"):
        plain.gain_per_gib(blocks=4)


def test_gain_between_simulated_budgets_is_shared_out() -> None:
    plain = Curve.of_points([Point(4, 29 * B, 27)], "fifo", found(rounds(10, 3)), B, bytes_per_token=2**30 / B)
    assert plain.gain(blocks=4).hit_tokens == pytest.approx(20 * B / 7)  # 7 blocks of a GiB each to the next
    assert plain.gain(blocks=11).hit_tokens == 0
    assert plain.gain(blocks=200).hit_tokens == 0


@pytest.mark.parametrize("within", [-0.01, 1.5, math.nan, True, "0.01", None])
def test_what_is_no_difference_of_rates_is_an_error(within: Any) -> None:
    plain = curve(rounds(10, 3))
    with pytest.raises(TraceError, match=r"within=.*: expected a difference of hit rates, 0\.\.1"):
        plain.knee(within=within)
    with pytest.raises(TraceError, match=r"within=.*: expected a difference"):
        plain.regime(blocks=1, within=within)


def test_a_knee_further_below_than_the_ceiling_is_no_cache() -> None:
    assert curve(rounds(10, 3)).knee(within=1).blocks == 0
    assert curve([[1], [2]]).knee().blocks == 0


def ramp(blocks: int) -> Curve:
    """Every block of the budget hits once, of twice as many that are asked for."""
    return Curve.of_stack(StackPass(Steps.of({1: B, blocks + 1: -B}), Steps.of({}), 9, 2 * B * blocks, 0, blocks), B)


def test_a_difference_is_taken_as_it_is_written() -> None:
    assert ramp(50).knee(within=0.29).blocks == 50 - 29  # the nearest binary fraction is below 0.29
    assert ramp(1000).knee(within=0.01).blocks == 1000 - 20
    assert [ramp(1000).regime(blocks=at).name for at in (979, 980)] == ["growing", "plateau"]


def test_what_twice_the_budget_brings_for_the_most_part_grows() -> None:
    # of 200 tokens 196 hit at a distance of 1, two at 6 and two at 90: twice 3 blocks bring half of what is missing
    hits = Steps.of({1: 196, 2: -196, 6: 2, 7: -2, 90: 2, 91: -2})
    curve = Curve.of_stack(StackPass(hits, Steps.of({}), 9, 200, 0, 200), 1)
    assert (curve.regime(blocks=3).name, curve.regime(blocks=3).gain) == ("growing", 0.01)
    assert curve.regime(blocks=2).name == "thrashing"  # and twice 2 blocks bring nothing of it
