"""Completions, chat and responses as real servers send them: usage anywhere, no choices, no sentinel, errors inside."""

from __future__ import annotations

import pytest

from pytest_kvcache.replies import Answer

from . import streams
from .streams import failed, lines, recorded, tokens, whole

VLLM = "vllm-0.32.0"


def stream(text: str | bytes) -> Answer:
    return streams.stream("chat", text)


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
    assert ("".join(answer.text), answer.usage.prompt, answer.usage.cached) == ("hi", 10, 8)
    assert list(answer.chunks) == [1.0]
    assert answer.failure is None


def test_usage_of_one_answer_is_a_value_not_a_sum() -> None:
    answer = stream(
        lines(
            {**content("a", finish_reason="stop"), "usage": usage(100, 1, 64)},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": None}], "usage": usage(100, 1, 64)},
            "[DONE]",
        )
    )
    assert (answer.usage.prompt, answer.usage.cached, answer.finish_reason) == (100, 64, "stop")


def test_cumulative_usage_in_every_chunk_takes_the_last() -> None:
    answer = stream(
        lines(
            {**content("a"), "usage": usage(10, 1)},
            {**content("b"), "usage": usage(10, 4)},
            {**content("c"), "usage": usage(10, 9)},
            {"choices": [], "usage": usage(10, 9, 8)},
        )
    )
    assert (answer.usage.prompt, answer.usage.completion, answer.usage.cached) == (10, 9, 8)


def test_later_usage_without_details_does_not_erase_them() -> None:
    answer = stream(lines({"choices": [], "usage": usage(10, 1, 8)}, {"choices": [], "usage": usage(10, 2)}))
    assert (answer.usage.completion, answer.usage.cached) == (2, 8)
    answer = stream(lines({"choices": [], "usage": usage(10, 1, 8)}, {"choices": [], "usage": {"total_tokens": 11}}))
    assert (answer.usage.prompt, answer.usage.completion, answer.usage.cached) == (10, 1, 8)


def test_comments_do_not_set_the_first_token_time() -> None:
    answer = stream(
        ':\n\n: keep-alive\n\ndata: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n: x\n\ndata: [DONE]\n\n'
    )
    assert list(answer.chunks) == [0.0]
    assert "".join(answer.text) == "a"


def test_no_space_after_data() -> None:
    answer = stream(
        'data:{"choices":[{"index":0,"delta":{"content":" a"}}]}\n\n'
        'data:{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\ndata:[DONE]\n\n'
    )
    assert ("".join(answer.text), answer.usage.prompt, answer.usage.cached, answer.done) == (" a", 3, None, True)


def test_finish_reason_without_sentinel_is_complete_and_zero_is_known() -> None:
    answer = stream(lines(content("a", finish_reason="stop"), {"choices": [], "usage": usage(5, 1, 0)}))
    assert answer.complete
    assert (answer.usage.prompt, answer.usage.cached) == (5, 0)


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
    assert ("".join(answer.text), "".join(answer.reasoning), list(answer.chunks)) == ("", "hm", [0.0])
    assert answer.failure is None


def test_tool_calls_count_as_content() -> None:
    call = {"index": 0, "function": {"name": "f", "arguments": ""}}
    assert list(stream(lines({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})).chunks) == [0.0]


def test_role_event_is_not_a_token() -> None:
    answer = recorded("chat", f"{VLLM}/05_chat_stream_include_usage.sse")
    assert list(answer.chunks) == [1.0, 2.0, 3.0, 4.0]
    assert (answer.usage.prompt, answer.usage.cached, answer.usage.completion) == (401, 384, 4)
    assert "".join(answer.text) == "\n\n\n\n"


def test_recorded_stream_without_usage_reports_nothing() -> None:
    answer = recorded("chat", f"{VLLM}/04_chat_stream_no_usage.sse")
    assert (answer.usage.prompt, answer.usage.cached, answer.finish_reason) == (None, None, "length")


def test_recorded_continuous_usage() -> None:
    answer = recorded("chat", f"{VLLM}/07_chat_stream_continuous_usage.sse")
    assert (answer.usage.prompt, answer.usage.cached, answer.usage.completion) == (401, 384, 4)


@pytest.mark.parametrize(("name", "cached"), [("02_first_response.json", 0), ("03_identical_response.json", 768)])
def test_recorded_whole_answers(name: str, cached: int) -> None:
    answer = recorded("completions", f"{VLLM}/{name}")
    assert (answer.usage.prompt, answer.usage.cached, answer.usage.completion) == (801, cached, 8)
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


def test_a_detail_beside_content_is_no_error() -> None:
    assert stream(lines({**content("a", finish_reason="stop"), "detail": "cached for an hour"})).failure is None


