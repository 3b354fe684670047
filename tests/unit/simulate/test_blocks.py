"""The block model against an oracle that compares token lists and knows no hashes."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.model import Grain, Prompt, Request
from pytest_kvcache.simulate.blocks import block_keys
from pytest_kvcache.simulate.policies import PrefixCache

from ..forecast import forecast

TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=30)


class Listed:
    """A workload of given prompts."""

    title, prefix_len = "listed", 0

    def __init__(self, warm: list[list[int]], prompts: list[list[int]]) -> None:
        self.warm, self.prompts = warm, prompts

    def prefill(self) -> Iterator[Request]:
        return (Request(Prompt(ids), 1, "prefill") for ids in self.warm)

    def load(self) -> Iterator[Request]:
        return (Request(Prompt(ids), 1, "load") for ids in self.prompts)

    def __len__(self) -> int:
        return len(self.prompts)


def oracle(earlier: list[list[int]], ids: list[int], block: int) -> int:
    """Longest run of leading blocks that some earlier prompt holds whole, without the last token of ``ids``."""
    best = 0
    for other in earlier:
        hit = 0
        while True:
            end = hit + block
            if end > len(ids) - 1 or end > len(other) or ids[hit:end] != other[hit:end]:
                break
            hit = end
        best = max(best, hit)
    return best


@given(st.lists(TOKENS, max_size=4), st.lists(TOKENS, min_size=1, max_size=8), st.integers(1, 5))
def test_prediction_equals_the_oracle(warm: list[list[int]], prompts: list[list[int]], block: int) -> None:
    seen, expected = list(warm), []
    for ids in prompts:
        expected.append(oracle(seen, ids, block))
        seen.append(ids)
    prediction = forecast(Listed(warm, prompts), block)
    assert prediction.per_request == tuple(expected)
    assert prediction.hit_tokens == sum(expected)
    assert prediction.query_tokens == sum(map(len, prompts))
    assert prediction.prefill_hit_tokens == sum(oracle(warm[:n], ids, block) for n, ids in enumerate(warm))


def test_keys_cover_everything_before_them() -> None:
    one, two = block_keys([1, 2, 3, 4], 2), block_keys([9, 2, 3, 4], 2)
    assert len(one) == len(two) == 2
    assert not set(one) & set(two)
    assert block_keys([1, 2, 3, 4, 5], 2) == one  # a partial block has no key
    assert not set(block_keys([1, 2, 3, 4], 2, "salt")) & set(one)


def test_reusable_tokens_by_hand() -> None:
    rows = [(128, 128, 128, 0), (128, 129, 128, 128), (1000, 1000, 128, 896), (650, 650, 128, 640), (0, 9, 1, 0)]
    assert [Grain(block).credit(p, length) for p, length, block, _ in rows] == [hit for *_, hit in rows]
    assert Grain(1).credit(7, 7) == 6


class SlowCache:
    """Least recently used leaf first out, written as the sentence says, over lists."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.paths = capacity, []  # type: ignore[var-annotated] # paths, least recently used first

    def match(self, path: tuple[int, ...]) -> int:
        return next((n for n in range(len(path), 0, -1) if path[:n] in self.paths), 0)

    def insert(self, path: tuple[int, ...]) -> None:
        fitted = 0
        for n in range(1, len(path) + 1):
            if path[:n] not in self.paths:
                if len(self.paths) >= self.capacity:
                    leaves = [p for p in self.paths if not any(q[:-1] == p for q in self.paths)]
                    victims = [p for p in leaves if p != path[: n - 1]]
                    if not victims:
                        break
                    self.paths.remove(victims[0])
                self.paths.append(path[:n])
            fitted = n
        for n in range(fitted, 0, -1):
            self.paths.remove(path[:n])
            self.paths.append(path[:n])


@given(st.integers(1, 6), st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), max_size=25))
def test_bounded_cache_equals_the_slow_one(capacity: int, prompts: list[list[int]]) -> None:
    fast, slow = PrefixCache(capacity), SlowCache(capacity)
    for ids in prompts:
        keys, path = block_keys(ids, 1), tuple(ids)
        assert fast.match(keys) == slow.match(path)
        fast.insert(keys)
        slow.insert(path)
        assert len(fast) == len(slow.paths) <= capacity


def test_pinned_blocks_stay_and_clear_waits_for_them() -> None:
    cache = PrefixCache(2)
    pinned, other = block_keys([1, 2], 1), block_keys([3, 4], 1)
    cache.insert(pinned)
    cache.pin(pinned)
    cache.insert(other)
    assert (cache.match(pinned), cache.match(other)) == (2, 0)
    assert not cache.clear()
    cache.unpin(pinned)
    cache.insert(other)
    assert (cache.match(other), cache.evictions) == (2, 2)
    assert cache.clear()
    assert len(cache) == 0
