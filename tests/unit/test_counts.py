"""A sum of which one part is not told is not told, and nothing comes to nothing."""

from __future__ import annotations

from pytest_kvcache.counts import total


def test_a_sum_is_told_only_when_every_count_is() -> None:
    assert total([3, 0, 4]) == 7
    assert total([3, None, 4]) is None
    assert total([None]) is None
    assert total(count for count in [1, 2]) == 3


def test_nothing_comes_to_nothing() -> None:
    nobody: list[int | None] = []
    assert total(nobody) == 0
