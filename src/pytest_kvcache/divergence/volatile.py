"""Texts that are new in every request: times, random ids, counters. Which of them stands at a position?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ..model.divergence import Class
from .calendar import EASTERN, MONTH, WEEKDAY

_AROUND = 96  # characters on either side; no date is longer

_DAY = r"\d{1,2}(?:st|nd|rd|th|er|\.)?"
_CLOCK = r"(?:[01]?\d|2[0-4])[:h][0-5]\d(?:[:m][0-5]\d(?:[.,]\d{1,9})?)?(?: ?[AaPp]\.?[Mm]\b\.?)?"
_ISO = r"(?:19|20)\d\d[-/.][01]?\d[-/.][0-3]?\d"
_UNITS = (
    _ISO,
    r"(?:19|20)\d\d[01]\d[0-3]\d(?:[T_-]?[0-2]\d[0-5]\d(?:[0-5]\d)?)?",  # 20260105T104107
    r"(?:19|20)\d\d-[01]\d-[0-3]\d[T_][0-2]\d-[0-5]\d-[0-5]\d",
    r"(?:19|20)\d\d-?W[0-5]\d",
    r"[0-3]?\d/[0-3]?\d/(?:\d{4}|\d\d)",
    r"[0-3]?\d[-.][01]?\d[-.](?:19|20)\d\d",
    rf"{_DAY}(?: (?:of|de))?[ -]{MONTH}(?:,?(?: de)?[ -](?:19|20)\d\d)?",
    rf"{MONTH} {{1,2}}{_DAY}(?:, ?| )(?:19|20)\d\d",
    rf"{MONTH} (?:(?:19|20)\d\d| ?{_DAY})",
    _CLOCK,
    rf"{WEEKDAY}\.?",
)
_EPOCH = r"1[0-9](?:\d{8}(?:\.\d{1,9})?|\d{11}|\d{14}|\d{17})"  # seconds, milli-, micro-, nanoseconds: 2001 to 2033
_UNIT = rf"(?:{'|'.join(_UNITS)})"
_ZONE = r"(?: ?(?:Z|UTC|GMT|CES?T|[ECMP][SD]T)\b| ?[+-][01]\d:?[0-5]\d)?"
_TIMES = rf"{_UNIT}(?:(?:,? (?:at|um|à|às|alle|a las) |, ?| |T|_)?{_UNIT}){{0,4}}{_ZONE}(?: (?:19|20)\d\d)?"
_TIME = re.compile(rf"(?<![\w.])(?:{_TIMES}|{_EPOCH})(?![\w-]|[.:]\d)|(?<!\d){EASTERN}", re.IGNORECASE)
_CLEAR_DATE = rf"(?:{MONTH} {{1,2}}{_DAY},? (?:19|20)\d\d|{_DAY} {MONTH} (?:19|20)\d\d)"
_CLEAR_TIME = re.compile(  # hours of business and days of release do not change
    rf"(?<![\w.])(?:{_ISO}[T _]{_CLOCK}{_ZONE}|{_CLEAR_DATE},? (?:at )?{_CLOCK}{_ZONE}"
    rf"|[0-2]?\d:[0-5]\d:[0-5]\d(?:[.,]\d{{1,9}})?{_ZONE}|{_EPOCH})(?![\w-]|[.:]\d)"
)
_EXAMPLE = re.compile(r"\b(?:e\.g\.|examples?\b|such as\b|format)[^\n]{0,24}\Z", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_CLEAR_ID = re.compile(rf"(?<!\w)(?:{_UUID.pattern}|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{16,64}})(?!\w)")
_WORD = re.compile(r"[\w+/=-]+")
_NAMED = re.compile(
    r"\b(?:ids?|uuid|guid|nonce|session|request|trace|span|run|thread|conversation|correlation|salt|seed|token|key)"
    r"[\"')\]]*\s*(?:[:=#]|is)?\s*[\"'(\[]*$",
    re.IGNORECASE,
)
_SHORT_PREFIX = re.compile(r"^[a-zA-Z]{2,12}[_-](?=.{6})")
_SYLLABLES = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}")  # of which names in code are made
_LARGEST_STEP = 100


@dataclass(frozen=True, slots=True)
class Span:
    """Something volatile in a text: which class, and its characters from ``start`` to before ``end``."""

    cause: Class
    start: int
    end: int


def differing(left: str, right: str, at: int) -> tuple[Span, Span] | None:
    """Return what is volatile in both of two texts where they begin to differ; None when nothing is.

    Args:
        left: a text.
        right: the other one.
        at: the first characters that differ.
    """
    one, other = _time(left, at), _time(right, at)
    if (
        one is not None
        and other is not None
        and at < max(one.end, other.end)
        and not _is_named(left, right, one, other)
    ):
        return one, other
    words = _word(left, at), _word(right, at)
    if words[0] is None or words[1] is None or at >= max(words[0][1], words[1][1]):
        return None
    (start, end), (_, right_end) = words[0], words[1]
    if _count(left, right, at):
        cause: Class = "counter"
    elif _are_ids(left[:start], left[start:end], right[start:right_end]):
        cause = "random_id"
    else:
        return None
    return Span(cause, start, end), Span(cause, start, right_end)


def clear(text: str) -> Iterator[Span]:
    """Return what is volatile beyond doubt in one text alone: a date with a clock, an epoch, a UUID, long hex."""
    found = [Span("timestamp", *match.span()) for match in _CLEAR_TIME.finditer(text)]
    found += [Span("random_id", *match.span()) for match in _CLEAR_ID.finditer(text)]
    told = (span for span in found if _EXAMPLE.search(text[max(0, span.start - 48) : span.start]) is None)
    return iter(sorted(told, key=lambda span: span.start))


def _time(text: str, at: int) -> Span | None:
    low = max(0, at - _AROUND)
    for match in _TIME.finditer(text[: at + _AROUND], low):
        if match.start() <= at <= match.end():
            return Span("timestamp", *match.span())
    return None


def _is_named(left: str, right: str, one: Span, other: Span) -> bool:
    """Tell whether two "times" are only numbers that look like one: 10 digits with a word of ids in front."""
    texts = left[one.start : one.end], right[other.start : other.end]
    return all(text.isdecimal() and len(text) != 8 for text in texts) and _NAMED.search(left[: one.start]) is not None


def _word(text: str, at: int) -> tuple[int, int] | None:
    low = max(0, at - _AROUND)
    for match in _WORD.finditer(text[: at + _AROUND], low):
        if match.start() <= at <= match.end() and match.group():
            return match.span()
    return None


def _count(left: str, right: str, at: int) -> bool:
    """Tell whether the same text holds another number, not far from the first."""
    start = at
    while start and left[start - 1].isdecimal() and at - start < _AROUND:
        start -= 1
    numbers = [re.compile(r"\d{1,15}").match(text, start) for text in (left, right)]
    if numbers[0] is None or numbers[1] is None or _is_version(left, start, numbers[0].end()):
        return False
    ends = (left[numbers[0].end() :][:1], right[numbers[1].end() :][:1])
    if any(character.isalpha() for character in ends) and ends[0] != ends[1]:
        return False
    step = abs(int(numbers[0].group()) - int(numbers[1].group()))
    return 0 < step <= _LARGEST_STEP and not _is_id(_around(left, start), left[start - 1 : start])


def _is_id(word: str, before: str) -> bool:
    """Tell whether a number is a part of an id: of a UUID, or behind a letter in a word without a meaning."""
    return _UUID.search(word) is not None or (before.isalpha() and _mixed(word))


def _is_version(text: str, start: int, end: int) -> bool:
    return re.search(r"\d\.$", text[max(0, start - 2) : start]) is not None or (
        re.match(r"\.\d", text[end : end + 2]) is not None
    )


def _around(text: str, at: int) -> str:
    span = _word(text, at)
    return "" if span is None else text[slice(*span)]


def _are_ids(before: str, left: str, right: str) -> bool:
    if min(len(left), len(right)) < 6:
        return False
    if _looks_random(left) and _looks_random(right):
        return True
    named = _NAMED.search(before[-48:]) is not None or _SHORT_PREFIX.match(left) is not None
    return named and any(map(str.isdigit, left)) and any(map(str.isdigit, right))


def _looks_random(word: str) -> bool:
    if _UUID.search(word) is not None:
        return True
    core = re.sub(r"[_/+=-]", "", _SHORT_PREFIX.sub("", word))
    if len(core) < 8:
        return False
    if core.isdecimal():
        return len(core) >= 12
    return _mixed(core)


def _mixed(word: str) -> bool:
    """Tell whether letters and digits, or the cases of letters, change as often as in no language."""
    if len(word) < 8:
        return False
    if re.fullmatch(r"[0-9a-fA-F]+", word) and any(map(str.isdigit, word)) and any(map(str.isalpha, word)):
        return True
    if not any(map(str.isdigit, word)):
        return len(_SYLLABLES.sub("", word)) >= len(word) / 2
    kinds = ["d" if c.isdigit() else "u" if c.isupper() else "l" for c in word]
    return sum(a != b for a, b in pairwise(kinds)) >= 3
