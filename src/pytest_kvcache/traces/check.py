"""Do the rows of a trace fit its block size and its clock? Errors, counted notes and skips."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

from ..errors import TraceError
from ..rows import Row
from .tally import Tally

if TYPE_CHECKING:
    from .notes import Notes
    from .parents import Parents

_LOOKED_AT = 1_000  # rows, for the block sizes that an error names


class Skipped(NamedTuple):
    """A row that is left out.

    Attributes:
        line: where it stands.
        reason: short and stable: ``zero_input``, or that of the error for which it is skipped.
        sentence: what is wrong with it, as what follows "line 7: "; quotes no text of the user's.
    """

    line: int
    reason: str
    sentence: str


class RowError(TraceError):
    """A row that cannot be used; ends the reading, or is a skip when a trace is read with ``strict=False``.

    Attributes:
        line: where it stands.
        reason: short and stable.
        sentence: what is wrong with it, as what follows "line 7: "; quotes no text of the user's.
    """

    def __init__(self, line: int, reason: str, sentence: str) -> None:
        super().__init__(f"line {line:,}: {sentence}")
        self.line = line
        self.reason = reason
        self.sentence = sentence

    @property
    def skipped(self) -> Skipped:
        """The skip that it becomes."""
        return Skipped(self.line, self.reason, self.sentence)


class Checker:
    """Checks rows one by one and adds them up, through all files of a trace.

    Attributes:
        block_size: as the user said, as rows say, or as the form's documentation does; None: not known (yet).
        notes: what was found.
        tally: what the rows add up to.
    """

    COUNTED = frozenset(
        (
            "no_ids",
            "uncovered",
            "short_ids",
            "past_end",
            "zero_output",
            "no_time",
            "time_backwards",
            "block_size_stated",
            "same_id_after_another_parent",
            "parents_unchecked",
        )
    )
    """Its own notes on rows that stay: of a part of a trace they are counted anew."""

    def __init__(
        self,
        block_size: int | None,
        notes: Notes,
        *,
        stated: int | None = None,
        strict: bool = True,
        parents: Parents | None = None,
    ) -> None:
        """Begin with nothing.

        Args:
            block_size: as the user said.
            notes: gets what is found.
            stated: as the form's documentation says, for rows that do not say theirs.
            strict: a bad row ends the reading; else it is mended or left out, and noted.
            parents: looks for ids behind two others; None: nobody has to.
        """
        self.block_size = block_size
        self.notes = notes
        self.tally = Tally()
        self._origin = "as given"
        self._stated = stated
        self._strict = strict
        self._parents = parents
        self._last: float | None = None  # the latest time so far in the order of the rows

    def rows(self, items: Iterable[Row | Skipped]) -> Iterator[Row]:
        """Return the rows that fit, in their order.

        Raises:
            RowError: one does not, when strict; or the block size is not known, and there are ids.
        """
        for item in items if self.block_size is not None else self._sized(iter(items)):
            if isinstance(item, Skipped):
                self.notes.skip(item)
                continue
            usual = self._is_usual(item)
            try:
                row = item if usual else self._fitted(item)
                if row is not None and self._parents is not None:
                    self._parents.see(row)
            except RowError as error:
                if self._strict or (error.reason == "block_size" and self.block_size is None):
                    raise
                self.notes.skip(error.skipped)
                continue
            if row is not None:
                if not usual:
                    self._note_blocks(row, len(item.ids) - len(row.ids))
                self._look_at(row)
                self.tally.add(row)
                yield row

    def _sized(self, items: Iterator[Row | Skipped]) -> Iterator[Row | Skipped]:
        """Find the block size in the first rows: what they say, else what the form's documentation does."""
        seen: list[Row | Skipped] = []
        for item in items:
            seen.append(item)
            if isinstance(item, Row) and item.block_size is not None:
                self._found(item.block_size, f"as {self.notes.where(item.line)} says")
                break
            if len(seen) == _LOOKED_AT or self._stated is not None:
                break
        rows = [item for item in seen if isinstance(item, Row) and item.ids]
        if self.block_size is None and self._stated is not None:
            self._found(self._stated, "as the form's documentation says")
            told = f"the file does not say its block size; the documentation of its form does: {self._stated}"
            self.notes.add("block_size_stated", None, told)
        if self.block_size is None and rows:
            raise _unsaid(rows)
        return chain(seen, items)

    def _found(self, size: int, origin: str) -> None:
        self.block_size, self._origin = size, origin

    def _is_usual(self, row: Row) -> bool:
        """Tell whether a row fits as nearly all do: its last id stands for the last, partial block."""
        size = self.block_size or 0
        length = row.input_length
        return (
            -size < length - len(row.ids) * size <= 0 < length
            and row.weights is None
            and row.cached is None
            and (row.block_size is None or row.block_size == size)
        )

    def _fitted(self, row: Row) -> Row | None:
        """Return a row as far as it fits its block size; None: it is left out, and noted."""
        line, length = row.line, row.input_length
        if length < 1:
            if length < 0:
                raise RowError(line, "bad_field", f"its input length is {length}; expected at least 1")
            self.notes.skip(Skipped(line, "zero_input", "it has no input tokens"))
            return None
        self._agree(row)
        if not row.ids:
            return row
        size = self.block_size
        if size is None:
            raise RowError(line, "block_size", f"the first ids, and no block size is said; {_ask(_fitting(row))}")
        row = self._cut(row, size)
        rest = length - _covered(row, size)
        if rest > size and self._strict:
            seen = f"{len(row.ids):,} ids leave {rest:,} of {length:,} input tokens without one"
            told = f"{seen}, more than a block of {size} ({self._origin}); {_fit(row)}"
            raise RowError(line, "short_ids", told)
        return row

    def _agree(self, row: Row) -> None:
        """Hold what a row says of its blocks against what holds for all, and what it says was reused against it."""
        line, own, weights = row.line, row.block_size, row.weights
        if row.cached is not None and not 0 <= row.cached <= row.input_length:
            raise RowError(line, "cached", f"{row.cached:,} cached tokens of {row.input_length:,} input tokens")
        if own is not None:
            if self.block_size is None:
                self._found(own, f"as {self.notes.where(line)} says")
            if own != self.block_size:
                seen = f"it says block size {own}, and {self.block_size} holds ({self._origin})"
                raise RowError(line, "block_size", f"{seen}; expected one block size for all rows")
        if weights is not None and len(weights) != len(row.ids):
            raise RowError(line, "block_tokens", f"{len(row.ids):,} ids have {len(weights):,} block tokens")
        if weights and not 1 <= min(weights) <= max(weights) <= (self.block_size or max(weights)):
            seen = f"a block of {min(weights) if min(weights) < 1 else max(weights):,} tokens"
            raise RowError(line, "block_tokens", f"{seen}; expected 1 to {self.block_size} ({self._origin})")

    def _cut(self, row: Row, size: int) -> Row:
        """Return a row without ids past its end."""
        length, count = row.input_length, len(row.ids)
        if row.weights is None:
            keep = min(count, -(-length // size))
            least = (count - 1) * size
        else:
            keep = sum(end <= length for end in accumulate(row.weights))
            least = sum(row.weights) - 1
        if keep == count:
            return row
        if self._strict:
            seen = f"{count:,} ids need more than {least:,} tokens at block size {size} ({self._origin})"
            raise RowError(row.line, "past_end", f"{seen}, and its input length is {length:,}; {_fit(row)}")
        return row._replace(ids=row.ids[:keep], weights=None if row.weights is None else row.weights[:keep])

    def _note_blocks(self, row: Row, cut: int) -> None:
        """Note what is odd about the blocks of a row that stays, from which so many ids were cut off."""
        if cut:
            told = "{rows} with ids past the end (first: {line}); cut off: {amount}"
            self.notes.add("past_end", row.line, told, cut)
        size = self.block_size or 0  # not known only where there are no ids
        rest = row.input_length - _covered(row, size)
        if rest <= 0:
            return
        if not row.ids and not cut:
            reason, which = "no_ids", "without block ids"
        elif rest > size:
            reason, which = "short_ids", "whose ids leave out more than a block"
        else:
            reason, which = "uncovered", "whose last, partial block has no id"
        told = f"{{rows}} {which} (first: {{line}}): {{amount}} tokens can never hit"
        self.notes.add(reason, row.line, told, rest)
        self.tally.uncovered_tokens += rest

    def _look_at(self, row: Row) -> None:
        """Note what is odd about a row's clock and output."""
        time = row.time
        if time is not None:
            if self._last is not None and time < self._last:
                told = f"time runs backwards at {{rows}} (first: {{line}}, from {self._last:.13g} s to {time:.13g} s)"
                self.notes.add("time_backwards", row.line, told)
            self._last = time
        elif row.delay is None:
            self.notes.add("no_time", row.line, "{rows} without a time (first: {line})")
        if row.output_length == 0:
            self.notes.add("zero_output", row.line, "{rows} without output (first: {line}): their prefill counts")


def _covered(row: Row, size: int) -> int:
    return len(row.ids) * size if row.weights is None else sum(row.weights)


def _fit(row: Row) -> str:
    return f"fits block sizes {_fitting(row)}"


def _fitting(row: Row) -> str:
    from .fits import fits  # of use where something is wrong

    return str(fits(row))


def _ask(sizes: str) -> str:
    return f"give block_size=, of which {sizes} would fit" if sizes else "give block_size="


def _unsaid(rows: list[Row]) -> RowError:
    from .fits import fit_all

    found = fit_all(rows)
    looked = f"all {len(rows):,} rows looked at" if len(rows) > 1 else "it"
    fitting = (
        f"{looked} fit{'' if len(rows) > 1 else 's'} block sizes {found}" if found else f"no one size fits {looked}"
    )
    return RowError(rows[0].line, "block_size", f"the block size is not said; {fitting}. Give block_size=")
