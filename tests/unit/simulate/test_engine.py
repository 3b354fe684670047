"""The engine against an oracle that keeps every computed token list and compares from the front; no hashes, no HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.simulate.engine import Engine, EngineConfig, Generation

FAST = {"prefill_rate": 1e12, "decode_time": 0.0}


@dataclass
class Oracle:
    """What a real engine was recorded to do, in so many words."""

    block: int
    computed: list[tuple[str | None, list[int]]] = field(default_factory=list)
    queries: int = 0
    hits: int = 0

    def ask(self, ids: list[int], salt: str | None, lookup: bool) -> int:
        hit = 0
        if lookup:
            for other_salt, other in self.computed:
                reach = len(other) // self.block * self.block
                same = 0
                while same < min(reach, len(ids) - 1) and ids[same] == other[same]:
                    same += 1
                hit = max(hit, same // self.block * self.block) if other_salt == salt else hit
            self.queries += len(ids)
            self.hits += hit
        return hit

    def answered(self, ids: list[int], salt: str | None, output: list[int]) -> None:
        self.computed.append((salt, ids + output[:-1]))


REQUESTS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 2), min_size=1, max_size=12),
        st.integers(1, 6),
        st.sampled_from([None, "a", "b"]),
        st.booleans(),
        st.booleans(),  # continue the answer before
    ),
    min_size=1,
    max_size=10,
)


@given(REQUESTS, st.integers(1, 4))
@settings(max_examples=150)
def test_engine_equals_the_oracle(requests: list[tuple[list[int], int, str | None, bool, bool]], block: int) -> None:
    engine, oracle = Engine(EngineConfig(block_size=block, **FAST), [0, 1, 2, 2, 0]), Oracle(block)

    async def run() -> None:
        before: list[int] = []
        for ids, max_tokens, salt, lookup, continues in requests:
            prompt = before + ids if continues else ids
            sequence = Generation(prompt, max_tokens, salt, lookup)
            async for _ in engine.generate(sequence):
                pass
            assert sequence.hit == oracle.ask(prompt, salt, lookup)
            assert len(sequence.output) == max_tokens
            oracle.answered(prompt, salt, sequence.output)
            before = prompt + sequence.output

    asyncio.run(run())
    counts = engine.counts
    assert (counts.queries, counts.hits) == (oracle.queries, oracle.hits)
    assert counts.prompt == counts.prompt_len.sum
    assert counts.cached == counts.hits == counts.prompt - counts.computed.sum
    assert counts.generated == sum(request[1] for request in requests)
    assert counts.finished == {"length": len(requests)}
    assert (engine.running, engine.waiting, engine.kv_usage) == (0, 0, 0)


@given(REQUESTS, st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=100)
def test_device_and_store_together_equal_an_unlimited_cache(
    requests: list[tuple[list[int], int, str | None, bool, bool]], block: int, capacity: int
) -> None:
    config = EngineConfig(block_size=block, capacity=capacity, external_blocks=10_000, **FAST)
    engine, oracle = Engine(config, [0, 1, 2, 2, 0]), Oracle(block)

    async def run() -> int:
        before: list[int] = []
        asked = 0
        for ids, max_tokens, salt, lookup, continues in requests:
            prompt = before + ids if continues else ids
            sequence = Generation(prompt, max_tokens, salt, lookup)
            async for _ in engine.generate(sequence):
                pass
            assert sequence.cached == oracle.ask(prompt, salt, lookup)
            assert sequence.hit <= capacity * block
            asked += len(prompt) - sequence.hit
            oracle.answered(prompt, salt, sequence.output)
            before = prompt + sequence.output
        return asked

    asked = asyncio.run(run())
    counts = engine.counts
    assert counts.external_queries == asked
    assert counts.hits + counts.external_hits == oracle.hits == counts.cached + counts.transferred
    assert counts.prompt - counts.computed.sum == oracle.hits


def test_prefills_follow_one_another_and_what_is_cached_costs_nothing() -> None:
    async def run() -> list[float]:
        engine = Engine(EngineConfig(block_size=1, prefill_rate=10_000.0, decode_time=0.0), [1])
        cold, warm, short = (Generation(ids, 1) for ids in (range(1000), range(1000), [7]))

        async def exhaust(sequence: Generation) -> None:
            async for _ in engine.generate(sequence):
                pass

        await asyncio.gather(*map(exhaust, (cold, warm, short)))
        return [sequence.first - cold.admitted for sequence in (cold, warm, short)]

    # 1000 tokens, then the one that is never cached, then one: the clock of the model, not of this machine
    assert [round(moment, 6) for moment in asyncio.run(run())] == [0.1, 0.1001, 0.1002]


def test_tokens_that_are_due_together_come_together_and_lateness_does_not_add_up() -> None:
    async def run() -> tuple[int, float]:
        engine = Engine(EngineConfig(prefill_rate=1e12, decode_time=0.0001), [1])
        sequence = Generation([1, 2, 3], 200)
        steps = 0
        async for due in engine.generate(sequence):
            assert due
            steps += 1
        return steps, engine.counts.decode.sum

    steps, seconds = asyncio.run(run())
    assert steps <= 200
    assert seconds >= 199 * 0.0001


def test_a_generation_that_is_closed_frees_its_slot_and_blocks() -> None:
    async def run() -> Engine:
        engine = Engine(EngineConfig(block_size=1, slots=1, prefill_rate=1e12, decode_time=3600.0), [1])
        steps = engine.generate(Generation([1, 2, 3], 2))
        assert await anext(steps) == [1]
        assert (engine.running, engine.kv_usage > 0, engine.reset()) == (1, True, False)
        await steps.aclose()
        return engine

    engine = asyncio.run(run())
    assert (engine.running, engine.kv_usage, engine.reset()) == (0, 0.0, True)
    assert engine.counts.finished == {}


@given(st.integers(1, 4), st.integers(0, 9), st.integers(0, 12))
def test_a_prefix_below_the_minimum_is_not_credited(block: int, minimum: int, shared: int) -> None:
    engine = Engine(EngineConfig(block_size=block, minimum=minimum, external_blocks=100, **FAST), [0])

    async def run() -> tuple[int, int]:
        first, second = [1] * shared + [2] * 4, [1] * shared + [3] * 4
        for ids in (first, second):
            sequence = Generation(ids, 1)
            async for _ in engine.generate(sequence):
                pass
        return sequence.hit, sequence.external_hit

    whole = shared - shared % block
    assert asyncio.run(run()) == (whole if whole >= minimum else 0, 0)
