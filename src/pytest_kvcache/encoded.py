"""A request's body as JSON. Pure.

The standard library's encoder looks at every character of a prompt, which costs more than sending it does; a long text
is searched for the few that JSON writes otherwise, and stands there as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

_LONG = 256  # characters from which on that pays
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))  # the backslash comes first
_OTHERS = tuple(chr(code) for code in (*range(32), 127) if chr(code) not in "\n\r\t")
_FIELDS = ("prompt", "text")
_HOLE = "\0"
_WRITTEN = json.dumps(_HOLE)
_dumps = json.JSONEncoder(separators=(",", ":")).encode
_strictly = json.JSONEncoder(allow_nan=False).encode


def encoded(body: Mapping[str, Any]) -> bytes:
    """Return what ``json.dumps`` writes for a body, without white space."""
    shape, texts = _shape(body)
    parts = _dumps(shape).split(_WRITTEN)
    if len(parts) != len(texts) + 1:  # the body has what a hole looks like
        return _dumps(body).encode()
    return "".join(part for pair in zip_longest(parts, texts, fillvalue="") for part in pair).encode()


def check(body: Mapping[str, Any]) -> None:
    """Find out whether a body is JSON, which knows neither NaN nor infinity.

    Raises:
        TypeError, ValueError, RecursionError: as ``json.dumps``: it is none.
    """
    _strictly(_shape(body)[0])


def _shape(body: Mapping[str, Any]) -> tuple[dict[str, object], list[str]]:
    """Return a body with holes in place of its long texts, and these as JSON has them, in the order of the body."""
    texts: list[str] = []
    shape: dict[str, object] = {}
    for name, value in body.items():
        if name == "messages" and isinstance(value, list):
            shape[name] = [_message(message, texts) for message in value]
        else:
            shape[name] = _hole(value, texts) if name in _FIELDS else value
    return shape, texts


def _message(message: object, texts: list[str]) -> object:
    content = message.get("content") if isinstance(message, dict) else None
    hole = _hole(content, texts)
    return {**message, "content": hole} if isinstance(message, dict) and hole is not content else message


def _hole(value: object, texts: list[str]) -> object:
    if not isinstance(value, str) or len(value) < _LONG or not value.isascii():
        return value
    if any(map(value.__contains__, _OTHERS)):
        return value
    text = value
    for character, written in _ESCAPES:
        if character in text:
            text = text.replace(character, written)
    texts.append(f'"{text}"')
    return _HOLE
