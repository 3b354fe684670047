"""How does OpenTelemetry record what a model was asked? Its attributes and messages, turned into a chat body."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

MESSAGES = "gen_ai.input.messages"
_INSTRUCTIONS = "gen_ai.system_instructions"
_TOOLS = "gen_ai.tool.definitions"
_MODEL = "gen_ai.request.model"
_INT = re.compile(r"-?[0-9]{1,19}")


class NoMessages(ValueError):
    """Messages that are not recorded as the conventions say; quotes nothing of them."""


def attributes_of(given: object) -> Mapping[str, Any]:
    """Return attributes by their names: of an object, or of OTLP's list of keys and typed values."""
    if isinstance(given, dict):
        return given
    if not isinstance(given, list):
        return {}
    pairs = (pair for pair in given if isinstance(pair, dict) and isinstance(pair.get("key"), str))
    return {pair["key"]: _untyped(pair.get("value")) for pair in pairs}


def _untyped(value: Any) -> Any:
    """Return the value in a typed value of OTLP; 64-bit integers are texts there."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    kind, inner = next(iter(value.items()))
    kind = kind.replace("_", "").lower()
    if kind == "intvalue" and isinstance(inner, str):
        return int(inner) if _INT.fullmatch(inner) else inner
    if kind in ("arrayvalue", "kvlistvalue"):
        values = inner.get("values") or [] if isinstance(inner, dict) else []
        return [_untyped(one) for one in values] if kind == "arrayvalue" else dict(attributes_of(values))
    return inner if kind in ("stringvalue", "intvalue", "doublevalue", "boolvalue") else value


def chat_body(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was asked as a body of ``/v1/chat/completions``.

    Raises:
        NoMessages: the messages are no list of messages.
    """
    messages = _decoded(attributes[MESSAGES])
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise NoMessages(f"{MESSAGES!r} is no list of messages")
    said = [*_system(_decoded(attributes.get(_INSTRUCTIONS))), *(one for given in messages for one in _turns(given))]
    body: dict[str, Any] = {"messages": said}
    tools = _decoded(attributes.get(_TOOLS))
    if tools:
        body["tools"] = tools if isinstance(tools, list) else [tools]
    if isinstance(attributes.get(_MODEL), str):
        body["model"] = attributes[_MODEL]
    return body


def _decoded(value: Any) -> Any:
    """Return structured values that are recorded as JSON in a text, as where attributes are texts only."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _system(given: Any) -> Iterator[dict[str, Any]]:
    if given:
        yield {"role": "system", "content": given if isinstance(given, (str, list)) else [given]}


def _turns(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return a message of parts as messages of OpenAI's: calls of tools beside the content, each result by itself."""
    parts = message.get("parts")
    if not isinstance(parts, list):
        yield message  # OpenAI's form already
        return
    said = [part for part in parts if _type(part) not in ("tool_call", "tool_call_response")]
    calls = [_call(part) for part in parts if _type(part) == "tool_call"]
    if said or calls:
        turn = {"role": message.get("role"), "content": _joined(said)}
        yield {**turn, "tool_calls": calls} if calls else turn
    for part in parts:
        if _type(part) == "tool_call_response":
            result = part.get("response", part.get("result"))
            yield {"role": "tool", "tool_call_id": part.get("id"), "content": _text(result)}


def _type(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


def _joined(parts: list[Any]) -> Any:
    """Return a content of text alone as text, which every template takes."""
    if all(map(_is_text, parts)):
        return "\n".join(part["content"] for part in parts) if parts else None
    return [{"type": "text", "text": part["content"]} if _is_text(part) else part for part in parts]


def _is_text(part: Any) -> bool:
    return _type(part) == "text" and isinstance(part.get("content"), str)


def _call(part: dict[str, Any]) -> dict[str, Any]:
    function = {"name": part.get("name"), "arguments": _text(part.get("arguments"))}
    return {"id": part.get("id"), "type": "function", "function": function}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
