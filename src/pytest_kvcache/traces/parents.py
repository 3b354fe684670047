"""Does one id stand behind two different ids? Prefix hashes never do, plain hashes of a block's tokens may."""

from __future__ import annotations

from collections.abc import Hashable

from ..rows import Row
from .check import RowError
from .notes import Notes

_MOST = 2_000_000  # ids that are remembered, some 300 MB


class Parents:
    """What stood before each id.

    Args:
        notes: gets what is found.
        strict: the trace was declared to hold prefix hashes.
        most: so many ids are remembered; then none is looked at any more.
    """

    def __init__(self, notes: Notes, *, strict: bool, most: int = _MOST) -> None:
        self._notes = notes
        self._strict = strict
        self._left = most
        self._before: dict[Hashable, dict[int, int | None]] = {}
        self._odd: set[tuple[Hashable, int, int | None]] = set()

    def see(self, row: Row) -> None:
        """Look at one request.

        Raises:
            RowError: an id of a trace of prefix hashes stands behind two different ids.
        """
        if self._left < 0:
            return
        ids = row.ids.tolist()
        before: list[int | None] = [None, *ids[:-1]] if ids else []
        known = self._before.setdefault(row.scope, {})
        size = len(known)
        found = list(map(known.setdefault, ids, before))
        if found != before:
            odd = [(row.scope, i, b) for i, b, f in zip(ids, before, found, strict=True) if b != f]
            if self._strict:
                _, clash, here = odd[0]
                told = _refusal(clash, here, known[clash])
                while len(known) > size:
                    known.popitem()  # the last ones: a row that is refused tells nothing of others
                raise RowError(row.line, "ids", told)
            self._count(set(odd), row.line)
        self._left -= len(known) - size
        if self._left < 0:
            self._before.clear()
            self._notes.add(
                "parents_unchecked", row.line, "whether an id stands behind two others was asked up to {line}"
            )

    def _count(self, odd: set[tuple[Hashable, int, int | None]], line: int) -> None:
        new = odd - self._odd
        self._odd |= new
        if new:
            sentence = (
                "an id stands behind another id than before, {count}x (first in {line}): what stands before a block"
                " is part of what it is, so these are blocks of their own"
            )
            self._notes.add("same_id_after_another_parent", line, sentence, count=len(new))


def _refusal(clash: int, here: int | None, before: int | None) -> str:
    behind = ["first" if place is None else f"behind {place}" for place in (before, here)]
    return (
        f"id {clash} stands {behind[1]}, and stood {behind[0]} before, so it is no prefix hash; expected ids that each"
        ' mean all of the prompt up to them, or ids="content"'
    )
