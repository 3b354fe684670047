"""Answers read as the client reads them, without a network: the stamp of an event is its number."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_kvcache.replies import Answer, Usage, UsageReading
from pytest_kvcache.sse import EventStream

DATA = Path(__file__).parents[2] / "data"


def stream(api: str, text: str | bytes, *rules: UsageReading) -> Answer:
    answer = Answer(api, rules)
    raw = text.encode() if isinstance(text, str) else text
    for number, event in enumerate(EventStream().feed(raw)):
        answer.take_event(event.data, float(number))
    answer.close()
    return answer


def whole(api: str, body: object, *rules: UsageReading, headers: dict[str, str] | None = None) -> Answer:
    answer = Answer(api, rules)
    answer.take_body(body if isinstance(body, (str, bytes)) else json.dumps(body), 0.0)
    answer.close(headers)
    return answer


def recorded(api: str, name: str) -> Answer:
    content = (DATA / name).read_bytes()
    return stream(api, content) if name.endswith(".sse") else whole(api, content)


def lines(*chunks: object) -> str:
    return "".join(f"data: {c if isinstance(c, str) else json.dumps(c)}\n\n" for c in chunks)


def tokens(answer: Answer) -> tuple[int | None, int | None, int | None, int | None]:
    """Prompt, cached, written, completion."""
    usage: Usage = answer.usage
    return usage.prompt, usage.cached, usage.written, usage.completion


def failed(answer: Answer) -> str | None:
    return None if answer.failure is None else answer.failure.kind
