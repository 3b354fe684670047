"""What an answer says: content, usage, finish reason and errors, from one JSON body or from the chunks of a stream.

Servers differ around the same protocol, so nothing but what is needed is required: ``choices`` may be empty anywhere,
usage may come in a chunk of its own, in every chunk or twice, ``[DONE]`` may be missing, and an error object may stand
inside a stream that began with status 200.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from .model import Failure

DONE = "[DONE]"


class _Details(BaseModel):
    model_config = ConfigDict(extra="ignore")
    cached_tokens: NonNegativeInt | None = None


class Usage(BaseModel):
    """The ``usage`` object of OpenAI-style answers; absent and null both mean "not reported"."""

    model_config = ConfigDict(extra="ignore")
    prompt_tokens: NonNegativeInt | None = None
    completion_tokens: NonNegativeInt | None = None
    prompt_tokens_details: _Details | None = None


class Answer:
    """Accumulates one answer, streamed or whole."""

    __slots__ = (
        "cached_tokens",
        "chunks",
        "completion_tokens",
        "done",
        "failure",
        "finish_reason",
        "prompt_tokens",
        "reasoning",
        "text",
    )

    def __init__(self) -> None:
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.finish_reason: str | None = None
        self.failure: Failure | None = None
        self.done = False
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.chunks: list[float] = []

    @property
    def complete(self) -> bool:
        """A finish reason or the sentinel came; the end of the body alone says nothing."""
        return self.finish_reason is not None or self.done

    def take_event(self, data: str, at: float) -> None:
        """Take one event of a stream, received at ``at``."""
        if data.strip() == DONE:
            self.done = True
            return
        self.take_body(data, at)

    def take_body(self, text: str | bytes, at: float) -> None:
        """Take one JSON text: a chunk of a stream or a whole answer."""
        try:
            body = json.loads(text)
        except ValueError as error:
            self.failure = Failure("protocol", f"not JSON ({error}): {_excerpt(text)}")
            return
        if not isinstance(body, dict):
            self.failure = Failure("protocol", f"expected a JSON object, got {_excerpt(text)}")
            return
        error_text = error_message(body)
        if error_text is not None:
            self.failure = Failure("server", error_text)
            return
        self._take_choices(body.get("choices"), at)
        if body.get("usage") is not None:
            self._take_usage(body["usage"])

    def _take_choices(self, choices: Any, at: float) -> None:
        content = False
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            part = choice.get("delta") or choice.get("message") or choice
            if not isinstance(part, dict):
                continue
            first = choice.get("index") in (0, None)
            text = part.get("content") or part.get("text")
            reasoning = part.get("reasoning_content") or part.get("reasoning")
            if isinstance(text, str) and text:
                content = True
                if first:
                    self.text.append(text)
            if isinstance(reasoning, str) and reasoning:
                content = True
                if first:
                    self.reasoning.append(reasoning)
            if part.get("tool_calls"):
                content = True
            if first and isinstance(choice.get("finish_reason"), str):
                self.finish_reason = choice["finish_reason"]
        if content:
            self.chunks.append(at)

    def _take_usage(self, usage: Any) -> None:
        # Usage is a running total, never an increment: the last value of each field wins.
        try:
            seen = Usage.model_validate(usage)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            self.failure = Failure("protocol", f"usage.{where}: {first['msg']}, got {first['input']!r}")
            return
        if seen.prompt_tokens is not None:
            self.prompt_tokens = seen.prompt_tokens
        if seen.completion_tokens is not None:
            self.completion_tokens = seen.completion_tokens
        if seen.prompt_tokens_details is not None and seen.prompt_tokens_details.cached_tokens is not None:
            self.cached_tokens = seen.prompt_tokens_details.cached_tokens


def error_message(body: dict[str, Any]) -> str | None:
    """Return the message of an error object, None when ``body`` is none. Four shapes are in use."""
    error = body.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or error.get("type") or error)
    if isinstance(error, str) and error:
        return error
    if body.get("object") == "error":
        return str(body.get("message"))
    detail = body.get("detail")
    return str(detail) if detail and "choices" not in body else None


def _excerpt(text: str | bytes, limit: int = 120) -> str:
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return repr(shown if len(shown) <= limit else shown[:limit] + "…")
