"""Chats with a real vLLM, through a template with tools: what it tells of their tokens, and workloads of chats."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache import Endpoint, Runner, Settings, WorkloadBuilder
from pytest_kvcache.model import Prediction
from pytest_kvcache.result import Result

from ..engine.wire import Wire, cached
from .chats import COLOURS, FORCED, SYSTEM, TOOLS, UNTHINKING, Endless
from .server import VllmServer


@pytest.fixture(scope="session", params=[128, 32], ids="block{}".format)
def block(request: pytest.FixtureRequest) -> int:
    """Tokens per block of the server under test."""
    size: int = request.param
    return size


@pytest.fixture(scope="session")
def kv_settings(kv_settings: Settings, vllm_server: Callable[[int], VllmServer], block: int) -> Settings:
    return dataclasses.replace(kv_settings, endpoint=vllm_server(block).url)


@pytest.fixture(scope="session")
def kv_endpoint(kv_settings: Settings) -> Endpoint:
    """Of this module: the plugin's own is made once a session, from whichever settings were asked for first."""
    return kv_settings.connect(kv_settings.endpoint or "")


@pytest.fixture
def wire(kv_endpoint: Endpoint) -> Wire:
    return Wire(kv_endpoint.url, "vllm:")


def chat(wire: Wire, **body: Any) -> Any:
    """Return the whole answer to a chat that tells its tokens."""
    sent = {"model": "tiny", "max_tokens": 60, "temperature": 0, "return_token_ids": True, **body}
    status, reply = wire.post("/v1/chat/completions", sent)
    assert status == 200, reply
    return reply


# --- what the server tells -------------------------------------------------------------------------------------------

ASKED: list[dict[str, Any]] = [
    {},
    {"tools": TOOLS},
    {"tools": TOOLS, **FORCED},
    {"tools": TOOLS, "tool_choice": "none"},
    {"tools": TOOLS, **UNTHINKING},
    {"chat_template_kwargs": {"enable_thinking": True}},
]
only_once = pytest.mark.parametrize("block", [32], indirect=True, ids="block{}".format, scope="session")


@only_once
@pytest.mark.parametrize("more", ASKED, ids=["plain", "tools", "forced", "no-choice", "unthinking", "thinking"])
def test_the_rendering_is_what_is_counted(wire: Wire, more: dict[str, Any]) -> None:
    messages = [SYSTEM, {"role": "user", "content": "the sea?"}]
    reply = chat(wire, messages=messages, max_tokens=1, **more)
    rendered: dict[str, Any] = {name: more[name] for name in ("tools", "chat_template_kwargs") if name in more}
    status, found = wire.post("/tokenize", {"model": "tiny", "messages": messages, **rendered})
    assert status == 200
    assert found["tokens"] == reply["prompt_token_ids"]
    assert len(found["tokens"]) == reply["usage"]["prompt_tokens"]


