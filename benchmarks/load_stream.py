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


def stream(tokens: int, prompt_tokens: int, number: int = 0, chat: bool = True) -> Stream:
    """Return an answer of so many content events, the first of which has the text ``r<number>``.

    A chat opens with the event that has the role and no content; it comes together with the first token.
    """
    words = [f"r{number}", *(f" {WORDS[place % len(WORDS)]}" for place in range(1, tokens))]
    events = [_event(number, chat, _choice(chat, word)) for word in words]
    opening = _event(number, chat, _choice(chat, "", role=True)) if chat else b""
    usage = {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens + tokens, "completion_tokens": tokens}
    usage["prompt_tokens_details"] = {"cached_tokens": 0}
    finish = _choice(chat, "") | {"finish_reason": "stop"}
    if chat:
        finish["delta"] = {}
    end = (_event(number, chat, finish), _event(number, chat, None, usage=usage), b"data: [DONE]\n\n")
    return Stream(opening + events[0], events[1:], b"".join(end))


def _choice(chat: bool, text: str, *, role: bool = False) -> dict[str, Any]:
    opening = {"role": "assistant"} if role else {}
    said = {"delta": {**opening, "content": text}} if chat else {"text": text}
    return {"index": 0, **said, "logprobs": None, "finish_reason": None}


def _event(number: int, chat: bool, choice: dict[str, Any] | None, **more: Any) -> bytes:
    event = {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{number:032x}",
        "object": "chat.completion.chunk" if chat else "text_completion",
        "created": 1_790_000_000,
        "model": MODEL,
        "choices": [choice] if choice else [],
        **more,
    }
    return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"
