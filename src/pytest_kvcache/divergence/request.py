"""What of a request's body becomes prompt, in the order in which chat templates render it, whatever API it is for.

Nothing here refuses a body: what is not understood is compared as JSON.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

PartKind = Literal["text", "reasoning", "call", "image", "ids"]

_SYSTEM = ("system", "developer")
_ROLES = (*_SYSTEM, "user", "assistant", "model", "tool", "function")  # any other word may be the user's own
_SYSTEM_FIELDS = ("system", "instructions", "systemInstruction", "system_instruction")
_PROMPT_FIELDS = ("prompt", "text", "input_ids")
_REASONING = ("reasoning_content", "reasoning", "thinking")
_IMAGES = ("image_url", "image", "inline_data", "inlineData", "source")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of one kind of a message.

    Attributes:
        kind: ``image`` parts hold a digest as their text, ``ids`` parts the tokens as their value.
        text: what is compared.
        number: position in the content; None where the content is one text or the part is beside it.
        value: the JSON value, for those that are one.
    """

    kind: PartKind
    text: str
    number: int | None = None
    value: Any = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    Attributes:
        index: in the body's list; None for a system prompt or a prompt that is a field of its own.
        role: one of the common roles, ``prompt``, or ``other``.
        parts: in order, what is beside the content at the places where templates put it.
        calls: ids of its tool calls, or of the call that it answers; few templates write them.
    """

    index: int | None
    role: str
    parts: tuple[Part, ...]
    calls: tuple[Any, ...] = ()

    @property
    def where(self) -> str:
        """The place in words, without any text of the user's."""
        if self.role == "prompt":
            return "prompt"
        if self.role in _SYSTEM and not self.index:
            return "system prompt" if self.index is None else "system message"
        return f"message {self.index} ({self.role})"

    @property
    def text(self) -> str:
        """All of its text."""
        return "\n".join(part.text for part in self.parts if part.kind != "image")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A request by what a template renders first, second, and so on.

    Attributes:
        system: the messages at the head that are the system's.
        tools: definitions of the tools; None without any.
        messages: all others.
    """

    system: tuple[Message, ...]
    tools: Any
    messages: tuple[Message, ...]


def read(body: Mapping[str, Any]) -> Rendered:
    """Return the parts of a body that become its prompt."""
    fields = [Message(None, "system", tuple(_content(body[name]))) for name in _SYSTEM_FIELDS if body.get(name)]
    listed = [_message(number, given) for number, given in enumerate(_listed(body))]
    head = next((at for at, message in enumerate(listed) if message.role not in _SYSTEM), len(listed))
    prompt = () if listed else tuple(_prompt(body))
    return Rendered((*fields, *listed[:head]), body.get("tools") or None, (*listed[head:], *prompt))


def as_json(value: Any, *, ordered: bool = False) -> str:
    """Return JSON as templates write it (``ensure_ascii=False``); ``ordered``: with sorted keys."""
    return json.dumps(value, ensure_ascii=False, sort_keys=ordered, default=str)


def _listed(body: Mapping[str, Any]) -> Sequence[Any]:
    for name in ("messages", "contents", "input"):
        given = body.get(name)
        if isinstance(given, list):
            return given
        if isinstance(given, str) and name == "input":
            return [{"role": "user", "content": given}]
    return []


def _prompt(body: Mapping[str, Any]) -> Iterator[Message]:
    for name in _PROMPT_FIELDS:
        given = body.get(name)
        if isinstance(given, list) and given and all(isinstance(token, int) for token in given):
            yield Message(None, "prompt", (Part("ids", "", value=tuple(given)),))
        elif given:
            yield Message(None, "prompt", (Part("text", given if isinstance(given, str) else as_json(given)),))


def _message(index: int, given: Any) -> Message:
    if not isinstance(given, Mapping):
        return Message(index, "other", (Part("text", as_json(given)),))
    role = given.get("role")
    if role not in _ROLES:
        role = "tool" if given.get("type") == "function_call_output" else "other"
    known = [name for name in ("content", "parts", "output") if given.get(name) is not None]
    parts = [Part("reasoning", _text(given[name])) for name in _REASONING if given.get(name)]
    parts += [part for name in known for part in _content(given[name])]
    calls = given.get("tool_calls")
    parts += [_call(call) for call in (calls if isinstance(calls, list) else ())]
    if given.get("type") == "function_call":
        parts.append(_call({"function": given}))
    ids = [call.get("id") for call in (calls if isinstance(calls, list) else ()) if isinstance(call, Mapping)]
    return Message(index, str(role), tuple(parts), (*ids, given.get("tool_call_id"), given.get("call_id")))


def _content(content: Any) -> Iterator[Part]:
    """Return the parts of a content, or of a list of them."""
    if isinstance(content, Mapping) and isinstance(content.get("parts"), list):
        content = content["parts"]
    if isinstance(content, list):
        for number, part in enumerate(content):
            nested = part.get("content") if isinstance(part, Mapping) and part.get("type") == "tool_result" else None
            yield from (_part(number, inner) for inner in (nested if isinstance(nested, list) else [part]))
    elif content:
        yield Part("text", _text(content))


def _part(number: int, part: Any) -> Part:
    if not isinstance(part, Mapping):
        return Part("text", _text(part), number)
    for name in _IMAGES:
        if part.get(name) is not None:
            return Part("image", _digest(part[name]), number)
    for name in _REASONING:
        if isinstance(part.get(name), str):
            return Part("reasoning", part[name], number)
    if isinstance(part.get("text"), str):
        return Part("text", part["text"], number)
    if part.get("type") in ("tool_use", "function_call") or "functionCall" in part:
        shown = {name: value for name, value in part.items() if name not in ("id", "call_id")}
        return Part("call", as_json(shown), number, shown)
    if part.get("type") == "tool_result":
        return Part("text", _text(part.get("content")), number)
    return Part("text", as_json(part), number)


def _call(call: Any) -> Part:
    """Return a tool call by its function; ids of calls are new each time, and most templates leave them out."""
    function = call.get("function", call) if isinstance(call, Mapping) else call
    if not isinstance(function, Mapping):
        return Part("call", as_json(function))
    arguments = function.get("arguments")
    return Part("call", f"{_text(function.get('name'))}({_text(arguments)})", value=arguments)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else as_json(value)


def _digest(image: Any) -> str:
    """Return what tells images apart: the hash of their bytes where the body holds them, else the hash of its text."""
    url = image.get("url", image.get("data")) if isinstance(image, Mapping) else image
    if not isinstance(url, str):
        return sha256(as_json(image).encode("utf-8", "surrogatepass")).hexdigest()
    encoded = url.partition(",")[2] if url.startswith("data:") else url if isinstance(image, Mapping) else ""
    try:
        content = base64.b64decode(encoded, validate=True) if encoded and "://" not in encoded else url.encode()
    except (binascii.Error, ValueError):
        content = url.encode("utf-8", "surrogatepass")
    return sha256(content).hexdigest()
