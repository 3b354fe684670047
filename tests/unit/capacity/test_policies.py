"""Every policy under every rule against caches played block by block; and each policy once by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.capacity.paths import Paths
from pytest_kvcache.capacity.policies import FIFO, LFU, LRU, S3FIFO, Cache, HeadFirstLRU
from pytest_kvcache.capacity.rules import ENGINE, REFERENCE, Rules
from pytest_kvcache.capacity.simulate import simulate
from pytest_kvcache.capacity.stack import stack_pass
from pytest_kvcache.errors import TraceError
from pytest_kvcache.model import Row
from pytest_kvcache.simulate.policies import PrefixCache

from .oracle import HEAD_FIRST, RULES, B, busy, play, row, traces

ONLINE = ["lru", "fifo", "lfu", "s3fifo"]


def events(rows: list[Row]) -> int:
    return len({block for r in rows for block in [(r.scope, *r.ids[: at + 1]) for at in range(len(r.ids))]})


def same(rows: list[Row], policy: str, rules: Rules) -> None:
    """Nothing differs from what was played, at any budget."""
    for slots in [*range(events(rows) + 2), None]:
        found, told = simulate(rows, B, policy, slots=slots, rules=rules), play(rows, policy, slots, rules)
        assert list(found.per_request) == told.hits, slots
        assert found.evictions == told.evictions, slots


@pytest.mark.parametrize("policy", ONLINE)
@given(rows=traces(), rules=st.sampled_from(RULES))
@settings(max_examples=60)
def test_every_policy_is_what_is_played(policy: str, rows: list[Row], rules: Rules) -> None:
    same(rows, policy, rules)


@given(rows=traces(), rules=st.sampled_from(HEAD_FIRST))
@settings(max_examples=40)
def test_head_first_is_what_is_played(rows: list[Row], rules: Rules) -> None:
    same(rows, "lru", rules)


@pytest.mark.parametrize("policy", ONLINE)
@pytest.mark.parametrize("rules", [REFERENCE, Rules(charge="tokens")], ids=["block", "tokens"])
def test_longer_traces_in_caches_that_fill(policy: str, rules: Rules) -> None:
    for seed in [*range(16), 90, 127, 845]:  # in the last ones it matters where blocks of one request enter a queue
        rows, slots = busy(seed), 10 + seed % 30
        told = play(rows, policy, slots, rules)
        found = simulate(rows, B, policy, slots=slots, rules=rules)
        assert (list(found.per_request), found.evictions) == (told.hits, told.evictions), seed


@given(rows=traces(), rules=st.sampled_from([REFERENCE, ENGINE]), slots=st.integers(0, 20), warm=st.integers(0, 5))
@settings(max_examples=60)
def test_lru_is_the_curve_in_one_pass(rows: list[Row], rules: Rules, slots: int, warm: int) -> None:
    curve = stack_pass(rows, B, rules, warm_rows=warm)
    found = simulate(rows, B, "lru", slots=slots, rules=rules, warm_rows=warm)
    assert found.hit_tokens == curve.tokens(slots)
    assert found.evictions == curve.evictions(slots)
    assert (found.requests, found.input_tokens, found.uncovered_tokens) == (
        curve.requests,
        curve.input_tokens,
        curve.uncovered_tokens,
    )


@given(rows=traces(), slots=st.integers(0, 12))
@settings(max_examples=60)
def test_lru_is_the_cache_of_the_simulated_engine(rows: list[Row], slots: int) -> None:
    paths, engine = Paths(B, REFERENCE), PrefixCache(slots)
    cache = LRU(slots, paths.costs)
    for now, request in enumerate(rows):
        blocks = paths.of(request).blocks
        assert cache.leading(blocks) == engine.match(blocks)
        cache.admit(blocks, now)
        engine.insert(blocks)
        assert set(cache.held) == {block for block in blocks if block in engine} | (cache.held.keys() - set(blocks))
        assert len(cache.held) == len(engine)


def after(cache: Cache, paths: Sequence[Sequence[int]]) -> list[int]:
    """What is cached after these requests."""
    for now, path in enumerate(paths):
        cache.admit(path, now)
    return sorted(cache.held)


def test_lru_by_hand() -> None:
    ones = [1] * 10
    assert after(LRU(4, ones), [[0, 1, 2], [0, 3]]) == [0, 1, 2, 3]
    assert after(LRU(4, ones), [[0, 1, 2], [0, 3], [4]]) == [0, 1, 3, 4]  # the tail of what is oldest
    assert after(LRU(3, ones), [[0, 1, 2], [0, 3, 4, 5]]) == [0, 3, 4]  # the first blocks of a long one
    assert after(HeadFirstLRU(4, ones), [[0, 1, 2], [0, 3], [4]]) == [0, 2, 3, 4]


def test_fifo_by_hand() -> None:
    ones = [1] * 10
    assert after(FIFO(4, ones), [[0, 1, 2], [0, 3], [4]]) == [1, 2, 3, 4]  # that 0 was hit is nothing to it
    assert after(FIFO(3, ones), [[0, 1, 2, 3, 4]]) == [2, 3, 4]  # makes room by its own blocks
    assert FIFO(3, ones).admit([0, 1, 2, 3, 4], 7) == [(0, 7), (1, 7)]
    assert after(FIFO(0, ones), [[0]]) == []


def test_lfu_by_hand() -> None:
    ones = [1] * 10
    assert after(LFU(4, ones), [[0, 1], [0, 1], [2], [3], [4]]) == [0, 1, 3, 4]  # of those used once, the oldest
    assert after(LFU(3, ones), [[0, 1], [0, 1], [2], [2], [3]]) == [0, 2, 3]  # the tail of those used twice
    assert after(LFU(2, ones), [[0, 1], [0, 1], [2], [0, 1]]) == [0, 1]  # 1 was forgotten with its uses
    assert after(LFU(2, ones), [[0, 1], [0, 1], [2], [0, 1], [3]]) == [0, 3]


def test_s3fifo_by_hand() -> None:
    ones = [1] * 100
    cache = S3FIFO(10, ones)  # one slot is the small queue's share
    for now, block in enumerate([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]):
        cache.admit([block], now)
    cache.admit([0], 10)
    cache.admit([0], 11)  # hit twice: the main queue's when its turn comes
    cache.admit([1], 12)  # hit once: not enough
    assert cache.admit([20], 13) == [(1, 1)]
    assert cache.admit([21], 14) == [(2, 2)]
    assert cache.admit([1], 15) == [(3, 3)]  # 1 is remembered: it enters the main queue
    for now, block in enumerate(range(30, 38)):
        cache.admit([block], 20 + now)  # pass through the small queue and push out what was there
    assert {0, 1} <= cache.held.keys()
    assert 20 not in cache.held
    assert len(cache.held) == 10


def test_s3fifo_keeps_what_is_continued() -> None:
    cache = S3FIFO(4, [1] * 10)
    cache.admit([0], 0)
    cache.admit([0, 1], 1)
    cache.admit([2, 3], 2)
    assert cache.admit([4], 3) == [(1, 1)]  # 0 is older, but 1 needs it
    assert cache.admit([5], 4) == [(0, 0)]  # which has waited for it
    assert cache.admit([6], 5) == [(3, 2)]  # the tail is before its head
    assert sorted(cache.held) == [2, 4, 5, 6]


def test_tokens_that_a_block_takes() -> None:
    rows = [row(1, [1, 2], 5), row(2, [3, 4], 5), row(3, [1, 2], 5)]
    charged = Rules(charge="tokens")
    assert simulate(rows, B, slots=3, rules=charged).hit_tokens == 5  # 4 + 1 + 4 + 1 are 10 of 12
    assert simulate(rows, B, slots=3).hit_tokens == 4  # four blocks are one too many
    assert simulate(rows, B, slots=2, rules=charged).hit_tokens == 0
    assert simulate([row(1, [1, 2], 5), row(2, [1, 2], 5)], B, slots=1, rules=charged).hit_tokens == 4


@pytest.mark.parametrize("policy", ["fifo", "lfu", "s3fifo", "optimum"])
def test_only_lru_has_heads_that_age_first(policy: str) -> None:
    with pytest.raises(TraceError, match=f"policy='{policy}' has no ages='head_first': only 'lru'"):
        simulate([row(1, [1])], B, policy, slots=1, rules=Rules(ages="head_first"))
    with pytest.raises(TraceError, match="has no ages"):
        simulate([row(1, [1])], B, policy, slots=None, rules=Rules(ages="head_first"))