@only_once
def test_a_forced_call_ends_and_comes_back_parsed(wire: Wire) -> None:
    reply = chat(wire, messages=[SYSTEM, {"role": "user", "content": "the sky?"}], tools=TOOLS, **FORCED)
    (choice,) = reply["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "stop"
    assert call["function"]["name"] == "look_up"
    assert json.loads(call["function"]["arguments"]) in COLOURS
    assert len(choice["token_ids"]) == reply["usage"]["completion_tokens"]


@only_once
@pytest.mark.parametrize(
    "more", [{"max_tokens": 5}, {"tools": TOOLS, **FORCED, "max_tokens": 60}], ids=["text", "call"]
)
def test_a_stream_tells_the_prompt_first_and_the_answer_piece_by_piece(wire: Wire, more: dict[str, Any]) -> None:
    body = {"messages": [SYSTEM, {"role": "user", "content": "grass?"}], "temperature": 0, **more}
    text = wire.stream("/v1/chat/completions", **body, return_token_ids=True, stream_options={"include_usage": True})
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    whole = chat(wire, **body)
    assert chunks[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    assert all(chunk.get("prompt_token_ids") is None for chunk in chunks[1:])
    told = [token for chunk in chunks for choice in chunk["choices"] for token in choice.get("token_ids") or ()]
    assert told == whole["choices"][0]["token_ids"]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == len(told)


@only_once
@pytest.mark.parametrize("more", [{}, UNTHINKING], ids=["thinking", "unthinking"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_of_an_answer_all_but_the_last_token_is_reused(
    wire: Wire, block: int, temperature: float, more: dict[str, Any], tmp_path: Path
) -> None:
    salt = f"{temperature} {len(more)} {tmp_path.parent.name}"
    oracle = Endless(block)
    history: list[dict[str, Any]] = [SYSTEM]
    seen, expected = [], []
    for turn in range(6):
        if history[-1]["role"] != "tool":
            history.append({"role": "user", "content": f"colour {turn}? " * 5})
        forced = FORCED if turn % 3 == 0 else {"max_tokens": 40}
        asked = {"messages": history, "tools": TOOLS, "temperature": temperature, "seed": 7, "cache_salt": salt}
        reply = chat(wire, **asked, **forced, **more)
        (choice,) = reply["choices"]
        expected.append(oracle.hits(reply["prompt_token_ids"], choice["token_ids"]))
        seen.append(cached(reply) or 0)
        history.append({name: part for name, part in choice["message"].items() if part})
        called = choice["message"].get("tool_calls") or ()
        history += [{"role": "tool", "tool_call_id": call["id"], "content": "blue"} for call in called]
    assert seen == expected
    assert seen[0] == 0 < seen[1] < seen[-1]


@only_once
@pytest.mark.parametrize(("said", "hits"), [(14, 32), (15, 64)])  # 64 tokens with the answer, and 65
def test_the_last_token_of_an_answer_fills_no_block(wire: Wire, tmp_path: Path, said: int, hits: int) -> None:
    more = {"cache_salt": f"last {tmp_path.parent.name}", "return_token_ids": True, "ignore_eos": True}
    prompt = list(range(2000 + 100 * said, 2050 + 100 * said))
    (choice,) = wire.complete(prompt, said, **more)[1]["choices"]
    assert len(choice["token_ids"]) == said
    assert cached(wire.complete([*prompt, *choice["token_ids"], *range(500, 540)], **more)[1]) == hits


# --- workloads of chats ----------------------------------------------------------------------------------------------


def agree(result: Result, by_hand: int | None = None) -> Prediction:
    """Return the prediction, after checking that counters and usage name the same tokens."""
    counters, prediction = result.measurement.counters, result.measurement.prediction
    assert counters is not None
    assert prediction is not None
    assert (prediction.exact, prediction.slack) == (True, 0)
    assert counters.hit == prediction.hit_tokens == sum(e.cached_tokens or 0 for e in result.exchanges)
    assert counters.query == counters.prompt == prediction.query_tokens
    if by_hand is not None:
        assert counters.hit == by_hand
    return prediction


@pytest.mark.parametrize("rate", [0, 0.3, 0.7])
@pytest.mark.parametrize("length", [1024, 1001])
@pytest.mark.hit_rate(tol=0.0)
def test_chats_agree_to_the_token(
    kv: Runner, kv_workload: WorkloadBuilder, block: int, length: int, rate: float
) -> None:
    shape = kv_workload.shared_prefix(8, length, rate, prefixes=2, output_len=2, align=None, send="chat")
    result = kv.run(shape, concurrency=4)
    agree(result, 8 * (min(round(rate * length), length - 1) // block * block))
    assert {e.prompt_tokens for e in result.exchanges} == {length}


@pytest.mark.parametrize("send", ["ids", "chat"])
@pytest.mark.hit_rate(tol=0.0)
def test_popular_prefixes_agree_to_the_token(kv: Runner, kv_workload: WorkloadBuilder, block: int, send: Any) -> None:
    shape = kv_workload.shared_prefix(
        12, {640: 0.75, 1300: 0.25}, {0.0: 0.5, 0.6: 0.5}, prefixes=3, weights="zipf", output_len=1, send=send, tol=0.2
    )
    result = kv.run(shape, concurrency=3)
    prediction = agree(result)
    assert sorted(e.prompt_tokens or 0 for e in result.exchanges) == [640] * 9 + [1300] * 3
    assert [e.cached_tokens for e in result.exchanges] == list(prediction.per_request)


@pytest.mark.parametrize("send", ["ids", "chat"])
@pytest.mark.hit_rate(tol=0.0)
def test_tree_of_prefixes_agrees_to_the_token(kv: Runner, kv_workload: WorkloadBuilder, block: int, send: Any) -> None:
    levels = [(1, 300), (2, 200), (6, 140)]  # no edge of a block
    shape = kv_workload.shared_prefix(12, 900, tree=levels, output_len=1, send=send)
    agree(kv.run(shape, concurrency=1), 12 * (640 // block * block))
    cold = kv_workload.shared_prefix(6, 900, tree=levels, output_len=1, send=send, prefill=False)
    result = kv.run(cold, concurrency=1)
    parts = sorted([0, *[300 // block * block], *[500 // block * block] * 4])
    agree(result, sum(parts))
    assert sorted(e.cached_tokens or 0 for e in result.exchanges) == parts


@only_once
def test_recorded_requests_are_predicted(kv: Runner, kv_workload: WorkloadBuilder, tmp_path: Path) -> None:
    asked = [[SYSTEM, {"role": "user", "content": word}] for word in ("the sea?", "the sky?", "grass?")]
    rows: list[dict[str, Any]] = []
    for messages in asked:
        rows.append({"messages": messages, "tools": TOOLS, "max_tokens": 2})
        rows.append({"messages": messages, "max_tokens": 2, **UNTHINKING})
    rows += [{"prompt": list(range(1000, 1000 + length)), "max_tokens": 2} for length in (200, 150)]
    rows = [{**row, "cache_salt": f"{salt} {tmp_path.parent.name}"} for salt in ("one", "other") for row in rows]
    recorded = tmp_path / "recorded.jsonl"
    recorded.write_text("\n".join(map(json.dumps, rows)))
    result = kv.run(kv_workload.prompts(recorded), concurrency=1)
    agree(result)
    halves = [[e.cached_tokens for e in result.exchanges[half]] for half in (slice(8), slice(8, 16))]
    assert halves[0] == halves[1]  # the second salt finds nothing of the first
    assert halves[0][0] == 0
    assert halves[0][7] == 128  # of 150 tokens that begin the prompt before it


@only_once
@pytest.mark.hit_rate(tol=0.0)
def test_open_loop_reuses_what_a_closed_one_does(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    shape = kv_workload.shared_prefix(20, 640, 0.5, prefixes=4, output_len=4)
    result = kv.run(shape, rate=20, arrival="poisson", retries=0)
    agree(result, 20 * 320)
    assert all(e.scheduled is not None and e.sent is not None and e.sent >= e.scheduled for e in result.exchanges)
    assert all(e.ttft is not None and e.ttft > 0 for e in result.exchanges)


@only_once
@pytest.mark.hit_rate(min=0.5)
def test_reset_in_the_middle_is_found(kv: Runner, kv_workload: WorkloadBuilder, wire: Wire) -> None:
    before = wire.sample("prefix_cache_queries_total")
    done: list[bool] = []

    def reset() -> None:
        wire.wait_until(lambda: wire.sample("prefix_cache_queries_total") - before >= (4 + 8) * 640)
        wire.wait_until(lambda: wire.post("/reset_prefix_cache", {})[1]["success"])  # between two requests
        done.append(True)

    other = threading.Thread(target=reset)
    other.start()
    result = kv.run(kv_workload.shared_prefix(60, 640, 0.8, prefixes=4, output_len=4), concurrency=1)
    other.join()
    assert done
    cached_tokens = [e.cached_tokens for e in result.exchanges]
    assert cached_tokens.count(0) == 4
    assert cached_tokens.count(512) == 56
    waterfall = result.measurement.waterfall
    assert waterfall is not None
    assert {loss.cause: loss.tokens for loss in waterfall.losses} == {"reset": 4 * 512}
