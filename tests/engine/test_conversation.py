"""Conversations with the simulated engine, to the token: by prediction, by counters, and by a cache written here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from pytest_kvcache import Endpoint, Measurement, Plan, WorkloadBuilder
from pytest_kvcache import run as run_workload
from pytest_kvcache.experiment import bench
from pytest_kvcache.live import Live
from pytest_kvcache.model import Grain
from pytest_kvcache.pace import Pace
from pytest_kvcache.result import Result
from pytest_kvcache.simulate.turns_forecast import predict_by_usage
from pytest_kvcache.turns import Turns
from pytest_kvcache.workloads import builtin
from pytest_kvcache.workloads.conversation import Conversation
from pytest_kvcache.workloads.lasting import Lasting

from .wire import Wire

Start = Callable[..., str]
BLOCKS = (16, 64, 256)
SYSTEM = "You are careful. " * 20
TOOLS = [
    {"type": "function", "function": {"name": "look", "parameters": {"properties": {"where": {"type": "string"}}}}},
    {"type": "function", "function": {"name": "walk", "parameters": {"properties": {"how": {"type": "string"}}}}},
]
WALK = {"tool_choice": {"type": "function", "function": {"name": "walk"}}}


@pytest.fixture(scope="module")
def engines(start_module_sim: Start) -> dict[int, str]:
    return {block: start_module_sim(f"--block-size={block}") for block in BLOCKS}


@pytest.fixture(scope="module")
def fleets(start_module_sim: Start) -> dict[str, str]:
    return {routing: start_module_sim("--engines=2", f"--routing={routing}") for routing in ("prefix", "round-robin")}


def talk(url: str, workload: Conversation, nonce: str, concurrency: int = 1, **more: Any) -> Measurement:
    engine = more.pop("engine", None)
    plan = Plan(nonce, Pace(concurrency), **more)
    return asyncio.run(run_workload(Endpoint(url, engine=engine), workload, plan))


def of(**given: Any) -> Conversation:
    return WorkloadBuilder().conversation(**{"turns": 4, "sessions": 3, "max_tokens": 24, **given})


class Enough:
    """Ends a load after so many requests."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def steer(self, live: Live) -> None:
        while len(live.ledger) < self.count:  # noqa: ASYNC110 - to look
            await asyncio.sleep(0)
        live.gate.close()

    def completed(self, live: Live, measured: Measurement) -> Measurement:
        return measured


def by_hand(m: Measurement, block: int) -> list[int]:
    """Cached tokens of requests sent one after another: whole blocks of what anything before began with."""
    seen: set[tuple[int, ...]] = set()
    found = []
    for exchange in m.exchanges:
        prompt, output = list(exchange.prompt_ids or ()), list(exchange.output_ids or ())
        assert prompt
        assert output
        starts = [tuple(prompt[:end]) for end in range(block, len(prompt), block)]
        found.append(max((len(start) for start in starts if start in seen), default=0))
        computed = [*prompt, *output[:-1]]
        seen.update(tuple(computed[:end]) for end in range(block, len(computed) + 1, block))
    return found


