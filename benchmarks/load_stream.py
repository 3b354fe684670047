"""What does an answer look like on the wire? Server-sent events of a chat or a completion, as vLLM writes them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

MODEL = "bench"
PATHS = {"/v1/chat/completions": True, "/v1/completions": False}
"""Routes of generation, and whether it is a chat."""

WORDS = ("the", "of", "to", "in", "is", "on", "by", "it", "or", "be", "at", "as", "we", "us", "if", "my", "do", "no")
MODELS = json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 32768}]}).encode()


class Stream(NamedTuple):
    """An answer: what comes with the first token, one event for each further token, and the end."""

    first: bytes
    rest: list[bytes]
    end: bytes

    def whole(self) -> bytes:
        return b"".join((self.first, *self.rest, self.end))


def stream(tokens: int, prompt_tokens: int, *, chat: bool, finish_apart: bool) -> Stream:
    """Return an answer of so many content events, the first of which has the text ``r0``.

    A chat opens with the event that has the role and no content; it comes together with the first token. The reason
    for its finish comes with the last token, as vLLM has it, or in an event of its own, as OpenAI has it.
    """
    words = ["r0", *(f" {WORDS[place % len(WORDS)]}" for place in range(1, tokens))]
    events = [_event(chat, _said(chat, word)) for word in words]
    opening = _event(chat, _said(chat, "", role="assistant")) if chat else b""
    end = b""
    if finish_apart:
        end = _event(chat, {"index": 0, **({"delta": {}} if chat else {"text": ""}), "finish_reason": "length"})
    else:
        events[-1] = _event(chat, _said(chat, words[-1]) | {"finish_reason": "length"})
    usage: dict[str, Any] = {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + tokens,
        "completion_tokens": tokens,
    }
    usage["prompt_tokens_details"] = {"cached_tokens": prompt_tokens // 2}  # what the prompts share was there
    end += _event(chat, None, usage=usage) + b"data: [DONE]\n\n"
    return Stream(opening + events[0], events[1:], end)


def _said(chat: bool, text: str, **role: str) -> dict[str, Any]:
    said = {"delta": {**role, "content": text}} if chat else {"text": text}
    return {"index": 0, **said, "logprobs": None, "finish_reason": None}


def _event(chat: bool, choice: dict[str, Any] | None, **more: Any) -> bytes:
    event = {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-6f1d0a7c9b2e4835a1c07d52e8f94b36",
        "object": "chat.completion.chunk" if chat else "text_completion",
        "created": 1_790_000_000,
        "model": MODEL,
        "choices": [choice] if choice else [],
        **more,
    }
    return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"
