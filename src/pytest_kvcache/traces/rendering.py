"""What prompt does a recorded body make? One text of a conversation, or what was given as it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Given: TypeAlias = str | Sequence[int]

_AS_JSON = frozenset(  # parts that templates write out, as JSON here
    ("tool_use", "tool_result", "tool_call", "tool_call_response", "function_call", "function_call_output")
)
_UNSEEN = frozenset(("thinking", "redacted_thinking", "reasoning"))  # templates leave earlier thoughts out


class NoPrompt(ValueError):
    """A body whose prompt is not understood; says why and quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation that a template is yet to render.

    Attributes:
        body: as of ``/v1/chat/completions``, with ``messages`` and, where there are any, ``tools``.
        unread: parts that are no text, such as images; their tokens are not known.
    """

    body: Mapping[str, Any]
    unread: int = 0


def prompts_of(api: str, body: Mapping[str, Any]) -> list[Given | Conversation]:
    """Return the prompts of a body, several where one request asks for several.

    Args:
        api: a key of :data:`pytest_kvcache.apis.PATHS`.
        body: as recorded.

    Raises:
        NoPrompt: there is none, or the form is not read.
    """
    if api == "chat":
        return [_conversation(body, _messages(body.get("messages"), "messages"))]
    if api == "messages":
        return [_conversation(body, [*_system(body.get("system")), *_messages(body.get("messages"), "messages")])]
    if api == "responses":
        given = body.get("input")
        turns = [{"role": "user", "content": given}] if isinstance(given, str) else _messages(given, "input")
        return [_conversation(body, [*_system(body.get("instructions")), *map(_turn_of, turns)])]
    if api in ("completions", "completion", "ollama"):
        return list(_texts(body.get("prompt"), "prompt"))
    if api == "generate":
        name = "text" if body.get("text") is not None else "input_ids"
        return list(_texts(body.get(name), name))
    raise NoPrompt(f"prompts of the form {api!r} are not read from traces")


def plain(conversation: Conversation) -> str:
    """Return a conversation as text without any model's template: tools first, then each message.

    A line with the role, then the content, then calls of tools; at the end the line of the role that answers. JSON is
    written in one notation, in the order of its keys, in which servers write it too.
    """
    body = conversation.body
    lines = ["tools", *map(_json, body["tools"])] if body.get("tools") else []
    for message in body["messages"]:
        lines.append(str(message.get("role")))
        content = message.get("content")
        if content is not None:
            lines.append("\n".join(filter(None, map(_said, _parts(content)))))
        lines += map(_json, message.get("tool_calls") or ())
    return "\n".join((*lines, "assistant\n"))


def _conversation(body: Mapping[str, Any], messages: list[dict[str, Any]]) -> Conversation:
    lists = [("tools", body.get("tools")), *(("tool_calls", message.get("tool_calls")) for message in messages)]
    for name, given in lists:
        if given is not None and not isinstance(given, list):
            raise NoPrompt(f"{name!r} is no list")
    unread = sum(_said(part) is None for message in messages for part in _parts(message.get("content")))
    return Conversation({**body, "messages": messages}, unread)


def _messages(given: Any, name: str) -> list[dict[str, Any]]:
    if not isinstance(given, list) or not given or not all(isinstance(message, dict) for message in given):
        raise NoPrompt(f"{name!r} is no list of messages")
    return given


def _system(given: Any) -> Iterator[dict[str, Any]]:
    if given:
        yield {"role": "system", "content": given}


def _turn_of(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item of a Responses input as a message."""
    if item.get("role") is not None or item.get("type") in ("message", None):
        return item
    role = "tool" if item.get("type") == "function_call_output" else "assistant"
    return {"role": role, "content": [item]}


def _texts(given: Any, name: str) -> Iterator[Given]:
    """Return one prompt or several, each a text or token ids."""
    if isinstance(given, str) or _are_ids(given):
        yield given
    elif isinstance(given, list) and given and all(isinstance(one, str) or _are_ids(one) for one in given):
        yield from given
    else:
        raise NoPrompt(f"{name!r} is neither text nor token ids")


def _are_ids(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and all(type(one) is int and 0 <= one < 2**32 for one in given)


def _parts(content: Any) -> Iterable[Any]:
    return content if isinstance(content, list) else () if content is None else (content,)


def _said(part: Any) -> str | None:
    """Return the text of a part of a content, None where it is not text."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return _json(part)
    if part.get("type") in _AS_JSON:
        return _json(part)
    if part.get("type") in _UNSEEN:
        return ""
    name = "content" if part.get("type") == "text" and "text" not in part else "text"  # as OpenTelemetry, as all others
    return next((part[said] for said in (name, "refusal") if isinstance(part.get(said), str)), None)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
