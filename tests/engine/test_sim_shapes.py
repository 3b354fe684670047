"""The simulated engine's answers have the recorded form of a vLLM 0.32's: the same keys, the same kinds of values."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from .wire import Wire

DATA = Path(__file__).parent.parent / "data/vllm-0.32.0"
MESSAGES = [{"role": "user", "content": "hello"}]
LITERAL = ("object", "index", "finish_reason", "role", "completion_tokens", "created_cache_tokens")


def form(value: Any, key: str = "") -> Any:
    """What must be equal: keys and types, and the values of what is no accident."""
    if isinstance(value, dict):
        return {name: form(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [form(inner) for inner in value]
    return value if key in LITERAL else type(value).__name__


def recorded_events(name: str) -> list[Any]:
    return events((DATA / name).read_text())


def events(text: str) -> list[Any]:
    pieces = [piece.removeprefix("data: ") for piece in text.split("\n\n") if piece.strip()]
    return [piece if piece == "[DONE]" else json.loads(piece) for piece in pieces]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("04_chat_stream_no_usage.sse", None),
        ("05_chat_stream_include_usage.sse", {"include_usage": True}),
        ("07_chat_stream_continuous_usage.sse", {"include_usage": True, "continuous_usage_stats": True}),
    ],
)
def test_chat_streams(sim: str, name: str, options: dict[str, bool] | None) -> None:
    server = Wire(sim, model="sim")
    body = {"messages": MESSAGES, "max_tokens": 4, "stream_options": options}
    server.stream("/v1/chat/completions", **body)  # the recorded ones had been sent before
    seen = server.stream("/v1/chat/completions", **body)
    assert form(events(seen)) == form(recorded_events(name))


def test_completion_stream(sim: str) -> None:
    options = {"include_usage": True}
    seen = Wire(sim, model="sim").stream("/v1/completions", prompt="x", max_tokens=4, stream_options=options)
    assert form(events(seen)) == form(recorded_events("06_completion_stream_include_usage.sse"))


def test_whole_answers(sim: str) -> None:
    server = Wire(sim, model="sim")
    recorded = json.loads((DATA / "02_first_response.json").read_text())
    assert form(server.complete("x", 8)[1]) == form(recorded)
    recorded = json.loads((DATA / "08_chat_response_cached.json").read_text())
    server.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 4})
    assert form(server.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 4})[1]) == form(recorded)


def test_usage_that_is_not_reported_is_null_and_left_out_of_streams(sim: str, start_sim: Any) -> None:
    server = Wire(start_sim("--no-prompt-tokens-details"), model="sim")
    recorded = json.loads((DATA / "eviction_block32_blocks100.json").read_text())["usage_without_flag"]
    assert form(server.complete([1, 2, 3])[1]["usage"]) == form(recorded)
    options = {"include_usage": True}
    *_, last, _ = events(server.stream("/v1/completions", prompt="x", max_tokens=1, stream_options=options))
    assert set(last["usage"]) == {"prompt_tokens", "total_tokens", "completion_tokens"}


def test_samples_and_prompts_of_a_stream_come_under_their_index(sim: str) -> None:
    server = Wire(sim, model="sim")
    seen = events(server.stream("/v1/completions", prompt=[[1, 2], [3, 4]], n=2, temperature=1.0, max_tokens=3))
    choices = [event["choices"][0] for event in seen[:-1]]
    texts = ["".join(c["text"] for c in choices if c["index"] == index) for index in range(4)]
    whole = server.complete([[1, 2], [3, 4]], 3, n=2, temperature=1.0)[1]["choices"]
    assert texts == [choice["text"] for choice in whole]
    assert len(set(texts)) == 4  # another prompt or sample says something else
    assert sorted(c["index"] for c in choices if c["finish_reason"] == "length") == [0, 1, 2, 3]


@pytest.mark.parametrize("stream", [False, True])
def test_echo_and_token_ids(sim: str, stream: bool) -> None:
    server = Wire(sim, model="sim")
    ids = server.post("/tokenize", {"prompt": "say it"})[1]["tokens"]
    asked = {"max_tokens": 2, "echo": True, "return_token_ids": True}
    if stream:
        choices = [e["choices"][0] for e in events(server.stream("/v1/completions", prompt="say it", **asked))[:-1]]
    else:
        choices = server.post("/v1/completions", {"prompt": "say it", **asked})[1]["choices"]
    text = "".join(choice["text"] for choice in choices)
    said = [token for choice in choices for token in choice["token_ids"]]
    assert choices[0]["prompt_token_ids"] == ids
    assert text == "say it" + server.post("/detokenize", {"tokens": said})[1]["prompt"]
    assert len(said) == 2


def test_small_routes(sim: str) -> None:
    server = Wire(sim)
    assert server.get("/health")[0] == 200
    assert json.loads(server.get("/version")[1])["version"] == version("pytest-kvcache")
    (model,) = json.loads(server.get("/v1/models")[1])["data"]
    assert (model["id"], model["object"], model["max_model_len"]) == ("sim", "model", 131_072)
    told = server.post("/tokenize", {"prompt": " the cat", "return_token_strs": True})[1]
    assert (told["count"], told["max_model_len"]) == (len(told["tokens"]), 131_072)
    assert "".join(told["token_strs"]) == " the cat"
    assert server.post("/tokenize", {"prompt": "x"})[1]["token_strs"] is None
    assert server.get("/reset_prefix_cache")[0] == 405


def test_null_fields_count_as_left_out(sim: str) -> None:
    nulls = dict.fromkeys(("stream", "stream_options", "n", "temperature", "logprobs", "echo", "cache_salt", "tools"))
    server = Wire(sim)
    assert server.post("/v1/completions", {"prompt": "x", **nulls})[0] == 200
    assert server.post("/v1/chat/completions", {"messages": MESSAGES, **nulls})[0] == 200


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {"prompt": [1, -1]}, "prompt"),
        ("/v1/completions", {"prompt": "x", "stream_options": {"include_usage": True}}, "stream_options"),
        ("/v1/completions", {"prompt": "x", "max_tokens": "many"}, "max_tokens"),
        ("/v1/chat/completions", {"messages": []}, "messages"),
        ("/detokenize", {"tokens": ["x"]}, "tokens"),
    ],
)
def test_a_400_names_the_field(sim: str, path: str, body: dict[str, Any], param: str) -> None:
    status, reply = Wire(sim).post(path, body)
    assert (status, reply["error"]["param"]) == (400, param)
