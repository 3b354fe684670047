"""OpenAI's ``/v1/responses`` as vLLM 0.32 answers it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .dialects import Dialect, Event, chat_request


class Responses(Dialect):
    """``/v1/responses``. Cached tokens are told whatever the server's flag (vLLM 0.32)."""

    always_details = True

    def __init__(self) -> None:
        super().__init__()
        self._sequence_number = -1
        self._head: dict[str, Any] = {}

    def chat_body(self, given: dict[str, Any]) -> dict[str, Any]:
        """See the base."""
        asked = given.get("input")
        turns = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
        return chat_request(given, given.get("instructions"), turns, given.get("max_output_tokens"))

    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        """See the base."""
        return self._response(answer, answer["choices"][0]["message"]["content"], answer["usage"])

    def _response(self, head: dict[str, Any], text: str | None, usage: dict[str, Any] | None) -> dict[str, Any]:
        number = head["id"].removeprefix("chatcmpl-")
        made = {"id": f"resp_{number}", "object": "response", "created_at": head["created"], "model": head["model"]}
        if text is None:
            return {**made, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
        told = None if usage is None else self._told(usage)
        why = {"reason": "max_output_tokens"}
        output = [self._item(number, text, "completed")]
        return {**made, "status": "incomplete", "incomplete_details": why, "output": output, "usage": told}

    @staticmethod
    def _item(number: str, text: str | None, status: str) -> dict[str, Any]:
        content = [] if text is None else [_part(text)]
        return {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": status, "content": content}

    @staticmethod
    def _told(usage: dict[str, Any]) -> dict[str, Any]:
        details = usage.get("prompt_tokens_details")
        told: dict[str, Any] = {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}
        if details is not None:
            counts = {"cached_tokens": details["cached_tokens"], "cache_write_tokens": details["created_cache_tokens"]}
            turns: dict[str, list[int]] = {"input_tokens_per_turn": [], "cached_tokens_per_turn": []}
            told["input_tokens_details"] = {**counts, **turns}
        return {**told, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": usage["total_tokens"]}

    def _numbered(self, name: str, **content: Any) -> Event:
        self._sequence_number += 1
        return name, {"type": name, "sequence_number": self._sequence_number, **content}

    def _begin(self, first: dict[str, Any]) -> Iterator[Event]:
        self._head = first
        for name in ("response.created", "response.in_progress"):
            yield self._numbered(name, response=self._response(first, None, None))

    def _open(self) -> Iterator[Event]:
        item = self._item(self._number, None, "in_progress")
        yield self._numbered("response.output_item.added", output_index=0, item=item)
        yield self._located("response.content_part.added", part=_part(""))

    def _piece(self, text: str) -> Event:
        return self._located("response.output_text.delta", delta=text, logprobs=[])

    def _end(self) -> Iterator[Event]:
        text = "".join(self._text)
        response = self._response(self._head, text, self._usage)
        yield self._located("response.output_text.done", text=text, logprobs=[])
        yield self._located("response.content_part.done", part=_part(text))
        yield self._numbered("response.output_item.done", output_index=0, item=response["output"][0])
        if self._done:
            yield self._numbered("response.completed", response=response)

    @property
    def _number(self) -> str:
        return str(self._head["id"]).removeprefix("chatcmpl-")

    def _located(self, name: str, **content: Any) -> Event:
        return self._numbered(name, item_id=f"msg_{self._number}", output_index=0, content_index=0, **content)


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": None}
