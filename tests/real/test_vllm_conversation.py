"""Conversations with a real vLLM: every turn reuses what is predicted, tool calls and a forgetful template included."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from pytest_kvcache import Endpoint, Runner, Settings, WorkloadBuilder
from pytest_kvcache.result import Result

from ..engine.wire import Wire
from .chats import FORCED, INSTRUCTIONS, TOOLS, UNTHINKING, Endless
from .server import VllmServer

BLOCK = 32


@pytest.fixture(scope="module")
def kv_settings(kv_settings: Settings, vllm_server: Callable[[int], VllmServer]) -> Settings:
    return dataclasses.replace(kv_settings, endpoint=vllm_server(BLOCK).url)


@pytest.fixture(scope="module")
def kv_endpoint(kv_settings: Settings) -> Endpoint:
    """Of this module: the plugin's own is made once a session, from whichever settings were asked for first."""
    return kv_settings.connect(kv_settings.endpoint or "")


def common(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many tokens two prompts have in common from their start."""
    for place, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return place
    return min(len(left), len(right))


def agree(result: Result) -> None:
    """Check that every turn reused what is predicted, what the tokens give by hand, and what the counters say."""
    oracle = Endless(BLOCK)
    exchanges = sorted(result.exchanges, key=lambda e: e.sent or 0.0)
    assert all(e.prompt_ids and e.output_ids for e in exchanges)
    assert [len(e.prompt_ids or ()) for e in exchanges] == [e.prompt_tokens for e in exchanges]
    by_hand = [oracle.hits(e.prompt_ids or (), e.output_ids or ()) for e in exchanges]
    assert [e.cached_tokens for e in exchanges] == by_hand
    check = result.turns.as_predicted()
    assert check, check
    prediction = result.measurement.prediction
    assert prediction is not None
    assert (prediction.exact, prediction.slack, prediction.hit_tokens) == (True, 0, sum(by_hand))
    assert (result.hit_tokens, result.query_tokens) == (sum(by_hand), sum(e.prompt_tokens or 0 for e in exchanges))


@pytest.mark.hit_rate(tol=0.0)
def test_ten_turns_with_tools(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    result = kv.run(kv_workload.conversation(INSTRUCTIONS, TOOLS, turns=10, max_tokens=12), concurrency=1)
    agree(result)
    assert len(result.turns) == 10
    assert result.turns.grows()
    waterfall = result.measurement.waterfall
    assert waterfall is not None
    assert waterfall.of("unexplained") == waterfall.of("surplus") == 0
    for before, now in pairwise(result.exchanges):
        written = [*(before.prompt_ids or ()), *(before.output_ids or ())][:-1]
        if common(written, now.prompt_ids or ()) == len(written):  # the answer's text has these tokens and no others
            assert now.cached_tokens == len(written) // BLOCK * BLOCK


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.hit_rate(tol=0.0)
def test_forced_calls_of_tools(kv: Runner, kv_workload: WorkloadBuilder, temperature: float) -> None:
    shape = kv_workload.conversation(
        INSTRUCTIONS, TOOLS, turns=5, max_tokens=80, temperature=temperature, tool_result="blue", body=FORCED
    )
    result = kv.run(shape, concurrency=1)
    agree(result)
    assert [[call["function"]["name"] for call in e.tool_calls] for e in result.exchanges] == [["look_up"]] * 5
    assert result.turns.grows()
    # The history has the call as the template writes it, not token by token as the model did.
    assert result.measurement.waterfall is not None
    assert result.measurement.waterfall.of("template") > 0


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.hit_rate(tol=0.0)
def test_parallel_sessions_equal_sequential_ones(kv: Runner, kv_workload: WorkloadBuilder, stream: bool) -> None:
    shape = kv_workload.conversation(INSTRUCTIONS, TOOLS, turns=3, sessions=3, max_tokens=8)
    one_by_one = kv.run(shape, concurrency=1, stream=stream)
    agree(one_by_one)
    together = kv.run(shape, concurrency=3, stream=stream)
    assert together.turns.as_predicted(), together.turns.as_predicted()
    assert together.turns.same_as(one_by_one.turns), together.turns.same_as(one_by_one.turns)


@pytest.mark.hit_rate(tol=0.0)
def test_template_that_takes_an_empty_thought_back(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    more: dict[str, Any] = {"max_tokens": 40, "turns": 4}
    result = kv.run(kv_workload.conversation(INSTRUCTIONS, TOOLS, body=UNTHINKING, **more), concurrency=1)
    agree(result)
    taken_back = rest = 0
    for before, now in pairwise(result.exchanges):
        prompt, written = before.prompt_ids or (), [*(before.prompt_ids or ()), *(before.output_ids or ())][:-1]
        shared = common(prompt, now.prompt_ids or ())
        assert shared < len(prompt)  # so the answer is lost too
        taken_back += len(written) - shared
        rest += shared % BLOCK
    waterfall = result.measurement.waterfall
    assert waterfall is not None
    assert {loss.cause: loss.tokens for loss in waterfall.losses} == {"template": taken_back, "rounding": rest}
    assert waterfall.ceiling - taken_back - rest == waterfall.measured == result.hit_tokens
    divergence = result.measurement.divergence
    assert divergence is not None
    assert divergence.cause == "template_history"
    kept = kv.run(kv_workload.conversation(INSTRUCTIONS, TOOLS, **more), concurrency=1)
    agree(kept)
    assert kept.measurement.waterfall is not None
    assert kept.measurement.waterfall.of("template") == 0
    assert kept.measurement.divergence is None
    assert kept.hit_rate > result.hit_rate


@pytest.mark.hit_rate(min=0.5, skip_turns=1)
def test_conversation_that_is_cached_already(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    shape = kv_workload.conversation(INSTRUCTIONS, turns=2, max_tokens=4, fresh=False, seed=11)
    first, second = kv.run(shape, concurrency=1), kv.run(shape, concurrency=1)
    repeated = [(e.prompt_tokens or 0) - 1 for e in second.exchanges]
    assert [e.cached_tokens for e in second.exchanges] == [tokens // BLOCK * BLOCK for tokens in repeated]
    assert first.measurement.prediction is None


@pytest.mark.hit_rate(min=0.0)
def test_one_forgotten_turn_is_not_called_a_reset(
    kv: Runner, kv_workload: WorkloadBuilder, kv_endpoint: Endpoint
) -> None:
    wire = Wire(kv_endpoint.url, "vllm:")

    def said(_: int, turn: int) -> str:
        if turn == 3:
            assert wire.post("/reset_prefix_cache", {}) == (200, {"success": True})
        return f"the {turn}th colour? " * 4

    shape = kv_workload.conversation(INSTRUCTIONS, TOOLS, turns=6, user=said, max_tokens=8)
    result = kv.run(shape, concurrency=1)
    assert [bool(e.cached_tokens) for e in result.exchanges] == [False, True, True, False, True, True]
    prediction, waterfall = result.measurement.prediction, result.measurement.waterfall
    assert prediction is not None
    assert waterfall is not None
    lost = [most - (e.cached_tokens or 0) for e, most in zip(result.exchanges, prediction.per_request, strict=True)]
    assert [bool(tokens) for tokens in lost] == [False, False, False, True, False, False]
    assert (waterfall.of("reset"), waterfall.of("unexplained")) == (0, lost[3])  # it may have been anything
