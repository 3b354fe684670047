"""How many requests get what: exact shares, in an order that is the same everywhere."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.workloads.shares import Deal, Slot, apportion, deal_of, values_of, weights_problem, zipf

WEIGHTS = st.lists(st.integers(0, 1000), min_size=1, max_size=30).filter(any)


@settings(max_examples=200, derandomize=True)
@given(total=st.integers(0, 5000), weights=WEIGHTS)
def test_parts_sum_to_the_whole_and_each_is_within_one_of_its_share(total: int, weights: list[int]) -> None:
    parts = apportion(total, weights)
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - Fraction(total * weight, sum(weights))) < 1
        assert weight or not part


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [
        (100, zipf(4, 1.0), (48, 24, 16, 12)),  # 100 x 12/25, 6/25, 4/25, 3/25
        (10, [0.7, 0.3], (7, 3)),
        (10, [0.1, 0.2, 0.7], (1, 2, 7)),
        (3, [0.1, 0.2, 0.3], (1, 1, 1)),  # 0.5, 1, 1.5: of equal remainders the first
        (7, [1, 1, 1], (3, 2, 2)),
        (5, [0, 1], (0, 5)),
        (1, [1, 1, 5], (0, 0, 1)),
        (0, [1, 2], (0, 0)),
        (10, [41, 29, 17, 13], (4, 3, 2, 1)),  # 4.1, 2.9, 1.7, 1.3
    ],
)
def test_parts_by_hand(total: int, weights: list[float], parts: tuple[int, ...]) -> None:
    assert apportion(total, weights) == parts


def test_powers_of_the_rank() -> None:
    assert zipf(4, 1.0) == [1, 1 / 2, 1 / 3, 1 / 4]
    assert zipf(3, 2.0) == [1, 1 / 4, 1 / 9]
    assert zipf(3, 0.0) == [1, 1, 1]


@settings(max_examples=100, derandomize=True)
@given(counts=st.lists(st.integers(0, 20), min_size=1, max_size=12), seed=st.text(max_size=4))
def test_every_place_of_every_share_is_dealt_once(counts: list[int], seed: str) -> None:
    deal = Deal(tuple(counts), seed)
    dealt = [deal[index] for index in range(len(deal))]
    assert sorted(dealt) == [Slot(which, at) for which, count in enumerate(counts) for at in range(count)]
    assert dealt == [Deal(tuple(counts), seed)[index] for index in range(len(deal))]


def test_the_order_is_mixed_and_follows_the_seed() -> None:
    one, other = (Deal((50, 50), seed) for seed in ("a", "b"))
    first = [one[index].which for index in range(100)]
    assert first != [other[index].which for index in range(100)]
    assert 15 < sum(first[:50]) < 35
    assert sum(a != b for a, b in itertools.pairwise(first)) > 25


def test_in_turn() -> None:
    deal = Deal.in_turn(7, 3)
    assert deal.counts == (3, 2, 2)
    assert [deal[index] for index in range(7)] == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2)]
    assert Deal.in_turn(2, 4).counts == (1, 1, 0, 0)
    assert Deal.in_turn(10**12, 7)[10**11] == (10**11 % 7, 10**11 // 7)  # nothing is stored


def test_independent_draws_are_equally_likely_and_the_same_again() -> None:
    deal = Deal.drawn(3000, 3, "seed")
    assert len(deal) == 3000
    assert all(abs(count - 1000) < 4 * math.sqrt(3000 * 2 / 9) for count in deal.counts)
    assert deal.counts != (1000, 1000, 1000)
    assert deal == Deal.drawn(3000, 3, "seed") != Deal.drawn(3000, 3, "other")
    assert Counter(deal[index].which for index in range(3000)) == dict(enumerate(deal.counts))


@pytest.mark.parametrize(
    ("weights", "counts"),
    [
        ("uniform", (34, 33, 33)),
        ("zipf", (55, 27, 18)),  # 54.5, 27.3, 18.2
        (("zipf", 2), (74, 18, 8)),  # 73.5, 18.4, 8.2
        (("zipf", 0.0), (34, 33, 33)),
        ([1, 0, 3], (25, 0, 75)),
    ],
    ids=str,
)
def test_weights(weights: object, counts: tuple[int, ...]) -> None:
    assert weights_problem(weights, 3) is None
    assert deal_of(weights, 100, 3, "s").counts == counts  # type: ignore[arg-type] # any of its forms


@pytest.mark.parametrize(
    "wrong",
    ["pareto", "", [1, 2], [1, 2, -1], [0, 0, 0], [1, 2, float("nan")], [1, 2, float("inf")], [1, 2, True], 3, None,
     ("zipf",), ("zipf", -1), ("zipf", "1"), ("zipf", float("inf")), ("zipf", 1, 1), {1: 1, 2: 1, 3: 1}],
    ids=str,
)  # fmt: skip
def test_wrong_weights_are_told(wrong: object) -> None:
    assert "must be" in (weights_problem(wrong, 3) or "")


def test_the_values_of_a_mix() -> None:
    assert values_of(0.5) == ((0.5,), (1.0,))
    assert values_of([1, 2, 1]) == ((1, 2, 1), (1.0, 1.0, 1.0))
    assert values_of({100: 3, 200: 0.5}) == ((100, 200), (3.0, 0.5))
