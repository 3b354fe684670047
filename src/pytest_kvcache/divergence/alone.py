"""One request alone: what in it will be another in the next one, and stands before something that will not?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..model import Divergence
from .advice import advice_for
from .found import Found
from .request import Message, Rendered, as_json, read
from .volatile import clear

_WORTH_MOVING = 200  # characters behind something volatile in the first message
_CONTEXT = 60


def volatile(body: Mapping[str, Any]) -> Iterator[tuple[Divergence, tuple[int, int]]]:
    """Return what is volatile beyond doubt in the system prompt, the tools or the first message, and its characters.

    Later messages are history: their times are those of then, and stay.
    """
    request = read(body)
    texts = _texts(request)
    left = sum(len(text) for *_, text, _ in texts)
    for where, message, part, text, least in texts:
        left -= len(text)
        if least is None:
            continue
        for span in clear(text):
            behind = len(text) - span.end + left
            if behind < least:
                continue
            found = Found(
                span.cause,
                where,
                message,
                part,
                character=span.start,
                detail=f"{behind:,} characters stand behind it",
                shared=text[max(0, span.start - _CONTEXT) : span.start],
                left=text[span.start : span.end],
            )
            yield found.told(advice_for(found, before_tools=request.tools is not None)), (span.start, span.end)


_Text = tuple[str, "int | None", "int | None", str, "int | None"]


def _texts(request: Rendered) -> list[_Text]:
    """Return the texts of a prompt, with how many characters behind something make it matter; None: nothing does."""
    found = [text for message in request.system for text in _of(message, 1)]
    if request.tools is not None:
        found.append(("tools", None, None, as_json(request.tools), 1))
    for number, message in enumerate(request.messages):
        found += _of(message, None if number else _WORTH_MOVING)
    return found


def _of(message: Message, least: int | None) -> Iterator[_Text]:
    for part in message.parts:
        if part.kind == "text":
            yield message.where, message.index, part.number, part.text, least
