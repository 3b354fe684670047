"""What a server says of a refused request, without the prompt: some quote the body that they refuse. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

HIDDEN = "[prompt]"

_FIELDS = ("contents", "documents", "input", "instructions", "messages", "prompt", "suffix", "system", "text", "tools")
_NO_TEXT = ("role", "type")  # words of the form, not of the user
_STEP = 8
_RUN = 2 * _STEP  # what a message may have in common with a prompt by chance is shorter, nearly always


def unquoted(message: str, body: Mapping[str, Any]) -> str:
    """Return a short message with every longer run of characters hidden that it shares with the texts of a body.

    A run of 24 characters is always found, from 16 on it may be. Shorter texts are hidden where they are quoted whole.

    Args:
        message: one line, white space collapsed.
        body: of the request.
    """
    texts = [text for field in _FIELDS for text in _texts(body.get(field)) if text.strip()]
    for text in texts:
        if len(text) < _RUN + _STEP:
            for quoted in _quoted(text):
                message = message.replace(quoted, HIDDEN)
    forms = zip(*((text, *_quoted(text)) for text in texts), strict=True)
    return _without(message, ["\0".join(map(_collapsed, form)) for form in forms])


def _without(message: str, written: Sequence[str]) -> str:
    kept, begin, at = "", 0, 0
    while at + _RUN <= len(message):
        runs = [run for text in written if (run := _run(message, begin, at, text)) is not None]
        if not runs:
            at += _STEP
            continue
        start, end = min(start for start, _ in runs), max(end for _, end in runs)
        kept += message[begin:start] + HIDDEN
        begin = at = end
    return kept + message[begin:]


def _run(message: str, begin: int, at: int, text: str) -> tuple[int, int] | None:
    """Return the ends of what a message has from a text around a place, not before ``begin``."""
    first = text.find(message[at : at + _RUN])
    if first < 0:
        return None
    start, end, last = at, at + _RUN, first + _RUN
    while start > begin and first > 0 and message[start - 1] == text[first - 1]:
        start, first = start - 1, first - 1
    while end < len(message) and last < len(text) and message[end] == text[last]:
        end, last = end + 1, last + 1
    return start, end


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            if name not in _NO_TEXT:
                yield from _texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            if not isinstance(part, int):  # token ids, mostly
                yield from _texts(part)


def _quoted(text: str) -> tuple[str, ...]:
    return repr(text), json.dumps(text), json.dumps(text, ensure_ascii=False)


def _collapsed(text: str) -> str:
    return " ".join(text.split())
