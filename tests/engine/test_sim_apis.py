"""Messages and responses: the same chat told in other words, with the usage in each one's form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .wire import Wire

TEXT = "keep it short " * 20
MESSAGES = {"system": [{"type": "text", "text": TEXT}], "messages": [{"role": "user", "content": "hello"}]}
RESPONSES = {"instructions": TEXT, "input": "hello"}
CHAT = {"messages": [{"role": "system", "content": TEXT}, {"role": "user", "content": "hello"}]}


@pytest.fixture(scope="module")
def shared(start_module_sim: Callable[..., str]) -> Wire:
    return Wire(start_module_sim("--block-size=10"), model="sim")


@pytest.fixture
def server(shared: Wire) -> Iterator[Wire]:
    yield shared
    shared.put("/faults", {})
    shared.post("/restart", {})


@pytest.fixture
def length(server: Wire) -> int:
    """Prompt tokens of the conversation; not a multiple of the block."""
    count = server.post("/tokenize", CHAT)[1]["count"]
    assert count % 10
    return count


def ask_messages(server: Wire, **more: Any) -> dict[str, Any]:
    status, reply = server.post("/v1/messages", {"model": "sim", "max_tokens": 3, **MESSAGES, **more})
    assert status == 200, reply
    return reply


def ask_responses(server: Wire, **more: Any) -> dict[str, Any]:
    status, reply = server.post("/v1/responses", {"model": "sim", "max_output_tokens": 3, **RESPONSES, **more})
    assert status == 200, reply
    return reply


def events(text: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for event in text.split("\n\n")[:-1]:
        name, data = event.split("\n")
        content = json.loads(data.removeprefix("data: "))
        assert content["type"] == name.removeprefix("event: ")
        found.append((content["type"], content))
    return found


def test_messages_leave_the_cached_tokens_out_of_the_input(server: Wire, length: int) -> None:
    blocks, rest = length // 10 * 10, length % 10
    first, again = ask_messages(server), ask_messages(server)
    assert first["usage"] == {
        "input_tokens": rest, "output_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": blocks,
    }  # fmt: skip
    assert again["usage"] == {
        "input_tokens": rest, "output_tokens": 3, "cache_read_input_tokens": blocks, "cache_creation_input_tokens": 0,
    }  # fmt: skip
    assert (first["type"], first["role"], first["stop_reason"]) == ("message", "assistant", "max_tokens")


def test_responses_tell_cached_tokens_as_details(server: Wire, length: int) -> None:
    blocks = length // 10 * 10
    told = [ask_responses(server)["usage"] for _ in range(2)]
    assert [(one["input_tokens"], one["output_tokens"], one["total_tokens"]) for one in told] == [
        (length, 3, length + 3)
    ] * 2
    details = [one["input_tokens_details"] for one in told]
    assert [(one["cached_tokens"], one["cache_write_tokens"]) for one in details] == [(0, blocks), (blocks, 0)]


def test_all_three_say_the_same_from_one_cache(server: Wire, length: int) -> None:
    chat = server.post("/v1/chat/completions", {**CHAT, "max_tokens": 3})[1]["choices"][0]["message"]["content"]
    message, response = ask_messages(server), ask_responses(server)
    assert message["content"] == [{"type": "text", "text": chat}]
    assert response["output"][0]["content"][0]["text"] == chat
    assert message["usage"]["cache_read_input_tokens"] == length // 10 * 10
    assert server.counters()["q"] == 3 * length


def test_a_stream_of_messages(server: Wire, length: int) -> None:
    whole = ask_messages(server)
    seen = events(server.stream("/v1/messages", max_tokens=3, **MESSAGES))
    assert [name for name, _ in seen] == [
        "message_start", "content_block_start", *["content_block_delta"] * 3, "content_block_stop",
        "message_delta", "message_stop",
    ]  # fmt: skip
    assert seen[0][1]["message"]["usage"] == {"input_tokens": length, "output_tokens": 0}
    assert "".join(content["delta"]["text"] for _, content in seen[2:5]) == whole["content"][0]["text"]
    assert seen[6][1]["usage"]["cache_read_input_tokens"] == length // 10 * 10
    assert seen[6][1]["usage"]["input_tokens"] == length % 10


def test_a_stream_of_a_response(server: Wire, length: int) -> None:
    whole = ask_responses(server)
    seen = events(server.stream("/v1/responses", max_output_tokens=3, **RESPONSES))
    assert [name.removeprefix("response.") for name, _ in seen] == [
        "created", "in_progress", "output_item.added", "content_part.added", *["output_text.delta"] * 3,
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert [content["sequence_number"] for _, content in seen] == list(range(11))
    final = seen[-1][1]["response"]
    assert final["output"][0]["content"] == whole["output"][0]["content"]
    assert final["usage"]["input_tokens_details"]["cached_tokens"] == length // 10 * 10
    assert (final["status"], final["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def test_faults_reach_every_way_of_asking(server: Wire) -> None:
    server.put("/faults", {"usage_off": 1, "no_done": True})
    assert "usage" not in ask_messages(server)
    assert ask_responses(server)["usage"] is None
    names = [name for name, _ in events(server.stream("/v1/messages", max_tokens=3, **MESSAGES))]
    assert names[-1] == "message_delta"
    server.put("/faults", {"error_in_stream": True})
    names = [name for name, _ in events(server.stream("/v1/responses", **RESPONSES))]
    assert names == ["response.created", "response.in_progress", "error"]


def test_a_server_that_does_not_report_details(start_sim: Callable[..., str]) -> None:
    server = Wire(start_sim("--no-prompt-tokens-details"), model="sim")
    assert set(ask_messages(server)["usage"]) == {"input_tokens", "output_tokens"}
    assert ask_responses(server)["usage"]["input_tokens_details"]["cached_tokens"] > 0  # told whatever the flag


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/messages", {"messages": MESSAGES["messages"]}, "max_tokens"),
        ("/v1/messages", {"messages": "hello", "max_tokens": 1}, "messages"),
        ("/v1/responses", {"input": 7}, "messages"),
    ],
)
def test_a_400_names_the_field(server: Wire, path: str, body: dict[str, Any], param: str) -> None:
    status, reply = server.post(path, body)
    assert (status, reply["error"]["param"]) == (400, param)
