"""Who gets a prompt."""

from __future__ import annotations

import asyncio

from pytest_kvcache.simulate.engine import EngineConfig, Generation
from pytest_kvcache.simulate.fleet import Fleet, Routing

CONFIG = EngineConfig(block_size=2, prefill_rate=1e12, decode_time=0.0)


def chosen(fleet: Fleet, *prompts: list[int], salt: str | None = None) -> list[int]:
    return [fleet.engines.index(fleet.route(ids, salt)) for ids in prompts]


def test_round_robin_does_not_look_at_the_prompt() -> None:
    assert chosen(Fleet(CONFIG, [1], 3), *[[1, 2, 3]] * 7) == [0, 1, 2, 0, 1, 2, 0]


def test_prefix_routing_follows_the_longest_part_that_was_sent() -> None:
    fleet = Fleet(CONFIG, [1], 3, "prefix")
    assert chosen(fleet, [1, 2, 9, 9], [5, 6, 7, 8], [1, 2, 3, 4]) == [0, 1, 0]
    assert chosen(fleet, [5, 6, 0, 0], [5, 6, 7, 8, 1]) == [1, 1]
    assert chosen(fleet, [1, 2], salt="other") == [2]  # a salt is another prompt
    assert chosen(fleet, [7], [7]) == [0, 1]  # less than a block shares nothing


def test_a_shared_store_is_cleared_with_the_engines() -> None:
    async def run(routing: Routing, shared: bool) -> list[int]:
        fleet = Fleet(EngineConfig(2, 100, 4, 1e12, 0.0, external_blocks=9), [1], 2, routing, shared_external=shared)
        found = []
        for clear in (False, False, True, False):
            if clear:
                assert fleet.reset(external=True)
            sequence = Generation([1, 2, 3, 4, 5], 1)
            async for _ in fleet.route(sequence.ids).generate(sequence):
                pass
            found.append(sequence.cached)
        return found

    assert asyncio.run(run("round-robin", True)) == [0, 4, 0, 4]
    assert asyncio.run(run("round-robin", False)) == [0, 0, 0, 0]
    assert asyncio.run(run("prefix", False)) == [0, 4, 0, 4]
