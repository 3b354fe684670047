"""Blocks that are out of sight for a while."""

from __future__ import annotations

import time

import pytest

from pytest_kvcache.simulate.visibility import Expiry, Visibility


def test_hidden_blocks_end_the_reach_until_their_moment() -> None:
    seen, now = Visibility(), time.monotonic()
    assert seen.reach([1, 2, 3]) == 3  # never hidden
    seen.hide([2, 3])
    assert seen.reach([1, 2, 3]) == 1
    seen.show([1, 2], now - 1)
    assert seen.reach([1, 2, 3]) == 2
    seen.show([2, 3], now + 3600)  # a block that has a moment keeps it
    assert (seen.reach([1, 2, 3]), seen.reach([3])) == (2, 0)
    seen.hide([2])  # evicted and written anew
    assert seen.reach([1, 2]) == 1


def test_blocks_are_found_as_long_as_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    used = Expiry(10.0)
    assert used.reach([1, 2]) == 0  # never used
    used.use([1, 2, 3])
    now[0] = 109.0
    used.use([1, 2])
    now[0] = 111.0
    assert used.reach([1, 2, 3]) == 2
    assert used.reach([3, 1]) == 0
    now[0] = 119.0
    assert used.reach([1, 2]) == 2
    now[0] = 119.5
    assert used.reach([1, 2]) == 0
    for_ever = Expiry(0.0)
    assert for_ever.reach([1, 2]) == 2
