"""Two texts that differ: from which character on, in what, and of which class is it?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..model.divergence import Class
from ..prefix import common
from .volatile import differing

_SAME_AFTER = 24  # characters other than white space that must agree behind changed white space
_LONGEST = 4096  # characters of white space that are looked at
_STARTS = 8  # opening brackets that are tried, from the front and from the back
_THINKING = re.compile(
    r"</?(?:think|thinking|thought|reasoning|analysis)>|\[/?THINK\]|<\|channel\|>analysis|<\|think", re.I
)
_BEFORE, _BEHIND = 20, 8


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two texts part.

    Attributes:
        cause: None: of no class that the text alone shows.
        at: the first character that differs.
        left_end / right_end: ends of what differs, as far as the class tells it.
        start: where it begins, such as the date of which only the seconds differ.
    """

    cause: Class | None
    at: int
    left_end: int
    right_end: int
    start: int | None = None


def compare(left: str, right: str) -> Difference | None:
    """Return where two texts part, None when they are equal."""
    if left == right:
        return None
    at = common(left, right)
    spaces = _spaces(left, right, at)
    if spaces is not None:
        return Difference("whitespace", at, *spaces)
    same = _same_json(left, right, at)
    if same is not None:
        return Difference(same[0], at, *same[1:])
    if _thinks(left, at) != _thinks(right, at):
        return Difference("template_history", at, len(left), len(right))
    spans = differing(left, right, at)
    if spans is not None:
        return Difference(spans[0].cause, at, spans[0].end, spans[1].end, spans[0].start)
    return Difference(None, at, len(left), len(right))


def _spaces(left: str, right: str, at: int) -> tuple[int, int] | None:
    """Return the ends of white space that differs, when what follows it is the same; None when it is not."""
    start = at
    while start and left[start - 1].isspace() and at - start < _LONGEST:
        start -= 1
    ends = [_space_end(text, start) for text in (left, right)]
    if left[start : ends[0]] == right[start : ends[1]]:
        return None
    rests = [
        "".join(text[end : end + _LONGEST].split())[:_SAME_AFTER] for text, end in zip((left, right), ends, strict=True)
    ]
    if rests[0] != rests[1] or (not rests[0] and (left[ends[0] :] or right[ends[1] :])):
        return None
    return ends[0], ends[1]


def _space_end(text: str, start: int) -> int:
    end = start
    while end < len(text) and end - start < _LONGEST and text[end].isspace():
        end += 1
    return end


def _same_json(left: str, right: str, at: int) -> tuple[Class, int, int] | None:
    """Return in what two equal JSON values around a position differ, the order of keys or notation, and their ends."""
    for start in _openings(left, at):
        one, other = _parsed(left, start), _parsed(right, start)
        if one is None or other is None or min(one[1], other[1]) <= at:
            continue
        if one[0] == other[0]:
            return "notation" if _keys(one[0]) == _keys(other[0]) else "key_order", one[1], other[1]
    return None


def _keys(value: Any) -> Any:
    """Return the keys of a JSON value, and of all in it, in their order."""
    if isinstance(value, dict):
        return [(key, _keys(inner)) for key, inner in value.items()]
    return [_keys(inner) for inner in value] if isinstance(value, list) else None


def _openings(text: str, at: int) -> Iterator[int]:
    found = [match.start() for match in islice(re.finditer(r"[{\[]", text[:at]), 10_000)]
    yield from found[:_STARTS]
    yield from reversed(found[_STARTS:][-_STARTS:])


def _parsed(text: str, start: int) -> tuple[Any, int] | None:
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value, end


def _thinks(text: str, at: int) -> bool:
    """Tell whether a mark of a think block stands at a position."""
    return _THINKING.search(text[max(0, at - _BEFORE) : at + _BEFORE]) is not None
