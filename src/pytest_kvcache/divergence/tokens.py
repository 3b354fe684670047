"""Two prompts as token ids: where they part, and how much of the second one would be reusable without that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_ANCHOR = 8  # equal tokens in a row that count as the same place; fewer happen to be equal within a date
_LONG_ANCHOR = 64  # the markup between two turns is shorter, which is the same at every turn
_SLACK = 0.02  # a share of text is not quite the same share of tokens
_SMALLEST_PART = 8  # characters: shorter ones happen to be equal
_CLOSE_BY = 64  # elements in which the next run is looked for before more are
ANSWER_BEGINS = 24  # tokens at the end of a prompt in which a template begins the answer, an empty think block included


@dataclass(frozen=True, slots=True)
class Run:
    """Tokens that two prompts share: from ``left`` in the first and ``right`` in the second, ``length`` of them."""

    left: int
    right: int
    length: int


def runs(a: Sequence[Any], b: Sequence[Any], start: int, *, anchor: int = _ANCHOR) -> Iterator[Run]:
    """Return what two prompts share behind the place at which they part, in order and without crossing.

    Shorter runs than ``anchor`` are left out. Where one ends, the next is looked for close by at first: time grows with
    what lies between them, and memory too.
    """
    left, right = start, start
    while (found := _next(a, b, left, right, anchor)) is not None:
        left, right = found
        length = _shared(a, b, left, right)
        yield Run(left, right, length)
        left, right = left + length, right + length


def _next(a: Sequence[Any], b: Sequence[Any], left: int, right: int, anchor: int) -> tuple[int, int] | None:
    width, most = _CLOSE_BY, max(len(a) - left, len(b) - right)
    while True:
        found = _same_place(a[left : left + width], b[right : right + width], anchor)
        if found is not None:
            return left + found[0], right + found[1]
        if width >= most:
            return None
        width *= 4


def _same_place(a: Sequence[Any], b: Sequence[Any], anchor: int) -> tuple[int, int] | None:
    """Return where ``b`` has so many equal elements first, and the first place that has them in ``a``."""
    of_a, of_b = _sliceable(a), _sliceable(b)
    if _nothing_in_common(of_a, of_b, anchor // 2):
        return None
    places = {of_a[at : at + anchor]: at for at in range(len(a) - anchor, -1, -1)}
    for right in range(len(b) - anchor + 1):
        left = places.get(of_b[right : right + anchor])
        if left is not None:
            return left, right
    return None


def _nothing_in_common(a: Any, b: Any, part: int) -> bool:
    """Tell whether no run of twice ``part`` characters can be in both: it would hold one of the parts that ``a`` is cut
    into. There are few of those, and to search a text for one takes less than to slice it everywhere.
    """
    if part < _SMALLEST_PART or not isinstance(a, str) or not isinstance(b, str):
        return False
    return not any(a[at : at + part] in b for at in range(0, len(a) - part + 1, part))


def _sliceable(elements: Sequence[Any]) -> Any:
    """Return a sequence whose slices can be looked up; those of a text cost a fraction of a tuple's."""
    return elements if isinstance(elements, str) else tuple(elements)


def _shared(a: Sequence[Any], b: Sequence[Any], left: int, right: int) -> int:
    length, most = 0, min(len(a) - left, len(b) - right)
    while length < most and a[left + length] == b[right + length]:
        length += 1
    return length


def moved_away(a: Sequence[int], b: Sequence[int], start: int, width: int = 0, *, goes_on: bool = False) -> int:
    """Return how many tokens of ``b`` could be reused if what differs at ``start`` stood behind them.

    These are the ones before it, and those behind it up to the next difference; at least the last is always computed.

    Args:
        a / b: the prompts.
        start: where they part.
        width: characters of what differs as a whole, such as a date of which only the seconds do: at most so many
            tokens move away with it.
        goes_on: far more is the same directly behind it, so that a run which ends within it is a part of it.
    """
    found = runs(a, b, start)
    run = next((run for run in found if not goes_on or run.right + run.length > start + width), None)
    if run is None:
        return start
    kept = start + run.length - max(0, width - (run.right - start))
    return max(start, min(kept, len(b) - 1))


def best_block(a: Sequence[int], b: Sequence[int], start: int) -> int:
    """Return how many tokens of ``b`` could be reused if its longest common run followed what is shared now."""
    found = (run.length for anchor in (_ANCHOR, _LONG_ANCHOR) for run in runs(a, b, start, anchor=anchor))
    longest = max(found, default=0)
    return max(start, min(start + longest, len(b) - 1))


def made_equal(a: Sequence[int], b: Sequence[int], start: int, reach: float = 1.0) -> int:
    """Return how many tokens of ``b`` could be reused if ``a`` had been written as ``b`` at ``start``.

    Args:
        a / b: the prompts.
        start: where they part.
        reach: which share of what follows stands before the next difference, by the length of the text; the last
            common run is taken that ends before it.
    """
    most = start + min(1.0, reach + _SLACK) * (len(b) - start)
    ends = (run.right + run.length for run in runs(a, b, start))
    end = max((end for end in ends if end <= most), default=start)
    return max(min(end, len(b) - 1), 0)


def appended(a: Sequence[int], b: Sequence[int], start: int) -> int:
    """Return how many tokens of ``b`` could be reused if its template had kept all of ``a``.

    Where they part at the end of ``a``, only the beginning of the answer is lost: nothing of ``b`` is found again.
    """
    return start if len(a) - start <= ANSWER_BEGINS else made_equal(a, b, start)
