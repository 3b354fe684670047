"""A cache of a known size: to the token what a simulated engine of that size does, and a few cases by hand."""

from __future__ import annotations

import asyncio
import random
from array import array
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.model import Grain, Lookup
from pytest_kvcache.simulate.bounded import BoundedCache, predict_bounded
from pytest_kvcache.simulate.engine import Engine, EngineConfig, Generation
from pytest_kvcache.simulate.replay import predict

FAST = {"prefill_rate": 1e12, "decode_time": 0.0}
WORDS = [900_001, 900_002, 900_003]  # tokens that no prompt here begins with


class Asked(Generation):
    """A generation and what it looked up, for both sides."""

    def lookup_of(self, *, told: bool) -> Lookup:
        return Lookup(
            array("I", self.ids),
            output=self.output if told else (),
            untold=0 if told else len(self.output),
            space=self.salt,
        )


def served(config: EngineConfig, asked: Sequence[Asked]) -> list[int]:
    """Let an engine answer requests one after the other and return the hit tokens of each."""
    engine = Engine(config, WORDS)

    async def run() -> None:
        for sequence in asked:
            async for _ in engine.generate(sequence):
                pass

    asyncio.run(run())
    assert engine.counts.hits == sum(sequence.hit for sequence in asked)
    return [sequence.hit for sequence in asked]


def traffic(seed: int, block: int) -> list[Asked]:
    """Prompts over a few long heads, with ends of their own, some of them repeated, in three spaces."""
    source = random.Random(seed)
    heads = [[source.randrange(50_000) for _ in range(source.randrange(block, 9 * block))] for _ in range(6)]
    asked: list[Asked] = []
    for _ in range(120):
        head = source.choice(heads)
        end = [source.randrange(50_000) for _ in range(source.randrange(1, 4 * block))]
        ids = head[: source.randrange(len(head) // 2, len(head) + 1)] + end
        salt = source.choice([None, None, None, "a", "b"])
        if asked and source.random() < 0.2:
            before = source.choice(asked)
            ids, salt = list(before.ids), before.salt
        asked.append(Asked(ids, source.randrange(1, 3 * block), salt))
    return asked


@pytest.mark.parametrize("block", [16, 64])
@pytest.mark.parametrize("blocks", [3, 17, 40, 90, 5000])
@pytest.mark.parametrize("told", [True, False], ids=["told", "untold"])
def test_it_is_the_engine_to_the_token(block: int, blocks: int, told: bool) -> None:
    for seed in range(3):
        asked = traffic(seed, block)
        hits = served(EngineConfig(block_size=block, capacity=blocks, **FAST), asked)
        lookups = [sequence.lookup_of(told=told) for sequence in asked]
        found = predict_bounded(lookups, Grain(block), blocks * block + block - 1)
        assert list(found.per_request) == hits
        assert (found.hit_tokens, found.query_tokens) == (sum(hits), sum(len(sequence.ids) for sequence in asked))
        assert (found.block_size, found.capacity) == (block, blocks * block + block - 1)
        if blocks < 100:
            assert found.hit_tokens < predict(lookups, Grain(block), exact=True).hit_tokens


REQUESTS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1), min_size=1, max_size=14),
        st.integers(1, 6),
        st.sampled_from([None, "a"]),
        st.booleans(),  # continue the answer before
    ),
    min_size=1,
    max_size=14,
)


@given(REQUESTS, st.integers(1, 4), st.integers(1, 12), st.sampled_from([0, 3]))
@settings(max_examples=300)
def test_it_is_the_engine_however_small(
    requests: list[tuple[list[int], int, str | None, bool]], block: int, blocks: int, minimum: int
) -> None:
    engine = Engine(EngineConfig(block_size=block, capacity=blocks, minimum=minimum, **FAST), [0, 1, 1])
    grain, lookups, hits = Grain(block, minimum), [], []

    async def run() -> None:
        before: list[int] = []
        for ids, max_tokens, salt, continues in requests:
            sequence = Asked(before + ids if continues else ids, max_tokens, salt)
            async for _ in engine.generate(sequence):
                pass
            before = [*sequence.ids, *sequence.output]
            lookups.append(sequence.lookup_of(told=True))
            hits.append(sequence.hit)

    asyncio.run(run())
    found = predict_bounded(lookups, grain, blocks * block)
    assert list(found.per_request) == hits
    cache = BoundedCache(grain, blocks)  # also where everything would fit, so that nothing need be replayed by blocks
    assert [cache.look_up(lookup).tokens for lookup in lookups] == hits


# --- by hand, in blocks of 4 ------------------------------------------------------------------------------------------

GRAIN = Grain(4)
A, B, C = ([letter * 100 + at for at in range(12)] for letter in (1, 2, 3))  # three blocks each


def hits(prompts: Sequence[Sequence[int] | Lookup], capacity: int | None) -> list[int]:
    lookups = [prompt if isinstance(prompt, Lookup) else Lookup(prompt) for prompt in prompts]
    return list(predict_bounded(lookups, GRAIN, capacity).per_request)


def test_the_end_of_the_oldest_goes_first() -> None:
    # three blocks each; the last token of a prompt is computed anew, so its third block cannot hit
    assert hits([A, B, A], 24) == [0, 0, 8]
    assert hits([A, B, A], 23) == [0, 0, 8]  # five blocks: A's last is gone
    assert hits([A, B, A], 16) == [0, 0, 4]
    assert hits([A, B, A], 12) == [0, 0, 0]


