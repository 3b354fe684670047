"""Without its first difference, how far would a request go on like the earlier one? In shares of its text."""

from __future__ import annotations

from ..prefix import common
from .found import Found
from .request import Message, Rendered, as_json


def reach(left: Rendered, right: Rendered, found: Found) -> float:
    """Return which share of the later request's text, from the difference on, stands before the next one.

    Args:
        left / right: the earlier and the later request.
        found: the difference; its place is not counted where more differs in it.
    """
    ours, theirs = _texts(right), _texts(left)
    place = next((at for at, (name, _) in enumerate(ours) if name == found.where), None)
    if place is None:
        return 1.0
    total = sum(len(text) for _, text in ours[place:])
    same = len(ours[place][1]) if found.alone else _same_words(theirs, ours, place)
    for (_, one), (_, other) in zip(theirs[place + 1 :], ours[place + 1 :], strict=False):
        if not found.alone:
            break
        shared = common(one, other)
        same += shared
        if shared < max(len(one), len(other)):
            break
    else:
        return 1.0
    return same / total if total else 1.0


def _same_words(theirs: list[tuple[str, str]], ours: list[tuple[str, str]], place: int) -> int:
    """Return how many characters of a text agree but for white space."""
    if place >= len(theirs):
        return 0
    return common("".join(theirs[place][1].split()), "".join(ours[place][1].split()))


def _texts(request: Rendered) -> list[tuple[str, str]]:
    """Return the texts of a request by their place, as a template renders them."""
    tools = [] if request.tools is None else [("tools", as_json(request.tools))]
    return [*map(_of, request.system), *tools, *map(_of, request.messages)]


def _of(message: Message) -> tuple[str, str]:
    return message.where, message.text
