"""Does one id stand behind two different ids? Prefix hashes never do, plain hashes of a block's tokens may."""

from __future__ import annotations

from collections.abc import Hashable

from ..errors import TraceError
from ..model.trace import Note, Row

_MOST = 2_000_000  # ids that are remembered, some 300 MB


class Parents:
    """What stood before each id.

    Args:
        strict: the trace was declared to hold prefix hashes.
        most: so many ids are remembered; new ones are not looked at any more.
    """

    def __init__(self, *, strict: bool, most: int = _MOST) -> None:
        self._strict = strict
        self._left = most
        self._before: dict[Hashable, dict[int, int | None]] = {}
        self._odd: set[tuple[Hashable, int, int | None]] = set()
        self._first: int | None = None
        self._stopped: int | None = None

    def see(self, row: Row) -> None:
        """Look at one request.

        Raises:
            TraceError: an id of a trace of prefix hashes stands behind two different ids; names the line.
        """
        if self._stopped is not None:
            return
        ids = row.ids.tolist()
        before: list[int | None] = [None, *ids[:-1]] if ids else []
        known = self._before.setdefault(row.scope, {})
        size = len(known)
        found = list(map(known.setdefault, ids, before))
        self._left -= len(known) - size
        if found != before:
            odd = [(row.scope, i, b) for i, b, f in zip(ids, before, found, strict=True) if b != f]
            if self._strict:
                raise TraceError(_refusal(row.line, odd[0][1], odd[0][2], known[odd[0][1]]))
            self._odd.update(odd)
            self._first = row.line if self._first is None else self._first
        if self._left < 0:
            self._stopped = row.line
            self._before.clear()

    def notes(self) -> list[Note]:
        """Return what was found."""
        notes = []
        if self._odd:
            sentence = (
                f"{len(self._odd):,} times an id stands behind another id than before (first in line {self._first}): a"
                " block is what stands before it too, so these are blocks of their own"
            )
            notes.append(Note("same_id_after_another_parent", len(self._odd), self._first, sentence))
        if self._stopped is not None:
            sentence = f"whether one id stands behind two others was looked at up to line {self._stopped:,}"
            notes.append(Note("parents_unchecked", 1, self._stopped, sentence))
        return notes


def _refusal(line: int, clash: int, here: int | None, before: int | None) -> str:
    behind = ["first" if place is None else f"behind {place}" for place in (before, here)]
    return (
        f"line {line}: id {clash} stands {behind[1]}, and stood {behind[0]} before, so it is no prefix hash; expected"
        ' ids that each mean all of the prompt up to them, or ids="content"'
    )
