"""Streams of several servers, and two ways to read them: every event in full, and by its bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from pytest_kvcache.replies import Answer, Phrases, Reader, UsageReading
from pytest_kvcache.sse import EventStream


def in_full(api: str, pieces: list[bytes], usage: tuple[UsageReading, ...] = ()) -> Answer:
    """Every event parsed; the stamp of a piece is its number."""
    answer, events = Answer(api, usage), EventStream()
    for number, piece in enumerate(pieces):
        for event in events.feed(piece):
            answer.take_event(event.data, float(number))
    answer.close()
    return answer


def fast(api: str, pieces: list[bytes], phrases: Phrases | None = None, usage: tuple[UsageReading, ...] = ()) -> Answer:
    answer = Answer(api, usage)
    reader = Reader(answer, phrases)
    for number, piece in enumerate(pieces):
        reader.feed(piece, float(number))
    answer.close()
    return answer


def outcome(answer: Answer) -> tuple[Any, ...]:
    return (
        "".join(answer.text),
        "".join(answer.reasoning),
        list(answer.chunks),
        answer.finish_reason,
        answer.done,
        answer.failure,
        answer.usage,
        answer.tool_calls,
        answer.prompt_ids,
        answer.output_ids,
    )


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    points = sorted({0, len(stream), *(at % (len(stream) + 1) for at in cuts)})
    return [stream[a:b] for a, b in pairwise(points)]


# --- streams ---------------------------------------------------------------------------------------------------------


def event(value: object, *, spaced: bool = False, ascii_only: bool = True) -> bytes:
    separators = (", ", ": ") if spaced else (",", ":")
    return (
        b"data: "
        + json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode("utf-8", "replace")
        + b"\n\n"
    )


def vllm(text: str, number: int = 0, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None, "token_ids": None}
    choice |= {name: more.pop(name) for name in list(more) if name in choice}
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 17_000 + number, "model": "m"}
    return {**head, "choices": [choice], **more}


def sglang(text: str, number: int = 0, **more: Any) -> dict[str, Any]:
    delta = {"reasoning_content": None, "content": text}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, "matched_stop": None}
    head = {"id": f"{number:032x}", "object": "chat.completion.chunk", "created": 17_000 + number, "model": "m"}
    return {**head, "choices": [choice], **more}


def llamacpp(text: str, number: int = 0, **more: Any) -> dict[str, Any]:
    choice = {"finish_reason": None, "index": 0, "delta": {"content": text}}
    return {
        "choices": [choice],
        "created": 17_000 + number,
        "id": f"c{number}",
        "object": "chat.completion.chunk",
        **more,
    }


def completion(text: str, number: int = 0, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": None, "stop_reason": None}
    return {"id": f"cmpl-{number}", "object": "text_completion", "created": 17_000, "choices": [choice], **more}


def anthropic(text: str, number: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}, "index": 0, **more}


def generate(text: str, number: int = 0, **more: Any) -> dict[str, Any]:
    return {"text": text, "index": 0, **more}  # each has all the text so far


def native(text: str, number: int = 0, **more: Any) -> dict[str, Any]:
    return {"index": 0, "content": text, "tokens": [], "stop": False, **more}


FORMS = {
    "vllm": vllm,
    "sglang": sglang,
    "llamacpp": llamacpp,
    "completion": completion,
    "anthropic": anthropic,
    "generate": generate,
    "native": native,
}
APIS = {
    "vllm": "chat",
    "sglang": "chat",
    "llamacpp": "chat",
    "completion": "completions",
    "anthropic": "messages",
    "generate": "generate",
    "native": "completion",
}

ODD = [
    "", " ", '"', "\\", '\\"', '"content":"', '","content":"x', "\n", "\r\n", "\x00", "\x7f", "é", "漢", "🎉", "\ud83d",
    "\ude00", "data: [DONE]", '"}}]}\n\ndata: {"choices":[', "\u2028", "\\u0041", "A" * 300, ".", "\ufeff", "a\\",
    "\\\\",
]  # fmt: skip
TEXTS = st.sampled_from(ODD) | st.text(max_size=6) | st.sampled_from(["a", "b", " the", " of"])


def other_events(form: str, text: str, number: int) -> Iterator[bytes]:
    """Events that look like the plain one and say something else, or that are none."""
    make = FORMS[form]
    plain = event(make(text, number))
    yield event(make(text, number, usage={"prompt_tokens": 7, "completion_tokens": 2}))
    yield event(make(text, number, usage={"input_tokens": True, "prompt_tokens": "x"}))
    yield event(make(text, number, error={"message": "died"}))
    yield event(make(text, number, prompt_token_ids=[1, 2]))
    yield event(make(text, number, timings={"prompt_n": 3, "cache_n": 1}))
    yield event(make(text, number, usage=None))
    yield event(make(text, number), spaced=True)
    yield event(make(text, number), ascii_only=False)
    yield plain.replace(b"null", b'"stop"', 1)
    yield plain.replace(b'"finish_reason":null', b'"finish_reason":"length"')
    yield plain.replace(b'"finish_reason":null', b'"finish_reason":"abort"')
    yield plain.replace(b'"index":0', b'"index":1')
    yield plain.replace(b'"token_ids":null', b'"token_ids":[5]')
    yield plain.replace(b'"content":', b'"reasoning_content":')
    yield plain.replace(b'"content":', b'"refusal":')
    yield plain.replace(b'"content":"', b'"content":"x","content":"')
    yield plain.replace(b'"content":', b'"tool_calls":[{"index":0,"function":{"name":"f"}}],"content":')
    yield plain.replace(b'"content":"', b'"content":["')
    yield plain.replace(b'"choices":[', b'"choices":[{"index":0,"delta":{"content":"double"}},')
    yield plain.replace(b"data: ", b"data:")
    yield plain.replace(b"data: ", b"data:  ")
    yield plain.replace(b"data: ", b"\xef\xbb\xbfdata: ")
    yield plain.replace(b"data: ", b"event: message\nid: 3\ndata: ")
    yield plain.replace(b"data: ", b": a comment\ndata: ")
    yield plain.replace(b"\n\n", b"\ndata:\n\n")
    yield plain.replace(b"\n\n", b"\n: comment\n\n")
    yield plain.replace(b"\n\n", b"\r\n\r\n")
    yield plain.replace(b"\n\n", b"\r\r")
    yield plain.replace(b"\n\n", b"\n")
    yield plain.replace(b"data: {", b'data: {"object":"error","message":"m",')
    yield plain.replace(b'"chat.completion.chunk"', b'"error"')
    yield plain.replace(b'"created":1', b'"created":01')
    yield plain.replace(b'"id":"', b'"id":"\x01')
    yield plain.replace(b'"id":"', b'"id":"\xff')
    yield plain.replace(b'"content":"', b'"content":"\x02')
    yield plain.replace(b'"content":"', b'"content":"\xe6\xbc')
    yield plain.replace(b'"content":"', b'"content":"\\x')
    yield plain.replace(b'"content":"', b'"content":"\\u12')
    yield plain.replace(b'"}', b'\\"}', 1)
    yield b"data: [DONE]\n\n"
    yield b"data:[DONE]\n\n"
    yield b"data: [DONE]x\n\n"
    yield b"data: [DONE]\ndata: x\n\n"
    yield b": keep-alive\n\n"
    yield b"\n"
    yield b"data: {broken\n\n"
    yield b"data: []\n\n"


OTHERS = len(list(other_events("vllm", "a", 0)))
