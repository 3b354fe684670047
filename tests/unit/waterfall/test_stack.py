"""An LRU stack says for every capacity what the simulated cache of that capacity holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.model import Lookup
from pytest_kvcache.simulate.blocks import block_keys
from pytest_kvcache.simulate.policies import PrefixCache
from pytest_kvcache.waterfall.stack import LruStack
from pytest_kvcache.waterfall.visits import Run, trace

from .fleet import Fleet

PROMPTS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12), min_size=1, max_size=12)


@given(PROMPTS, st.integers(1, 3))
def test_a_stack_holds_what_caches_of_every_size_hold(prompts: list[list[int]], block: int) -> None:
    visits = trace(Fleet().measured(), [], warmed=[Lookup(ids) for ids in prompts])
    assert [visit.lookup.ids for visit in visits] == prompts
    stack = LruStack(block, sum(len(visit.prompt) for visit in visits))
    caches = [PrefixCache(capacity) for capacity in range(1, 40)]
    before: list[list[int]] = []
    for visit in visits:
        keys = block_keys(visit.lookup.ids, block)
        matched = [cache.match(keys) for cache in caches]
        assert [stack.held(visit.prompt, cache.capacity or 0) for cache in caches] == matched
        for blocks in range(1, matched[-1] + 1):
            assert stack.needed(visit.prompt, blocks) == 1 + next(n for n, held in enumerate(matched) if held >= blocks)
        assert stack.needed(visit.prompt, 0) == 0
        stack.use(visit.prompt)
        for cache in caches:
            cache.insert(keys)
        before.append(keys)
        assert stack.total == len({key for keys in before for key in keys})


def test_a_block_belongs_to_the_run_it_ends_in() -> None:
    stack = LruStack(4, 10)
    head, left, right = Run("head", 0, 6), Run("left", 6, 9), Run("right", 6, 9)
    stack.use([head, left])
    stack.use([head, right])
    assert stack.total == 1 + 1 + 1  # the second block once for each continuation
    assert "left" in stack
    assert "other" not in stack
    assert stack.held([head, left], 2) == 1
    assert stack.held([head, left], 3) == 2
    assert stack.held([head, Run("other", 6, 9)], 9) == 1
    assert stack.needed([head, left], 2) == 3