def test_what_is_used_again_is_young_again() -> None:
    assert hits([A, B, A, C, A, B], 36) == [0, 0, 8, 0, 8, 8]
    assert hits([A, B, A, C, A, B], 24) == [0, 0, 8, 0, 8, 0]
    assert hits([A, B, C, A], 24) == [0, 0, 0, 0]


def test_unlimited_is_the_prediction() -> None:
    lookups = [Lookup(ids) for ids in (A, B, A, [*A[:6], 9, 9], C)]
    assert predict_bounded(lookups, GRAIN, None) == predict(lookups, GRAIN, exact=True)
    assert predict_bounded(lookups, GRAIN, 10_000) == replace(predict(lookups, GRAIN, exact=True), capacity=10_000)


def test_a_cache_without_a_block_keeps_nothing() -> None:
    assert hits([A, A], 3) == [0, 0]
    assert hits([A, A], 0) == [0, 0]


def test_a_prompt_larger_than_the_cache_keeps_its_head() -> None:
    assert hits([A, A], 8) == [0, 8]
    assert hits([A + B, A + B], 8) == [0, 8]


@pytest.mark.parametrize("told", [True, False])
def test_answers_take_room_but_for_their_last_token(told: bool) -> None:
    def answered(tokens: int) -> Lookup:
        return Lookup(B, output=range(500, 500 + tokens)) if told else Lookup(B, untold=tokens)

    assert hits([A, answered(4), A], 24) == [0, 0, 8]  # 15 tokens with KV fill three blocks
    assert hits([A, answered(5), A], 20) == [0, 0, 4]  # 16 fill four
    assert hits([A, answered(4), A], 20) == [0, 0, 8]
    assert hits([A, answered(9), A], 20) == [0, 0, 0]
    assert hits([[*A, 1], answered(4), [*A, 1]], 24) == [0, 0, 12]
    assert hits([[*A, 1], answered(5), [*A, 1]], 24) == [0, 0, 8]  # the prompts alone would fit


def test_an_answer_that_nobody_told_fills_its_blocks_once() -> None:
    once = Lookup(B, untold=5)
    assert hits([A, once, once, A], 28) == [0, 0, 8, 8]
    other = Lookup([*B[:-1], 7], untold=5)  # another prompt, another answer
    assert hits([A, once, other, A], 28) == [0, 0, 8, 4]
    assert hits([A, once, replace(once, space="b"), A], 28) == [0, 0, 0, 0]


def test_an_answer_that_nobody_told_may_hit_in_the_next_turn() -> None:
    first = Lookup(A, untold=5, session=1)
    turn = Lookup([*A, 1, 2, 3, 4, 5, 6, 7, 8], session=1)
    for capacity in (None, 10_000, 40):
        found = predict_bounded([first, Lookup(B), turn], GRAIN, capacity)
        assert (found.per_request, found.room, found.slack) == ((0, 0, 12), (0, 0, 4), 4)
    found = predict_bounded([first, Lookup(B), turn], GRAIN, 16)
    assert (found.per_request, found.room) == ((0, 0, 4), (0, 0, 12))


def test_what_may_stand_first_may_hit_as_well() -> None:
    lookups = [Lookup(A), Lookup(C), Lookup([*A[:4], *range(77, 89)], open=5)]
    for capacity in (None, 10_000):
        found = predict_bounded(lookups, GRAIN, capacity)
        assert (found.per_request, found.room) == ((0, 0, 4), (0, 0, 4))  # 4 and 5 more: two blocks
    # where in a block the beginning parts from what is evicted meanwhile is not known: 4 to 7 and 5 more
    assert predict_bounded(lookups, GRAIN, 20).room == (0, 0, 8)


def test_blocks_that_are_shared_in_part_are_others() -> None:
    lookups = [Lookup([*A, 1]), Lookup([*A[:6], 7, 8, 9]), Lookup([*A, 1])]
    assert predict_bounded(lookups, GRAIN, 16).per_request == (0, 4, 12)
    assert predict_bounded(lookups, GRAIN, 12).per_request == (0, 4, 8)


def test_what_was_warmed_and_prefilled_is_in_it_and_not_counted() -> None:
    warmed, prefill, load = [Lookup(A)], [Lookup(B), Lookup(B)], [Lookup(A), Lookup(B)]
    found = predict_bounded(load, GRAIN, 24, prefill=prefill, warmed=warmed, exact=False)
    assert (found.per_request, found.query_tokens, found.prefill_hit_tokens) == ((8, 8), 24, 8)
    assert found.exact is False
    found = predict_bounded(load, GRAIN, 16, prefill=prefill, warmed=warmed)
    assert (found.per_request, found.prefill_hit_tokens, found.exact) == ((4, 4), 8, True)


def test_whole_prompts_hit_where_the_cache_gives_them() -> None:
    lookups = [Lookup(A), Lookup(B), Lookup(A)]
    assert predict_bounded(lookups, Grain(4, whole=True), 20).per_request == (0, 0, 8)
    assert predict_bounded(lookups, Grain(4, whole=True), 24).per_request == (0, 0, 12)
    assert predict_bounded([*lookups, Lookup(C)], Grain(4, whole=True), 24).per_request == (0, 0, 12, 0)


def test_equal_tokens_in_different_spaces_are_different_blocks() -> None:
    assert hits([Lookup(A), Lookup(A, space=("s", 1)), Lookup(A, space=("s", 1))], 24) == [0, 0, 8]
    assert hits([Lookup(A), Lookup(A, space=("s", 1)), Lookup(A)], 16) == [0, 0, 4]
