"""Errors as servers write them into a body, whatever the status says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .usage import SHORT

# What every answer that is none of an error carries, one form or another.
_CONTENT = frozenset(
    {"candidates", "choices", "content", "delta", "message", "meta_info", "output", "response", "text"}
)


def error_message(body: Mapping[str, Any]) -> str | None:
    """Return the message of an error object, None when ``body`` is none.

    Shapes in use: ``{"error": {"message"}}`` (OpenAI, Anthropic, llama.cpp, SGLang), ``{"error": "..."}``,
    ``{"object": "error", "message"}`` (older vLLM), ``{"type": "error", "message"}`` (an event of the Responses API),
    ``{"detail": ...}`` (FastAPI), ``{"message"}`` or ``{"Message"}`` alone (Amazon Bedrock).
    """
    error = body.get("error")
    if isinstance(error, dict):
        return _said(error.get("message") or error.get("type") or error)
    if error:
        return _said(error)
    if body.get("object") == "error" or body.get("type") == "error":
        return _said(body.get("message") or body)
    detail = body.get("detail")
    if detail and _CONTENT.isdisjoint(body):
        return _said(detail)
    alone = body.get("message") or body.get("Message")
    return (
        alone if isinstance(alone, str) and (_CONTENT - {"message"}).isdisjoint(body) and "type" not in body else None
    )


def _said(value: object) -> str:
    return value if isinstance(value, str) else SHORT.repr(value)
