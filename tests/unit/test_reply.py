"""Answers as real servers send them: usage anywhere, no choices, no sentinel, errors inside a 200 stream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_kvcache.reply import Answer
from pytest_kvcache.sse import EventStream

DATA = Path(__file__).parent.parent / "data" / "vllm-0.32.0"


def stream(text: str | bytes) -> Answer:
    answer = Answer()
    raw = text.encode() if isinstance(text, str) else text
    for number, event in enumerate(EventStream().feed(raw)):
        answer.take_event(event.data, float(number))
    return answer


def lines(*chunks: object) -> str:
    return "".join(f"data: {c if isinstance(c, str) else json.dumps(c)}\n\n" for c in chunks)


def content(text: str, **more: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": text}, **more}]}


def usage(prompt: int, completion: int, cached: int | None = None) -> dict[str, object]:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **details}


def test_empty_choices_are_normal_anywhere() -> None:
    answer = stream(
        lines(
            {"id": "1", "choices": [], "prompt_filter_results": []},
            content("hi", finish_reason=None),
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": usage(10, 1, 8)},
            "[DONE]",
        )
    )
    assert ("".join(answer.text), answer.prompt_tokens, answer.cached_tokens) == ("hi", 10, 8)
    assert answer.chunks == [1.0]
    assert answer.failure is None


def test_usage_of_one_answer_is_a_value_not_a_sum() -> None:
    answer = stream(
        lines(
            {**content("a", finish_reason="stop"), "usage": usage(100, 1, 64)},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": None}], "usage": usage(100, 1, 64)},
            "[DONE]",
        )
    )
    assert (answer.prompt_tokens, answer.cached_tokens, answer.finish_reason) == (100, 64, "stop")


def test_cumulative_usage_in_every_chunk_takes_the_last() -> None:
    answer = stream(
        lines(
            {**content("a"), "usage": usage(10, 1)},
            {**content("b"), "usage": usage(10, 4)},
            {**content("c"), "usage": usage(10, 9)},
            {"choices": [], "usage": usage(10, 9, 8)},
        )
    )
    assert (answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens) == (10, 9, 8)


def test_later_usage_without_details_does_not_erase_them() -> None:
    answer = stream(lines({"choices": [], "usage": usage(10, 1, 8)}, {"choices": [], "usage": usage(10, 2)}))
    assert (answer.completion_tokens, answer.cached_tokens) == (2, 8)
    answer = stream(lines({"choices": [], "usage": usage(10, 1, 8)}, {"choices": [], "usage": {"total_tokens": 11}}))
    assert (answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens) == (10, 1, 8)


def test_comments_do_not_set_the_first_token_time() -> None:
    answer = stream(
        ':\n\n: keep-alive\n\ndata: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n: x\n\ndata: [DONE]\n\n'
    )
    assert answer.chunks == [0.0]
    assert "".join(answer.text) == "a"


def test_no_space_after_data() -> None:
    answer = stream(
        'data:{"choices":[{"index":0,"delta":{"content":" a"}}]}\n\n'
        'data:{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\ndata:[DONE]\n\n'
    )
    assert ("".join(answer.text), answer.prompt_tokens, answer.cached_tokens, answer.done) == (" a", 3, None, True)


def test_finish_reason_without_sentinel_is_complete_and_zero_is_known() -> None:
    answer = stream(lines(content("a", finish_reason="stop"), {"choices": [], "usage": usage(5, 1, 0)}))
    assert answer.complete
    assert (answer.prompt_tokens, answer.cached_tokens) == (5, 0)


def test_neither_finish_reason_nor_sentinel_is_incomplete() -> None:
    assert not stream(lines(content("a"))).complete


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_counts_as_first_token(field: str) -> None:
    answer = stream(
        lines(
            {"choices": [{"index": 0, "delta": {"role": "assistant", field: "hm"}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]},
            {"choices": [], "usage": usage(9, 1)},
            "[DONE]",
        )
    )
    assert ("".join(answer.text), "".join(answer.reasoning), answer.chunks) == ("", "hm", [0.0])
    assert answer.failure is None


def test_tool_calls_count_as_content() -> None:
    call = {"index": 0, "function": {"name": "f", "arguments": ""}}
    assert stream(lines({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})).chunks == [0.0]


def test_role_event_is_not_a_token() -> None:
    answer = stream((DATA / "05_chat_stream_include_usage.sse").read_bytes())
    assert answer.chunks == [1.0, 2.0, 3.0, 4.0]
    assert (answer.prompt_tokens, answer.cached_tokens, answer.completion_tokens) == (401, 384, 4)
    assert "".join(answer.text) == "\n\n\n\n"


def test_recorded_stream_without_usage_reports_nothing() -> None:
    answer = stream((DATA / "04_chat_stream_no_usage.sse").read_bytes())
    assert (answer.prompt_tokens, answer.cached_tokens, answer.finish_reason) == (None, None, "length")


def test_recorded_continuous_usage() -> None:
    answer = stream((DATA / "07_chat_stream_continuous_usage.sse").read_bytes())
    assert (answer.prompt_tokens, answer.cached_tokens, answer.completion_tokens) == (401, 384, 4)


@pytest.mark.parametrize(("name", "cached"), [("02_first_response.json", 0), ("03_identical_response.json", 768)])
def test_recorded_whole_answers(name: str, cached: int) -> None:
    answer = Answer()
    answer.take_body((DATA / name).read_text(), 0.0)
    assert (answer.prompt_tokens, answer.cached_tokens, answer.completion_tokens) == (801, cached, 8)
    assert answer.finish_reason == "length"


@pytest.mark.parametrize(
    "chunk",
    [
        {"error": {"message": "out of memory", "type": "InternalServerError", "code": 500}},
        {"error": "out of memory"},
        {"object": "error", "message": "out of memory", "code": 500},
        {"detail": "out of memory"},
    ],
)
def test_error_objects_inside_a_200_stream(chunk: dict[str, object]) -> None:
    answer = stream(lines(content("a"), chunk, "[DONE]"))
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.message) == ("server", "out of memory")


@pytest.mark.parametrize("cached", [-1, "many", 1.5])
def test_impossible_usage_is_an_error_with_the_value(cached: object) -> None:
    chunk = {"choices": [], "usage": {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": cached}}}
    answer = stream(lines(chunk))
    assert answer.failure is not None
    assert answer.failure.kind == "protocol"
    assert "cached_tokens" in answer.failure.message


@pytest.mark.parametrize("text", ["<html>", "[1,2]", "nul", '{"choices": '])
def test_not_an_answer(text: str) -> None:
    answer = Answer()
    answer.take_body(text, 0.0)
    assert answer.failure is not None
    assert answer.failure.kind == "protocol"


@pytest.mark.parametrize("body", ['{"choices": 5}', '{"choices": [null]}', '{"choices":[{"delta":7}]}', "{}"])
def test_odd_choices_are_no_content(body: str) -> None:
    answer = Answer()
    answer.take_body(body, 0.0)
    assert answer.chunks == []
    assert not answer.complete
