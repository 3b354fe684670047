"""Blocks that are out of sight for a while."""

from __future__ import annotations

import time

from pytest_kvcache.simulate.visibility import Visibility


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
