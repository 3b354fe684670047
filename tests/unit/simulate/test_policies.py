"""Whatever happens to a bounded cache, these hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.simulate.blocks import block_keys
from pytest_kvcache.simulate.policies import PrefixCache

STEPS = st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.booleans()), min_size=1, max_size=30)


@given(st.integers(1, 8), STEPS)
def test_blocks_in_use_stay_and_every_cached_block_can_be_reached(
    capacity: int, steps: list[tuple[list[int], bool]]
) -> None:
    cache = PrefixCache(capacity)
    known: dict[int, list[int]] = {}  # block key -> keys from the front up to it
    held: list[list[int]] = []
    for ids, runs in steps:
        keys = block_keys(ids, 1)
        known.update({key: keys[: depth + 1] for depth, key in enumerate(keys)})
        before = len(cache), cache.evictions
        cache.insert(keys)
        assert len(cache) <= capacity
        assert cache.evictions - before[1] >= before[0] - len(cache)
        if runs:
            held.append(keys[: cache.match(keys)])
            cache.pin(held[-1])
        elif held:
            cache.unpin(held.pop(0))
        assert all(key in cache for keys in held for key in keys)
        assert cache.in_use == len({key for keys in held for key in keys})
        for key, path in known.items():
            if key in cache:
                assert cache.match(path) == len(path)


def test_the_oldest_leaf_goes_first_and_a_hit_makes_young() -> None:
    cache = PrefixCache(4)
    first, second = block_keys([1, 2], 1), block_keys([3, 4], 1)
    cache.insert(first)
    cache.insert(second)
    cache.insert(first)
    cache.insert(block_keys([5], 1))
    assert (cache.match(first), cache.match(second)) == (2, 1)  # the tail of the older prompt, not its head


def test_a_shared_head_outlives_its_oldest_branch() -> None:
    cache = PrefixCache(3)
    one, two, three = (block_keys([9, tail], 1) for tail in (1, 2, 3))
    for keys in (one, two, three):
        cache.insert(keys)
    assert [cache.match(keys) for keys in (one, two, three)] == [1, 2, 2]
