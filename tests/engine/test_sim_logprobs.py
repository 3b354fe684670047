"""Log probabilities of the simulated engine: a recorded vLLM 0.32's shapes, the same numbers for the same prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .test_sim_shapes import DATA, events, form
from .wire import Wire

LONG = list(range(100, 165))


@pytest.fixture
def server(sim: str) -> Wire:
    return Wire(sim, model="sim")


def shape(choice: dict[str, Any]) -> Any:
    """The form of a completion's choice, without the texts that are keys."""
    told = choice["logprobs"]
    best = [sorted(type(value).__name__ for value in entry.values()) for entry in told["top_logprobs"]]
    return form({**choice, "logprobs": {**told, "top_logprobs": best}})


def test_the_recorded_shapes(server: Wire) -> None:
    recorded = json.loads((DATA / "80_completion_logprobs.json").read_text())
    _, seen = server.complete([67, 298, 285], max_tokens=2, logprobs=2, return_token_ids=True)
    assert shape(seen["choices"][0]) == shape(recorded["choices"][0])
    recorded = json.loads((DATA / "81_chat_logprobs.json").read_text())
    messages = [{"role": "user", "content": "hi there"}]
    body = {"messages": messages, "max_tokens": 2, "logprobs": True, "top_logprobs": 2, "return_token_ids": True}
    _, seen = server.post("/v1/chat/completions", body)
    entries = [choices[0]["logprobs"]["content"] for choices in (seen["choices"], recorded["choices"])]
    keys = [[(sorted(entry), [sorted(best) for best in entry["top_logprobs"]]) for entry in told] for told in entries]
    assert keys[0] == keys[1]
    for entry in entries[0]:
        assert entry["bytes"] == list(entry["token"].encode())
        assert entry["top_logprobs"][0] == {key: entry[key] for key in ("token", "logprob", "bytes")}


def test_numbers_follow_from_the_prompt(server: Wire) -> None:
    (cold, warm, other) = (
        server.complete(prompt, max_tokens=4, logprobs=2)[1]["choices"][0] for prompt in (LONG, LONG, LONG[1:])
    )
    assert cold == warm
    assert cold["logprobs"]["token_logprobs"] != other["logprobs"]["token_logprobs"]
    assert all(value < 0 for value in cold["logprobs"]["token_logprobs"])
    assert "".join(cold["logprobs"]["tokens"]) == cold["text"]
    for offset, token in zip(cold["logprobs"]["text_offset"], cold["logprobs"]["tokens"], strict=True):
        assert cold["text"][offset:].startswith(token)
    for token, value, best in zip(
        *(cold["logprobs"][n] for n in ("tokens", "token_logprobs", "top_logprobs")), strict=True
    ):
        assert sorted(best.values(), reverse=True) == [value, value - 0.25]
        assert best[token] == value


def test_how_many_are_told(server: Wire) -> None:
    for wanted, told in ((0, 1), (1, 1), (2, 2)):
        _, seen = server.complete([1, 2], max_tokens=1, logprobs=wanted)
        assert len(seen["choices"][0]["logprobs"]["top_logprobs"][0]) == told
    for body in ({}, {"echo": True, "logprobs": 1}):
        assert server.complete([1, 2], max_tokens=1, **body)[1]["choices"][0]["logprobs"] is None
    messages = [{"role": "user", "content": "hi"}]
    for body, told in (({"logprobs": True}, 0), ({"logprobs": True, "top_logprobs": 1}, 1)):
        _, seen = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1, **body})
        assert len(seen["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == told
    _, seen = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1, "logprobs": False})
    assert seen["choices"][0]["logprobs"] is None


def test_streams_tell_the_same_numbers(server: Wire) -> None:
    whole = server.complete(LONG, max_tokens=4, logprobs=1)[1]["choices"][0]["logprobs"]
    pieces = events(server.stream("/v1/completions", prompt=LONG, max_tokens=4, logprobs=1))[:-1]
    told = [piece["choices"][0]["logprobs"] for piece in pieces]
    assert [number for piece in told for number in piece["token_logprobs"]] == whole["token_logprobs"]
    assert [token for piece in told for token in piece["tokens"]] == whole["tokens"]
