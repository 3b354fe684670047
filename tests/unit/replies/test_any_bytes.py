"""Whatever a server sends, in whatever pieces: an answer or a failure, never an exception, and always the same one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.apis import PATHS
from pytest_kvcache.replies import Answer
from pytest_kvcache.sse import EventStream

from .forms import outcome
from .streams import DATA, failed, tokens, whole

APIS = st.sampled_from(sorted(PATHS))
WORDS = [
    "choices", "delta", "message", "content", "text", "finish_reason", "index", "usage", "prompt_tokens",
    "prompt_tokens_details", "input_tokens_details", "cached_tokens", "cache_read_input_tokens", "output", "response",
    "type", "status", "error", "detail", "object", "meta_info", "timings", "prompt_n", "cache_n", "stop", "stop_type",
    "tool_calls", "reasoning", "content_block", "stop_reason", "item", "summary", "thinking", "partial_json",
    "incomplete_details", "reason", "response.completed", "response.output_text.delta", "message_start",
    "message_delta", "content_block_delta", "message_stop", "input_tokens", "completed", "failed", "abort",
    "output_tokens", "tokens_evaluated", "candidates", "parts", "thought", "finishReason", "promptFeedback",
    "blockReason", "usageMetadata", "promptTokenCount", "stopReason", "reasoningContent", "reasoningText",
    "inputTokens", "cacheReadInputTokens", "done", "done_reason", "prompt_eval_count", "Message",
    "function", "name", "arguments", "id", "token_ids", "prompt_token_ids",
]  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(WORDS)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=6),
    max_leaves=25,
)


def feed(api: str, pieces: Iterable[bytes]) -> Answer:
    events, answer = EventStream(), Answer(api)
    for piece in pieces:
        for event in events.feed(piece):
            answer.take_event(event.data, 0.0)
    answer.close()
    return answer


@given(APIS, JSON)
def test_any_json_is_an_answer_or_a_failure(api: str, body: object) -> None:
    answer = whole(api, json.dumps(body))
    assert answer.failure is None or answer.failure.kind in ("cut", "server", "protocol")
    assert all(type(n) is int and n >= 0 for n in tokens(answer) if n is not None)


@given(APIS, st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_a_failure(api: str, body: bytes) -> None:
    assert whole(api, body).failure is not None
    feed(api, [body])


@given(APIS, st.lists(JSON | st.just("[DONE]"), max_size=6), st.lists(st.integers(0, 400), max_size=8))
def test_pieces_never_matter(api: str, chunks: list[object], cuts: list[int]) -> None:
    sent = "".join(f"data: {c if c == '[DONE]' else json.dumps(c)}\n\n" for c in chunks).encode()
    points = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    pieces = [sent[a:b] for a, b in pairwise(points)]
    assert outcome(feed(api, pieces)) == outcome(feed(api, [sent]))


@pytest.mark.parametrize("name", sorted(str(path.relative_to(DATA)) for path in DATA.glob("*/*.sse")))
def test_recorded_streams_in_single_bytes_and_cut_anywhere(name: str) -> None:
    sent = (DATA / name).read_bytes()
    api = next((api for api in ("messages", "responses") if api in name), "chat")
    full = feed(api, [sent])
    assert full.failure is None
    assert outcome(feed(api, (sent[i : i + 1] for i in range(len(sent))))) == outcome(full)
    for end in range(0, len(sent), 97):
        part = feed(api, [sent[:end]])
        assert failed(part) in (None, "cut")
        assert "".join(full.text).startswith("".join(part.text))


@pytest.mark.parametrize(
    "body", ["[" * 100_000, '{"a":' * 100_000, "1" * 5000, "NaN", "\ud800".encode("utf-8", "surrogatepass")]
)
def test_hostile_json_is_a_failure(body: str | bytes) -> None:
    assert failed(whole("chat", body)) == "protocol"


def test_errors_nested_without_end_stay_short() -> None:
    nested: Any = "x" * 10_000
    for _ in range(50):
        nested = {"a": [nested] * 3}
        nested["a"] = nested["a"][:1]
    answer = whole("chat", {"error": nested})
    assert answer.failure is not None
    assert len(answer.failure.message) < 500
