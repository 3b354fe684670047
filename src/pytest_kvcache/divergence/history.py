"""How the messages of two requests differ: has one of them grown, lost its past, or something else in it?"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import zip_longest

from ..model.divergence import Class
from .found import CALL_ID, Found, in_text, is_ordinary
from .request import Message, Part

_SUMMARY = re.compile(
    r"\b(?:summar(?:y|i[sz]ed)|compact(?:ed|ion)|earlier conversation|cleared|truncated|omitted)\b", re.I
)
_NO_CHANCE = 40  # characters of a message that is not said twice by chance, as "go on" is
_HEAD = 200  # characters in which a summary says that it is one


def compare_system(a: Sequence[Message], b: Sequence[Message]) -> Found | None:
    """Return how the system messages differ, None when they do not."""
    for left, right in zip_longest(a, b):
        if left is None or right is None:
            present = left or right
            return Found("system_prompt", present.where, message=present.index, detail="only one has it")
        found = _compare_message(left, right, "system_prompt")
        if found is not None:
            return found
    return None


def compare_messages(a: Sequence[Message], b: Sequence[Message]) -> Found | None:
    """Return how the messages differ; None when those of one are the first ones of the other."""
    for at, (left, right) in enumerate(zip(a, b, strict=False)):
        found = _compare_message(left, right, "text")
        if found is None:
            continue
        if _moved_up(a, b, at) or (found.cause == "text" and _emptied(a, b, at)):
            return replace(found, cause="truncated_history", character=None, part=None, shared="")
        ordinary = left.role == right.role and is_ordinary(found) and _ends_what_is_shared(a, b, at, found)
        return replace(found, expected=ordinary)
    return None


def _ends_what_is_shared(a: Sequence[Message], b: Sequence[Message], at: int, found: Found) -> bool:
    """Tell whether two conversations go different ways from a message on: a question with another date or number in it.

    In one that was sent again with another clock in it, the answer behind is the same.
    """
    if at == len(b) - 1 or at == len(a) - 1:
        return True
    return found.cause != "text" and a[at].role == "user" and _said(a[at + 1]) != _said(b[at + 1])


def compare_call_ids(a: Sequence[Message], b: Sequence[Message]) -> Found | None:
    """Return the first message whose tool calls have other ids; for prompts that part although all else agrees."""
    differing = (right for left, right in zip(a, b, strict=False) if left.calls != right.calls)
    return next((Found("random_id", m.where, m.index, detail=CALL_ID) for m in differing), None)


def _compare_message(left: Message, right: Message, otherwise: Class) -> Found | None:
    where, index = right.where, right.index
    if left.role != right.role:
        return Found(otherwise, where, index, detail="another role")
    shared = ""
    for one, other in zip_longest(left.parts, right.parts):
        if one is None or other is None or one.kind != other.kind:
            return _replaced(one, other, where, index, shared)
        found = _compare_part(one, other, otherwise, where, index)
        if found is not None:
            return replace(found, shared=shared) if found.cause == "image" else found
        shared = other.text[-60:] if other.kind != "image" else shared
    return None


def _compare_part(one: Part, other: Part, otherwise: Class, where: str, index: int | None) -> Found | None:
    number = other.number
    if one.kind == "image":
        return None if one.text == other.text else Found("image", where, index, number)
    if one.kind == "ids":
        shorter = min(len(one.value), len(other.value))
        return None if one.value[:shorter] == other.value[:shorter] else Found("text", where)
    if where == "prompt" and (one.text.startswith(other.text) or other.text.startswith(one.text)):
        return None  # nothing closes a prompt of bare text: a longer one goes on where it ends
    found = in_text(one.text, other.text, otherwise, where, message=index, part=number)
    if found is not None and one.kind == "reasoning" and found.cause == "text":
        return replace(found, cause="template_history", detail="reasoning")
    return found


def _replaced(one: Part | None, other: Part | None, where: str, index: int | None, shared: str) -> Found:
    """Return what it means that a message has a part of another kind, or one more or less."""
    kinds = {part.kind for part in (one, other) if part is not None}
    number = next((part.number for part in (other, one) if part is not None), None)
    if "reasoning" in kinds:
        return Found("template_history", where, index, detail="reasoning")
    if "image" in kinds:
        return Found("image", where, index, number, shared=shared, detail="only one has it")
    return Found("text", where, index, number, detail="only one has it")


def _emptied(a: Sequence[Message], b: Sequence[Message], at: int) -> bool:
    """Tell whether a message, or all from it on, gave way to something short or to a summary."""
    left, right = a[at].text, b[at].text
    kept = [m.parts for m in a[at + 1 :]] == [m.parts for m in b[at + 1 : len(a)]]
    if kept and at < len(a) - 1 and len(right) < len(left) / 2 and a[at].role in ("tool", "function", "assistant"):
        return True
    return _SUMMARY.search(right[:_HEAD]) is not None and _SUMMARY.search(left[:_HEAD]) is None and len(b) < len(a)


def _moved_up(a: Sequence[Message], b: Sequence[Message], at: int) -> bool:
    """Tell whether messages of ``a`` stand in ``b`` further to the front, where others stood."""
    old, new = [_said(message) for message in a], [_said(message) for message in b]
    places: dict[Hashable, list[int]] = {}
    for place in range(at + 1, len(old)):
        places.setdefault(old[place], []).append(place)
    for m in range(at, min(len(new), len(old) - 1)):
        behind = next((place for place in places.get(new[m], ()) if place > m), None)
        if behind is None or old[m] == new[m]:
            continue
        both = old[behind : behind + 2] == new[m : m + 2]
        follows = m == at or old[behind - 1] == new[m - 1]
        if both if behind + 1 < len(old) else follows or len(b[m].text) > _NO_CHANCE:
            return True
    return False


def _said(message: Message) -> Hashable:
    return message.role, tuple((part.kind, part.text, part.number) for part in message.parts)
