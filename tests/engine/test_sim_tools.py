"""The simulated engine calls a tool when it is told to: the words that it generates become an argument."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .test_sim_shapes import events
from .wire import Wire

MESSAGES = [{"role": "user", "content": "hello"}]
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"properties": {"where": {}, "how": {}}}}}
BARE = {"type": "function", "function": {"name": "bare"}}
NAMED = {"type": "function", "function": {"name": "bare"}}


def body(**more: Any) -> dict[str, Any]:
    return {"messages": MESSAGES, "tools": [LOOK, BARE], "max_tokens": 4, "return_token_ids": True, **more}


def ask(sim: str, **more: Any) -> tuple[int, Any]:
    return Wire(sim).post("/v1/chat/completions", {"model": "sim", **body(**more)})


def words(sim: str, ids: list[int]) -> str:
    return str(Wire(sim).post("/detokenize", {"tokens": ids})[1]["prompt"])


@pytest.mark.parametrize(("choice", "name", "argument"), [("required", "look", "where"), (NAMED, "bare", "input")])
def test_the_whole_answer_is_one_call(sim: str, choice: Any, name: str, argument: str) -> None:
    status, answer = ask(sim, tool_choice=choice)
    assert status == 200
    (said,) = answer["choices"]
    (call,) = said["message"]["tool_calls"]
    assert (said["finish_reason"], said["message"]["content"]) == ("tool_calls", None)
    assert set(call) == {"id", "type", "function"}
    assert call["function"]["name"] == name
    assert json.loads(call["function"]["arguments"]) == {argument: words(sim, said["token_ids"])}
    assert len(said["token_ids"]) == answer["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_a_stream_spells_the_call(sim: str, ids: bool, tokens: int) -> None:
    streamed = events(
        Wire(sim, model="sim").stream(
            "/v1/chat/completions", **body(tool_choice="required", max_tokens=tokens, return_token_ids=ids)
        )
    )
    choices = [event["choices"][0] for event in streamed[1:-1]]
    pieces = [piece for choice in choices for piece in choice["delta"]["tool_calls"]]
    assert len(pieces) == tokens
    assert [piece["index"] for piece in pieces] == [0] * tokens
    assert pieces[0]["function"]["name"] == "look"
    assert pieces[0]["id"].startswith("chatcmpl-tool-")
    assert not any("id" in piece or "name" in piece["function"] for piece in pieces[1:])
    arguments = json.loads("".join(piece["function"]["arguments"] for piece in pieces))
    assert len(arguments["where"].split()) == tokens
    assert [choice["finish_reason"] for choice in choices] == [None] * (tokens - 1) + ["tool_calls"]
    if ids:
        assert words(sim, [token for choice in choices for token in choice["token_ids"]]) == arguments["where"]


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_without_a_demand_it_answers_in_words(sim: str, choice: Any) -> None:
    (said,) = ask(sim, tool_choice=choice)[1]["choices"]
    assert said["message"]["content"]
    assert "tool_calls" not in said["message"]
    assert said["finish_reason"] == "length"


@pytest.mark.parametrize(
    "wrong", [{"tool_choice": "sometimes"}, {"tool_choice": {"function": {"name": "other"}}}, {"tool_choice": {}}]
)
def test_what_cannot_be_called_is_refused(sim: str, wrong: dict[str, Any]) -> None:
    status, answer = ask(sim, **wrong)
    assert (status, answer["error"]["param"]) == (400, "tool_choice")
    status, answer = ask(sim, tools=None, tool_choice="required")
    assert (status, answer["error"]["message"]) == (400, "tool_choice needs tools")


def test_tools_and_calls_stand_in_the_prompt(sim: str) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    history = [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [call]}]

    def length(messages: Any, tools: Any) -> int:
        return int(Wire(sim).post("/tokenize", {"messages": messages, "tools": tools})[1]["count"])

    assert length(MESSAGES, None) < length(MESSAGES, [BARE]) < length(MESSAGES, [BARE, LOOK])
    assert length([*MESSAGES, {"role": "assistant", "content": None}], None) < length(history, None)
