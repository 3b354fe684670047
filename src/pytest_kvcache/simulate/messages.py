"""Anthropic's ``/v1/messages`` as vLLM 0.32 answers it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .body import BodyError
from .dialects import Dialect, Event, chat_request


class Messages(Dialect):
    """``/v1/messages``. Its ``input_tokens`` leave out what was read from the cache and what was newly cached."""

    def chat_body(self, given: dict[str, Any]) -> dict[str, Any]:
        """See the base."""
        if given.get("max_tokens") is None:
            raise BodyError("max_tokens: Field required", "max_tokens")
        return chat_request(given, given.get("system"), given.get("messages"), given["max_tokens"])

    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        """See the base."""
        text = answer["choices"][0]["message"]["content"]
        told = {**self._head(answer), "content": [{"type": "text", "text": text}], "stop_reason": "max_tokens"}
        return told if answer["usage"] is None else {**told, "usage": self._told(answer["usage"])}

    @staticmethod
    def _head(answer: dict[str, Any]) -> dict[str, Any]:
        return {"id": answer["id"], "type": "message", "role": "assistant", "model": answer["model"]}

    @staticmethod
    def _told(usage: dict[str, Any]) -> dict[str, int]:
        details = usage.get("prompt_tokens_details") or {}
        told = {"output_tokens": usage["completion_tokens"]}
        rest = usage["prompt_tokens"]
        for ours, theirs in (
            ("cached_tokens", "cache_read_input_tokens"),
            ("created_cache_tokens", "cache_creation_input_tokens"),
        ):
            if details.get(ours) is not None:
                told[theirs] = details[ours]
                rest -= details[ours]
        return {**told, "input_tokens": max(0, rest)}

    def _begin(self, first: dict[str, Any]) -> Iterator[Event]:
        message = {**self._head(first), "content": [], "stop_reason": None, "stop_sequence": None}
        usage = first.get("usage") or {"prompt_tokens": 0, "completion_tokens": 0}
        yield "message_start", {"type": "message_start", "message": {**message, "usage": self._told(usage)}}

    def _open(self) -> Iterator[Event]:
        block = {"type": "text", "text": ""}
        yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}

    def _piece(self, text: str) -> Event:
        delta = {"type": "text_delta", "text": text}
        return "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}

    def _end(self) -> Iterator[Event]:
        yield "content_block_stop", {"type": "content_block_stop", "index": 0}
        told = {} if self._usage is None else {"usage": self._told(self._usage)}
        delta = {"stop_reason": "max_tokens", "stop_sequence": None}
        yield "message_delta", {"type": "message_delta", "delta": delta, **told}
        if self._done:
            yield "message_stop", {"type": "message_stop"}
