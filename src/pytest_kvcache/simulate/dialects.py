"""Other ways to ask for a chat and to tell its answer: Anthropic messages and OpenAI responses, as vLLM 0.32 has them.

Both become a chat request, and the chat's answer is told anew. Errors keep the OpenAI form.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

from .body import BodyError

_ALL_USAGE = {"include_usage": True, "continuous_usage_stats": True}  # what vLLM asks of its own chat route
Event = tuple[str, dict[str, Any]]


class Dialect(ABC):
    """One way to speak; an object lives as long as one request."""

    always_details = False

    def __init__(self) -> None:
        self._text: list[str] = []
        self._usage: dict[str, Any] | None = None
        self._done = False

    @abstractmethod
    def chat_body(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the body of the chat request that asks the same."""

    @abstractmethod
    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return the answer that tells the same as a chat's."""

    @abstractmethod
    def _begin(self, first: dict[str, Any]) -> Iterator[Event]: ...

    @abstractmethod
    def _open(self) -> Iterator[Event]: ...

    @abstractmethod
    def _piece(self, text: str) -> Event: ...

    @abstractmethod
    def _end(self) -> Iterator[Event]: ...

    async def events(self, chunks: AsyncIterator[bytes | None]) -> AsyncGenerator[bytes | None, None]:
        """Return the events that tell the same as a chat's stream; None is passed on."""
        begun = False
        async for chunk in chunks:
            if chunk is None:
                yield None
                return
            for line in chunk.decode().split("\n\n")[:-1]:
                data = line.removeprefix("data: ")
                if data == "[DONE]":
                    self._done = True
                    continue
                event = json.loads(data)
                if "error" in event:
                    yield _sse([("error", {"type": "error", **event})])
                    return
                if not begun:
                    begun = True
                    yield _sse(self._begin(event))
                    continue  # the role
                self._usage = event["usage"] if not event["choices"] else self._usage
                for choice in event["choices"]:
                    if not self._text:
                        yield _sse(self._open())
                    self._text.append(choice["delta"]["content"])
                    yield _sse([self._piece(self._text[-1])])
        yield _sse(self._end())


def _sse(events: Iterator[Event] | list[Event]) -> bytes:
    return b"".join(f"event: {name}\ndata: {json.dumps(content)}\n\n".encode() for name, content in events)


def _flat(content: Any) -> Any:
    """Return the text of a list of parts; anything but text is kept as JSON."""
    if not isinstance(content, list):
        return content
    return "".join(part["text"] if isinstance(part, dict) and "text" in part else json.dumps(part) for part in content)


def chat_request(given: dict[str, Any], system: Any, turns: Any, max_tokens: Any) -> dict[str, Any]:
    """Return the body of a chat request: what is asked under other names, and the rest as it was given."""
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise BodyError("expected a list of objects with role and content", "messages")
    messages = [{"role": "system", "content": _flat(system)}] if system else []
    messages += [{**turn, "content": _flat(turn.get("content"))} for turn in turns]
    kept = {name: given.get(name) for name in ("model", "stream", "tools", "temperature", "cache_salt")}
    options = _ALL_USAGE if given.get("stream") else None
    return {**kept, "messages": messages, "max_tokens": max_tokens, "stream_options": options}
