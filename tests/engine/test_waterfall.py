"""Losses planted in a running server, over HTTP: the waterfall finds each of them, to the token, alone and together.

Blocks have 16 tokens. Engines take requests in turn, a prefill first; nothing else generates before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import pytest

from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.experiment import Plan, run
from pytest_kvcache.model import Composed, Measurement, Phase, Prompt, Request, Session, Waterfall
from pytest_kvcache.pace import Pace
from pytest_kvcache.protocols import Site, Workload
from pytest_kvcache.workloads.shapes import SharedPrefix

Start = Callable[..., str]
_FRESH = count(1)


def fresh(tokens: int) -> list[int]:
    """Tokens that nobody else has; the engine does not look into a vocabulary for ids."""
    return [next(_FRESH) for _ in range(tokens)]


@dataclass(frozen=True)
class Listed:
    """Prompts as they are listed: some warm the cache, then each list is sent in its order, all lists at once."""

    warm: Sequence[Sequence[int]]
    lists: Sequence[Sequence[Sequence[int]]]
    title: str = "listed prompts"
    notes: Sequence[str] = ()
    prefix_len: int = 0
    warms: str | None = None
    append_only: bool = False
    fresh: bool = True
    output_len: int = field(default=1)

    async def bind(self, site: Site) -> Composed:
        return self

    def warmed(self) -> Iterator[Request]:
        return iter(())

    def prefill(self) -> Iterator[Request]:
        return (self._request(ids, "prefill") for ids in self.warm)

    def load(self) -> Iterator[Request]:
        return (self._request(ids, "load") for prompts in self.lists for ids in prompts)

    def sessions(self) -> Iterator[Session]:
        return (self._session(prompts) for prompts in self.lists)

    def __len__(self) -> int:
        return sum(map(len, self.lists))

    def _request(self, ids: Sequence[int], phase: Phase) -> Request:
        return Request(Prompt(list(ids)), self.output_len, phase)

    def _session(self, prompts: Sequence[Sequence[int]]) -> Session:
        for ids in prompts:
            yield self._request(ids, "load")


def measure(url: str, workload: Workload, concurrency: int = 1) -> Measurement:
    plan = Plan(nonce="waterfall", pace=Pace(concurrency))
    return asyncio.run(run(Endpoint(url), workload, plan))


def told(measured: Measurement) -> Waterfall:
    found = measured.waterfall
    assert found is not None
    assert found.ceiling - sum(loss.tokens for loss in found.losses) == found.measured
    return found


def amounts(waterfall: Waterfall) -> dict[str, int]:
    return {loss.cause: loss.tokens for loss in waterfall.losses}


def evidence(waterfall: Waterfall, cause: str) -> str:
    (loss,) = (loss for loss in waterfall.losses if loss.cause == cause)
    return loss.evidence


def test_cold(sim: str) -> None:
    shape = SharedPrefix(requests=6, input_len=128, prefix_len=64, prefixes=2, output_len=1, prefill=False)
    waterfall = told(measure(sim, shape))
    assert (waterfall.ceiling, waterfall.measured) == (6 * 64, 4 * 64)
    assert amounts(waterfall) == {"cold": 2 * 64}


def test_rounding(sim: str) -> None:
    shape = SharedPrefix(requests=5, input_len=100, hit_rate=0.7, output_len=1, align=None)
    waterfall = told(measure(sim, shape))
    assert (waterfall.ceiling, waterfall.measured) == (5 * 70, 5 * 64)
    assert amounts(waterfall) == {"rounding": 5 * 6}


@pytest.mark.parametrize("output_len", [1, 20])
def test_eviction(start_sim: Start, output_len: int) -> None:
    heads = [fresh(48) for _ in range(3)]
    listed = Listed(
        [[*head, *fresh(16)] for head in heads],
        [[[*head, *fresh(16)] for head in heads * 2]],
        output_len=output_len,
    )
    # in use between two uses of a prefix: its own 3 blocks and two requests of 4, or of 5 with 20 generated tokens
    needed = 3 + 2 * (4 if output_len == 1 else 5)
    measured = measure(start_sim(f"--capacity-blocks={needed - 1}"), listed)
    waterfall = told(measured)
    assert (waterfall.ceiling, amounts(waterfall)) == (6 * 48, {"eviction": 6 * 16})
    kept = f"a cache of {needed * 16} tokens would have kept it, this one has {(needed - 1) * 16}"
    assert kept in evidence(waterfall, "eviction")
    again = measure(start_sim(f"--capacity-blocks={needed}"), listed)
    assert not told(again).losses


@pytest.mark.parametrize("details", [True, False], ids=["each", "totals"])
def test_routing_over_two_engines(start_sim: Start, details: bool) -> None:
    head, other = fresh(48), fresh(32)
    prompts = [[*ids, *fresh(40)] for ids in (head, head, other, other, head, other)]
    listed = Listed([[*head, *fresh(16)]], [prompts])
    # engine 1: head (again), other (first), head; engine 0: head, other (again), other
    url = start_sim("--engines=2", *([] if details else ["--no-prompt-tokens-details"]))
    waterfall = told(measure(url, listed))
    assert (waterfall.ceiling, waterfall.measured) == (3 * 48 + 3 * 32, 48 + 48 + 32)
    assert amounts(waterfall) == {"cold": 32, "routing": 48 + 32}
    assert ("by a replay" in evidence(waterfall, "routing")) is not details


def test_routing_by_prefix_loses_nothing(start_sim: Start) -> None:
    head, other = fresh(48), fresh(32)
    listed = Listed([[*head, *fresh(16)]], [[[*ids, *fresh(40)] for ids in (head, head, other, other, head, other)]])
    assert amounts(told(measure(start_sim("--engines=2", "--routing=prefix"), listed))) == {"cold": 32}


def test_duplicates_in_flight(start_sim: Start) -> None:
    prompt = fresh(97)
    listed = Listed([], [[prompt], [prompt, prompt], [prompt, prompt]])
    # three at once, of which two find nothing; then two more that find it all
    measured = measure(start_sim("--fault=readable_after=1e-9", "--prefill-rate=1000"), listed, concurrency=3)
    waterfall = told(measured)
    assert (waterfall.ceiling, waterfall.measured) == (5 * 96, 2 * 96)
    assert amounts(waterfall) == {"cold": 96, "duplicates": 2 * 96}


def test_duplicates_that_join_the_one_in_flight(start_sim: Start) -> None:
    prompt = fresh(97)
    listed = Listed([], [[prompt], [prompt, prompt], [prompt, prompt]])
    assert amounts(told(measure(start_sim("--prefill-rate=1000"), listed, concurrency=3))) == {"cold": 96}


def test_restart(start_sim: Start) -> None:
    heads = [fresh(48) for _ in range(3)]
    listed = Listed([[*head, *fresh(16)] for head in heads], [[[*head, *fresh(16)] for head in heads * 4]])
    measured = measure(start_sim("--fault=restart_after=9"), listed)
    assert "KV102" in [finding.code for finding in measured.findings]
    waterfall = told(measured)
    assert amounts(waterfall) == {"reset": 3 * 48}
    assert "3 requests missed 3 prefixes cached before" in evidence(waterfall, "reset")


def test_all_together(start_sim: Start) -> None:
    """Two engines in turn with room for 24 blocks each; what is not answered cannot be found."""
    warm, cold, thrice = fresh(53), fresh(53), fresh(80)
    first = [
        thrice,  # cold 79
        [*cold, *fresh(27)],  # engine 0: cold 53
        [*warm, *fresh(27)],  # engine 1: routing 48, rounding 5
        [*warm, *fresh(27)],  # engine 0: found 48, rounding 5
        [*cold, *fresh(27)],  # engine 1: routing 48, rounding 5
        fresh(16),  # engine 0, for the turn
        [*cold, *fresh(27)],  # engine 1: found 48, rounding 5
        *(fresh(160) for _ in range(6)),  # ten blocks each, three times on each engine
        [*warm, *fresh(27)],  # engine 0: eviction 48, rounding 5
    ]
    listed = Listed([[*warm, *fresh(27)]], [first, [thrice], [thrice]])  # two more: duplicate 64, rounding 15 each
    arguments = "--engines=2", "--capacity-blocks=24", "--fault=readable_after=1e-9", "--prefill-rate=1000"
    waterfall = told(measure(start_sim(*arguments), listed, concurrency=3))
    assert amounts(waterfall) == {
        "cold": 79 + 53,
        "rounding": 2 * 15 + 5 * 5,
        "duplicates": 2 * 64,
        "routing": 2 * 48,
        "eviction": 48,
    }
    assert (waterfall.ceiling, waterfall.measured) == (3 * 79 + 6 * 53, 2 * 48)
    assert "engine 0 hit 48 of" in evidence(waterfall, "routing")
    # on engine 0 since it was found there: its own 3 blocks, one of another, and three requests of 10
    assert f"a cache of {34 * 16} tokens would have kept it, each of 2 engines has" in evidence(waterfall, "eviction")
    (evicted,) = (loss for loss in waterfall.losses if loss.cause == "eviction")
    assert evicted.advice.startswith(f"give each cache {34 * 16} tokens")
