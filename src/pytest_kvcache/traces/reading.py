"""From files, or from rows of the user's own, to checked rows."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ..errors import TraceError
from ..rows import Row
from .check import Checker, RowError
from .formats import Format, Options
from .lines import Lines
from .sources import Source


class Reading(Protocol):
    """Gives the rows of a trace, as often as it is called."""

    @property
    def files(self) -> tuple[Path, ...]:
        """What it reads from."""

    def __call__(self, checker: Checker) -> Iterator[Row]:
        """Return the rows that pass a checker.

        Raises:
            TraceError: a row does not, or the file cannot be read; names the line.
        """


@dataclass(frozen=True)
class Files:
    """Files of one form, read one after another.

    Attributes:
        sources: the files.
        form: of all of them.
        options: how they are read.
        max_line: bytes of the longest line.
    """

    sources: tuple[Source, ...]
    form: Format
    options: Options
    max_line: int

    @property
    def files(self) -> tuple[Path, ...]:
        """Where the files are."""
        return tuple(source.path for source in self.sources)

    def __call__(self, checker: Checker) -> Iterator[Row]:
        """Read all of them; see :class:`Reading`."""
        for source in self.sources:
            checker.notes.unit = "line"
            if len(self.sources) > 1:
                checker.notes.file = Path(source.name).name
            source.unchanged()
            lines = self.lines(source, checker)
            try:
                yield from checker.rows(self.form.read(lines, replace(self.options, notes=checker.notes)))
            except RowError as error:
                where = f"{source.name}, {checker.notes.unit} {error.line:,}"
                raise TraceError(f"{where}: {error.sentence}") from None
            source.unchanged()

    def lines(self, source: Source, checker: Checker) -> Lines:
        """Return the lines of one of them."""
        return Lines(source.path, source.name, max_line=self.max_line, strict=self.options.strict, notes=checker.notes)


@dataclass(frozen=True)
class Given:
    """Rows of the user's own.

    Attributes:
        rows: gives them, from the first on, whenever it is called.
        name: for errors.
        files: what they were read from.
    """

    rows: Callable[[], Iterable[Row]]
    name: str
    files: tuple[Path, ...] = ()

    def __call__(self, checker: Checker) -> Iterator[Row]:
        """Check them; see :class:`Reading`."""
        try:
            yield from checker.rows(map(_plain, self.rows()))
        except RowError as error:
            raise TraceError(f"{self.name}, {error}") from None


def _plain(row: Row) -> Row:
    """Return a row with ids and weights in arrays, and with a time that can be compared."""
    if type(row.ids) is not array or row.ids.typecode != "q":
        try:
            row = row._replace(ids=array("q", row.ids))
        except (TypeError, OverflowError):
            raise RowError(row.line, "bad_field", "its ids are no whole numbers of 64 bits") from None
    for name, time in (("time", row.time), ("delay", row.delay)):
        if time is not None and not math.isfinite(time):
            raise RowError(row.line, "bad_field", f"its {name} is {time}; expected a finite number")
    return row