@pytest.mark.parametrize("cached", [-1, "many", 1.5])
def test_impossible_usage_is_an_error_with_the_value(cached: object) -> None:
    chunk = {"choices": [], "usage": {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": cached}}}
    answer = stream(lines(chunk, "[DONE]"))
    assert answer.failure is not None
    assert answer.failure.kind == "protocol"
    assert "cached_tokens" in answer.failure.message


@pytest.mark.parametrize("text", ["<html>", "[1,2]", "nul", '{"choices": '])
def test_not_an_answer(text: str) -> None:
    answer = whole("chat", text)
    assert answer.failure is not None
    assert answer.failure.kind == "protocol"


@pytest.mark.parametrize("body", ['{"choices": 5}', '{"choices": [null]}', '{"choices":[{"delta":7}]}', "{}"])
def test_odd_choices_are_no_content(body: str) -> None:
    answer = whole("chat", body)
    assert list(answer.chunks) == []
    assert not answer.complete


def test_a_stream_that_is_cut_is_a_failure_and_one_that_is_whole_is_none() -> None:
    assert failed(stream(lines(content("a")))) == "cut"
    assert failed(stream(lines(content("a"), "[DONE]"))) is None
    assert failed(stream(lines(content("a", finish_reason="stop")))) is None


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_a_request_that_the_engine_gave_up_is_no_answer(reason: str) -> None:
    answer = stream(lines(content("a"), {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}, "[DONE]"))
    assert failed(answer) == "server"


def test_content_in_typed_blocks() -> None:
    blocks = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "hi"}]
    answer = whole("chat", {"choices": [{"index": 0, "message": {"content": blocks}, "finish_reason": "stop"}]})
    assert (answer.text, list(answer.chunks)) == (["hi"], [0.0])


def test_the_first_failure_is_the_one_that_is_told() -> None:
    answer = stream(lines({"error": {"message": "first"}}, {"error": {"message": "second"}}, "nonsense"))
    assert answer.failure is not None
    assert answer.failure.message == "first"


# --- responses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["73_responses_cached.json", "74_responses_stream.sse"])
def test_recorded_responses(name: str) -> None:
    # 1010 tokens sent for the second time, block size 128: floor(1009 / 128) * 128 = 896
    answer = recorded("responses", f"{VLLM}/{name}")
    assert tokens(answer) == (1010, 896, 0, 3)
    assert ("".join(answer.text), answer.finish_reason, answer.failure) == ("\n\n\n", "max_output_tokens", None)


def test_only_deltas_of_a_response_stream_are_tokens() -> None:
    # events 0 to 3: created, in progress, item added, part added
    assert list(recorded("responses", f"{VLLM}/74_responses_stream.sse").chunks) == [4.0, 5.0, 6.0]


def response(status: str, **more: object) -> dict[str, object]:
    return {"type": f"response.{status}", "response": {"object": "response", "status": status, **more}}


def test_a_response_stream_in_all_its_events() -> None:
    total = {"input_tokens": 50, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 7, "total_tokens": 57}
    output = [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}]
    answer = streams.stream(
        "responses",
        lines(
            response("in_progress", usage=None, error=None),
            {"type": "response.output_item.added", "item": {"type": "reasoning", "content": []}},
            {"type": "response.reasoning_summary_text.delta", "delta": "hm"},
            {"type": "response.output_item.added", "item": {"type": "function_call", "name": "f"}},
            {"type": "response.function_call_arguments.delta", "delta": "{}"},
            {"type": "response.function_call_arguments.done", "arguments": "{}"},
            {"type": "response.output_text.delta", "delta": "hi"},
            {"type": "response.output_text.done", "text": "hi"},
            response("completed", usage=total, error=None, output=output),
        ),
    )
    assert (answer.text, answer.reasoning, list(answer.chunks)) == (["hi"], ["hm"], [2.0, 3.0, 4.0, 6.0])
    assert (tokens(answer), answer.finish_reason, answer.failure) == ((50, 0, None, 7), "completed", None)


def test_a_whole_response_in_all_its_items() -> None:
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "content": None},
        {"type": "function_call", "name": "f", "arguments": "{}"},
        {"type": "message", "content": [{"type": "output_text", "text": "h"}, {"type": "output_text", "text": "i"}]},
    ]
    answer = whole("responses", {"object": "response", "status": "completed", "error": None, "output": output})
    assert ("".join(answer.text), "".join(answer.reasoning), list(answer.chunks)) == ("hi", "hm", [0.0])
    assert (tokens(answer), answer.failure) == ((None, None, None, None), None)


def test_a_whole_response_that_only_calls_a_function_has_content() -> None:
    output = [{"type": "function_call", "name": "f", "arguments": "{}"}]
    assert list(whole("responses", {"status": "completed", "output": output}).chunks) == [0.0]


@pytest.mark.parametrize(
    "event",
    [
        response("failed", error={"code": "server_error", "message": "out of memory"}),
        {"type": "error", "code": "server_error", "message": "out of memory", "param": None},
        {"type": "error", "error": {"type": "server_error", "message": "out of memory"}},
    ],
)
def test_a_response_that_failed(event: dict[str, object]) -> None:
    answer = streams.stream("responses", lines({"type": "response.output_text.delta", "delta": "a"}, event))
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.message) == ("server", "out of memory")


def test_a_whole_response_that_failed() -> None:
    assert failed(whole("responses", {"object": "response", "status": "failed", "error": None})) == "server"


@pytest.mark.parametrize("sentinel", [(), ("[DONE]",)])
def test_a_response_without_its_last_event_is_cut(sentinel: tuple[str, ...]) -> None:
    text = lines(response("in_progress"), {"type": "response.output_text.delta", "delta": "a"}, *sentinel)
    assert failed(streams.stream("responses", text)) == "cut"
