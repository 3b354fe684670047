"""A curve in few points: exact ones, at both ends, the knee, and where it bends."""

from __future__ import annotations

import math
import random
from array import array
from bisect import bisect_right
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.capacity.curve import Curve
from pytest_kvcache.capacity.outline import MOST, budgets, outline
from pytest_kvcache.capacity.rules import Rules
from pytest_kvcache.rows import Row
from pytest_kvcache.traces import Trace


def trace(lengths: list[int], rounds: int = 2, block: int = 4, **more: float) -> Trace:
    """Groups of requests; each group is asked for in rounds before the next, so it hits from its own size on."""
    rows: list[Row] = []
    first = 0
    for group, length in enumerate(lengths):
        for _ in range(rounds):
            rows += [Row(1, block, array("q", [first + one]), session=str(group)) for one in range(length)]
        first += length
    return Trace.of(rows, block_size=block, ids="prefix", name="groups", **more)


def interpolated(curve: Curve, points: list[int], at: int) -> float:
    """The hit rate on a straight line between points, on a logarithmic axis."""
    right = min(bisect_right(points, at), len(points) - 1)
    left = right - 1
    a, b = (curve.hit_rate(blocks=points[n]) for n in (left, right))
    share = (math.log(at) - math.log(points[left])) / (math.log(points[right]) - math.log(points[left]))
    return a + (b - a) * share


def test_a_small_curve_is_whole() -> None:
    curve = trace([3, 40]).sweep()
    assert budgets(curve) == list(range(1, 44))
    told = outline(curve)
    assert [point["blocks"] for point in told["points"]] == list(range(1, 44))
    assert [point["hit_rate"] for point in told["points"]] == [curve.hit_rate(blocks=at) for at in range(1, 44)]
    by_hand = [0, 0, *[3 / 86] * 37, *[43 / 86] * 4]  # 3 of 86 fit from 3 blocks on, the 40 others from 40 on
    assert [point["hit_rate"] for point in told["points"]] == by_hand
    assert told["knee"] == {"blocks": 40, "tokens": 160, "gib": None}
    assert (told["ceiling"], told["requests"], told["input_tokens"], told["error"]) == (0.5, 86, 344, None)


def test_a_large_curve_is_followed_where_it_bends() -> None:
    drawn = random.Random(7)
    lengths = [drawn.randint(1, 900) for _ in range(150)]
    curve = trace(lengths).sweep()
    points = budgets(curve)
    assert len(points) == MOST
    assert all(after > before for before, after in pairwise(points))
    assert (points[0], points[-1]) == (1, sum(lengths))
    assert {curve.knee().blocks, max(lengths)} <= set(points)  # the largest group reaches the ceiling
    worst = max(abs(interpolated(curve, points, at) - curve.hit_rate(blocks=at)) for at in range(1, sum(lengths)))
    evenly = sorted({round(sum(lengths) ** (n / 199)) for n in range(200)})
    without = max(abs(interpolated(curve, evenly, at) - curve.hit_rate(blocks=at)) for at in range(1, sum(lengths)))
    assert worst < without / 2


def test_a_single_jump_is_found_to_the_block() -> None:
    curve = trace([7, 12_345, 30_000]).sweep()
    assert {7, 12_344, 12_345, 30_000} <= set(budgets(curve))


def test_the_knee_in_the_middle_of_a_slope_is_a_point() -> None:
    ids = array("q", range(5_000))  # one prompt twice: each further block of cache brings one more
    curve = Trace.of([Row(1, 20_000, ids)] * 2, block_size=4, ids="prefix").sweep()
    knee = curve.knee().blocks
    assert 4_800 < knee < 5_000
    assert knee in budgets(curve)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=12), st.integers(50, MOST))
def test_points_are_few_ascending_and_exact(lengths: list[int], most: int) -> None:
    curve = trace(lengths).sweep()
    points = budgets(curve, most)
    assert len(points) <= most
    assert points == sorted(set(points))
    told = outline(curve)["points"]
    assert all(point["hit_rate"] == curve.hit_rate(blocks=point["blocks"]) for point in told)
    assert told[-1]["hit_rate"] == curve.ceiling


def test_other_policies_have_what_was_simulated() -> None:
    opened = trace([30, 200], bytes_per_token=1024.0)
    curve = opened.sweep("fifo", budgets=[10, 50, 100])
    told = outline(curve)
    assert [point["blocks"] for point in told["points"]] == [10, 50, 100, 230]
    assert told["policy"] == "fifo"
    assert told["points"][1]["hit_rate"] == curve.hit_rate(blocks=50)
    assert told["points"][0]["gib"] == pytest.approx(10 * 4 * 1024 / 2**30, rel=1e-12)
    many = opened.sweep("fifo", budgets=list(range(1, 230)))
    points = budgets(many, 50)
    assert len(points) <= 50
    assert {1, 230, many.knee().blocks} <= set(points)


def test_a_sampled_curve_says_its_error() -> None:
    curve = trace([5] * 400, rounds=3).sweep(sample=0.5)
    told = outline(curve)
    errors = [point["error"] for point in told["points"]]
    assert errors == [curve.error(blocks=point["blocks"]) for point in told["points"]]
    assert told["error"] == max(errors) > 0


@pytest.mark.parametrize(
    ("rules", "name"), [("reference", "reference"), ("engine", "engine"), (Rules(partial=False), "own")]
)
def test_rules_by_name(rules: str | Rules, name: str) -> None:
    told = outline(trace([3]).sweep(rules=rules, warm=0.5))
    assert (told["rules"], told["warm"], told["requests"]) == (name, 0.5, 3)


def test_no_tokens_are_no_curve() -> None:
    curve = Curve.from_json(trace([3]).sweep().to_json() | {"input_tokens": 0})
    told = outline(curve)
    assert (told["ceiling"], told["knee"], told["points"], told["error"]) == (None, None, [], None)
