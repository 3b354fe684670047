"""From files, or from rows of the user's own, to checked rows."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import index
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ..errors import TraceError
from ..rows import Row
from .check import Checker, RowError
from .formats import Format, Options, each
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


class Files(NamedTuple):
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


class Given(NamedTuple):
    """Rows of the user's own.

    Attributes:
        rows: gives them, from the first on, whenever it is called.
        name: for errors.
        files: what they were read from.
        strict: a bad row ends the reading; else it is left out.
    """

    rows: Callable[[], Iterable[Row]]
    name: str
    files: tuple[Path, ...] = ()
    strict: bool = True

    def __call__(self, checker: Checker) -> Iterator[Row]:
        """Check them; see :class:`Reading`."""
        try:
            yield from checker.rows(each(self.rows(), _plain, Options(strict=self.strict)))
        except RowError as error:
            raise TraceError(f"{self.name}, {error}") from None


def _plain(row: Row) -> Row:
    """Return a row with whole numbers, those of ids and weights in arrays, and with times that can be compared."""
    changed: dict[str, Any] = {}
    numbers = ("input_length", row.input_length), ("output_length", row.output_length), ("cached", row.cached)
    for name, number in numbers:
        if number is not None and type(number) is not int:
            try:
                changed[name] = index(number)  # NumPy's, say
            except TypeError:
                raise RowError(row.line, "bad_field", f"its {name} is no whole number") from None
    for name, values in (("ids", row.ids), ("weights", row.weights)):
        if values is not None and (type(values) is not array or values.typecode != "q"):
            try:
                changed[name] = array("q", values)
            except (TypeError, OverflowError):
                raise RowError(row.line, "bad_field", f"its {name} are no whole numbers of 64 bits") from None
    for name, time in (("time", row.time), ("delay", row.delay)):
        if time is not None and not (isinstance(time, (int, float)) and math.isfinite(time)):
            raise RowError(row.line, "bad_field", f"its {name} is no finite number")
    return row._replace(**changed) if changed else row
