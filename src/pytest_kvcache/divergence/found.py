"""What a comparison hands on before tokens and advice are added to it."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.divergence import Class, Divergence
from ..prefix import common
from .texts import Difference, compare
from .tokens import runs

CALL_ID = "id of a tool call"  # a detail that has its own advice
_CONTEXT = 60  # characters of text that are shown on either side
_SAME_BEHIND_TEXT = 200  # characters behind a difference in the last message that are worth moving in front of it
_SAME_BEHIND_VOLATILE = 40
_LOOK_AHEAD = 20_000
_FAR = 8  # times as long; a token has fewer characters
_ANCHOR = 32  # equal characters in a row that count as the same place


@dataclass(frozen=True, slots=True)
class Found:
    """The first difference of two requests, as their bodies tell it.

    Attributes:
        cause: its class.
        where / message / part / character / moved / detail: as of :class:`~pytest_kvcache.model.Divergence`.
        shared / left / right: the text before, and the two that differ.
        same_behind: characters that are the same behind what differs.
        width: characters of something volatile in the second text, those included that are the same.
        goes_on: far more than those are the same directly behind them.
        expected: nothing is wrong: the question is another one.
        by_template: the messages are the same, so that only the template can have written them differently.
        alone: nothing else differs in the text or the tools in which it stands.
    """

    cause: Class
    where: str
    message: int | None = None
    part: int | None = None
    character: int | None = None
    moved: int | None = None
    detail: str = ""
    shared: str = ""
    left: str = ""
    right: str = ""
    same_behind: int = 0
    width: int = 0
    goes_on: bool = False
    expected: bool = False
    alone: bool = False
    by_template: bool = False

    def told(self, advice: str) -> Divergence:
        """Return it for the reader: what it is, where, and the text up to it."""
        return Divergence(
            cause=self.cause,
            where=self.where,
            detail=self.detail,
            message=self.message,
            part=self.part,
            character=self.character,
            shared=self.shared,
            left=self.left,
            advice=advice,
        )


def in_text(
    left: str, right: str, otherwise: Class, where: str, *, message: int | None = None, part: int | None = None
) -> Found | None:
    """Return what differs in two texts, None when nothing does; ``otherwise``: the class that their place gives."""
    difference = compare(left, right)
    if difference is None:
        return None
    at = difference.at
    width = 0 if difference.start is None else difference.right_end - difference.start
    return Found(
        difference.cause or otherwise,
        where,
        message=message,
        part=part,
        character=at,
        detail="think block" if difference.cause == "template_history" else "",
        shared=left[max(0, at - _CONTEXT) : at],
        left=left[at : min(difference.left_end, at + _CONTEXT)],
        right=right[at : min(difference.right_end, at + _CONTEXT)],
        same_behind=_same_behind(left, right, difference),
        width=width,
        goes_on=width > 0 and common(left[difference.left_end :], right[difference.right_end :]) > _FAR * width,
        alone=_is_alone(left, right, difference),
    )


def _is_alone(left: str, right: str, difference: Difference) -> bool:
    if difference.cause == "whitespace":
        return "".join(left.split()) == "".join(right.split())
    return left[difference.left_end :] == right[difference.right_end :]


def is_ordinary(found: Found) -> bool:
    """Tell whether two last messages just say different things: not much that is the same stands behind the first."""
    if found.cause == "text":
        return found.same_behind < _SAME_BEHIND_TEXT
    return found.cause in ("timestamp", "random_id", "counter") and found.same_behind < _SAME_BEHIND_VOLATILE


def _same_behind(left: str, right: str, difference: Difference) -> int:
    """Return how many characters are the same behind what differs, up to the next difference."""
    one, other = left[difference.at :][:_LOOK_AHEAD], right[difference.at :][:_LOOK_AHEAD]
    found = next(runs(one, other, 0, anchor=_ANCHOR), None)
    return 0 if found is None else found.length
