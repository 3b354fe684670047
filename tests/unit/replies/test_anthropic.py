"""Messages: the prompt number leaves out what the cache gave or got, and streams repeat themselves."""

from __future__ import annotations

import pytest

from .streams import failed, lines, recorded, stream, tokens, whole

VLLM = "vllm-0.32.0"


@pytest.mark.parametrize(
    ("name", "cached", "written"),
    # 1010 tokens in blocks of 128: 896 are written the first time and read ever after; 114 are neither
    [("70_messages_first.json", 0, 896), ("71_messages_cached.json", 896, 0), ("72_messages_stream.sse", 896, 0)],
)
def test_recorded_messages(name: str, cached: int, written: int) -> None:
    answer = recorded("messages", f"{VLLM}/{name}")
    assert tokens(answer) == (1010, cached, written, 3)
    assert ("".join(answer.text), answer.finish_reason, answer.failure) == ("\n\n\n", "max_tokens", None)


def test_only_deltas_are_tokens() -> None:
    # event 0 starts the message, event 1 the block
    assert list(recorded("messages", f"{VLLM}/72_messages_stream.sse").chunks) == [2.0, 3.0, 4.0]


def start(**usage: int) -> dict[str, object]:
    return {"type": "message_start", "message": {"type": "message", "content": [], "usage": usage}}


def delta(**usage: int) -> dict[str, object]:
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}


def text(value: str) -> dict[str, object]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": value}}


STOP = {"type": "message_stop"}


def test_cumulative_values_are_never_added() -> None:
    first = start(input_tokens=20, cache_read_input_tokens=900, cache_creation_input_tokens=80, output_tokens=1)
    again = delta(input_tokens=20, cache_read_input_tokens=900, cache_creation_input_tokens=80, output_tokens=15)
    assert tokens(stream("messages", lines(first, text("a"), again, STOP))) == (1000, 900, 80, 15)


def test_what_the_delta_leaves_out_stays() -> None:
    first = start(input_tokens=20, cache_read_input_tokens=900, cache_creation_input_tokens=0, output_tokens=1)
    assert tokens(stream("messages", lines(first, delta(output_tokens=4), STOP))) == (920, 900, 0, 4)


def test_without_cached_numbers_the_whole_prompt_is_unknown() -> None:
    # with caching reported elsewhere or not at all, 20 may be all of the prompt or the rest of it
    body = {"type": "message", "content": [], "stop_reason": "end_turn", "usage": {"input_tokens": 20}}
    assert tokens(whole("messages", body)) == (None, None, None, None)


def test_every_kind_of_content_and_nothing_else_is_a_token() -> None:
    def block(kind: str, **more: object) -> dict[str, object]:
        return {"type": kind, "index": 0, **more}

    answer = stream(
        "messages",
        lines(
            {"type": "ping"},
            start(input_tokens=1, cache_read_input_tokens=0),
            block("content_block_start", content_block={"type": "thinking", "thinking": "", "signature": ""}),
            block("content_block_delta", delta={"type": "thinking_delta", "thinking": "hm"}),
            block("content_block_delta", delta={"type": "signature_delta", "signature": "abc"}),
            block("content_block_start", content_block={"type": "tool_use", "id": "1", "name": "f", "input": {}}),
            block("content_block_delta", delta={"type": "input_json_delta", "partial_json": ""}),
            block("content_block_delta", delta={"type": "input_json_delta", "partial_json": '{"a":'}),
            block("content_block_stop"),
            text("hi"),
            delta(output_tokens=9),
            STOP,
        ),
    )
    assert (answer.text, answer.reasoning, list(answer.chunks)) == (["hi"], ["hm"], [3.0, 5.0, 7.0, 9.0])
    assert (tokens(answer), answer.failure) == ((1, 0, None, 9), None)


def test_a_whole_message_with_every_kind_of_block() -> None:
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hi"}, {"type": "tool_use", "name": "f"}]
    answer = whole("messages", {"type": "message", "content": blocks, "stop_reason": "tool_use"})
    assert (answer.text, answer.reasoning, answer.finish_reason) == (["hi"], ["hm"], "tool_use")


def test_an_error_event() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    answer = stream("messages", lines(start(input_tokens=1), text("a"), error))
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.message) == ("server", "Overloaded")


@pytest.mark.parametrize("sentinel", [(), ("[DONE]",)])
def test_a_message_without_its_end_is_cut(sentinel: tuple[str, ...]) -> None:
    assert failed(stream("messages", lines(start(input_tokens=1), text("a"), *sentinel))) == "cut"


def test_the_last_event_alone_ends_a_message() -> None:
    assert failed(stream("messages", lines(text("a"), STOP))) is None