def cached(m: Measurement) -> list[int | None]:
    return [exchange.cached_tokens for exchange in m.exchanges]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("calls", [{}, WALK], ids=["words", "calls"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_every_turn_reuses_what_is_predicted(engines: dict[int, str], block: int, calls: Any, stream: bool) -> None:
    workload = of(system=SYSTEM, tools=TOOLS, body=calls)
    name = f"{block}/{bool(calls)}/{stream}"
    alone = talk(engines[block], workload, f"{name}/alone", stream=stream)
    together = talk(engines[block], workload, f"{name}/together", concurrency=8, stream=stream)
    assert cached(alone) == by_hand(alone, block)
    assert alone.prediction is not None
    assert list(alone.prediction.per_request) == cached(alone)
    assert alone.prediction.exact
    for m in (alone, together):
        assert Turns.of(m).as_predicted()
        assert Turns.of(m).cached_tokens_never_drop()
        assert len(m.exchanges) == 12
        assert m.counters is not None
        assert m.counters.hit == sum(tokens or 0 for tokens in cached(m))
        assert Result(m).verdict.status == "pass"
    assert Turns.of(alone).same_as(Turns.of(together))
    assert Turns.of(alone).never_zero()
    if block == 16:
        assert Turns.of(alone).grows()


def text(ids: Sequence[int] | None) -> str:
    return str(builtin.load().decode(list(ids or ())))


def test_the_prompt_is_the_history_as_an_agent_has_it(engines: dict[int, str]) -> None:
    m = talk(engines[16], of(system="be brief", user=["go", "on"], turns=3, sessions=1), "history")
    first, second, _ = m.exchanges
    assert text(m.exchanges[2].prompt_ids) == (
        "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\ngo<|im_end|>\n"
        f"<|im_start|>assistant\n{first.text}<|im_end|>\n<|im_start|>user\non<|im_end|>\n"
        f"<|im_start|>assistant\n{second.text}<|im_end|>\n<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\n"
    )
    assert text(first.output_ids) == first.text


def test_what_a_call_became_in_the_history_is_not_what_was_generated(engines: dict[int, str]) -> None:
    workload = of(user="go", tools=TOOLS, tool_result="found it", turns=2, sessions=1, body=WALK)
    first, second = talk(engines[16], workload, "calls").exchanges
    (call,) = first.tool_calls
    assert (first.text, first.finish_reason) == ("", "tool_calls")
    assert json.loads(call["function"]["arguments"]) == {"how": text(first.output_ids)}
    assert text(second.prompt_ids).endswith(
        f"<|im_start|>assistant\n{json.dumps([call])}<|im_end|>\n<|im_start|>tool\nfound it<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    before = first.prompt_tokens or 0
    assert second.cached_tokens == before // 16 * 16  # nothing of the answer, although its KV is there


def test_a_thousand_conversations(engines: dict[int, str]) -> None:
    m = talk(engines[16], of(turns=2, sessions=1000, max_tokens=3), "many", concurrency=16, stream=False)
    assert len(m.exchanges) == 2000
    assert Turns.of(m).as_predicted()
    assert m.prediction is not None
    assert m.counters is not None
    assert m.counters.hit == m.prediction.hit_tokens > 0


# --- runs apart ------------------------------------------------------------------------------------------------------


def test_a_run_finds_nothing_of_an_earlier_one_unless_it_is_to(engines: dict[int, str]) -> None:
    def firsts(workload: Conversation, nonce: str) -> int | None:
        return talk(engines[16], workload, nonce).exchanges[0].cached_tokens

    fresh, seeded = of(system=SYSTEM, sessions=1), of(system=SYSTEM, sessions=1, seed=3)
    stale = of(system=SYSTEM, sessions=1, fresh=False, user="only here")
    assert [firsts(fresh, "one"), firsts(fresh, "two")] == [0, 0]
    assert firsts(seeded, "three") == 0
    assert firsts(seeded, "four")
    assert firsts(stale, "five") == 0
    assert firsts(stale, "six")
    assert talk(engines[16], stale, "seven").prediction is None


def test_conversations_that_go_on_are_predicted_apart(engines: dict[int, str]) -> None:
    async def measured() -> Measurement:
        async with bench(Endpoint(engines[16]), of(system=SYSTEM), Plan("go on", Pace(1))) as made:
            return await made.measure(Lasting(made.composed), Pace(1), Enough(30))

    m = asyncio.run(measured())
    assert len(m.exchanges) >= 30  # two and a half times the workload, each time with a salt of its own
    assert m.prediction is not None
    assert list(m.prediction.per_request) == cached(m)
    assert [e.cached_tokens == 0 for e in m.exchanges[:25]] == [at % 12 == 0 for at in range(25)]
    assert not m.findings


def test_where_no_salt_is_known_a_line_keeps_runs_apart(engines: dict[int, str]) -> None:
    workload = of(system=SYSTEM, tools=TOOLS, sessions=2)
    runs = [talk(engines[64], workload, nonce, engine="usage") for nonce in ("before", "a", "b")]
    for m in runs:
        assert (cached(m)[0] or 0) <= 64  # the template
        assert (cached(m)[4] or 0) > 256  # the second session's first turn: the system prompt
    assert Turns.of(runs[1]).same_as(Turns.of(runs[2]))  # the lines are as long as each other


# --- nothing but usage -----------------------------------------------------------------------------------------------


def test_a_provider_that_tells_nothing_but_usage(engines: dict[int, str]) -> None:
    workload = of(system=SYSTEM, sessions=4, tools=TOOLS, body=WALK)
    with planted(engines[64], metrics_status=404):
        m = talk(engines[64], workload, "usage", 4, engine="usage", counters=False)
    assert m.counters is None
    assert all(exchange.prompt_ids is None for exchange in m.exchanges)
    known = predict_by_usage(m.exchanges, Grain(64), exact=True)
    assert known is not None
    turns = Turns.of(replace(m, prediction=known))
    assert turns.as_predicted()
    assert known.slack > 0
    bound = m.prediction
    assert bound is not None
    assert not bound.exact
    assert all(
        hit <= low + more for hit, low, more in zip(known.per_request, bound.per_request, bound.room, strict=True)
    )
    assert turns.skip(1).hit_rate == sum(row.cached or 0 for row in turns if row.turn) / sum(
        row.prompt or 0 for row in turns if row.turn
    )


# --- what goes wrong -------------------------------------------------------------------------------------------------


@contextmanager
def planted(url: str, **faults: Any) -> Iterator[None]:
    Wire(url).put("/faults", faults)
    try:
        yield
    finally:
        Wire(url).put("/faults", {})


@pytest.mark.parametrize("routing", ["prefix", "round-robin"])
def test_engines_in_turn_have_no_conversation_and_a_router_by_prefix_has(fleets: dict[str, str], routing: str) -> None:
    turns = Turns.of(talk(fleets[routing], of(sessions=1, turns=5), "routed"))
    assert turns.cached_tokens_never_drop()  # in turn, each engine has the prompt of two turns before
    assert bool(turns.never_zero()) is bool(turns.as_predicted()) is (routing == "prefix")
    if routing != "prefix":
        row = turns.rows[1]
        assert str(turns.never_zero()) == f"session 0, turn 1: no cached tokens of {row.prompt}"
        wanted = f"session 0, turn 1: 0 cached tokens, predicted were {row.predicted}"
        assert str(turns.as_predicted()) == wanted


def test_an_engine_that_forgets_inside_a_conversation(engines: dict[int, str]) -> None:
    with planted(engines[16], restart_after=3):
        m = talk(engines[16], of(sessions=1, turns=5), "forgets")
    before = m.exchanges[2].cached_tokens
    assert str(Turns.of(m).cached_tokens_never_drop()) == f"session 0, turn 3: cached tokens fell from {before} to 0"
    assert not Turns.of(m).as_predicted()


def test_a_failed_turn_ends_its_conversation(engines: dict[int, str]) -> None:
    with planted(engines[16], cut_stream=2, every=6):
        m = talk(engines[16], of(sessions=2, turns=4), "broken")
    assert [(e.session, e.turn, e.ok) for e in m.exchanges] == [
        *((0, turn, True) for turn in range(4)),
        (1, 0, True),
        (1, 1, False),
    ]
    turns = Turns.of(m)
    assert turns.missing == 2
    for check in (turns.cached_tokens_never_drop(), turns.as_predicted(), turns.same_as(turns)):
        assert str(check) == "session 1, turn 1: the request failed, and its conversation ended there"


def test_another_run_that_reuses_less_is_not_the_same(fleets: dict[str, str]) -> None:
    sticky, spread = (Turns.of(talk(url, of(sessions=1), "same")) for url in fleets.values())
    assert sticky.same_as(sticky)
    there = sticky.rows[1].cached
    assert str(sticky.same_as(spread)) == f"session 0, turn 1: {there} cached tokens, and 0 in the other run"
