"""Tables of lengths and times: the Azure LLM traces of 2023 and 2024 and LMM trace of 2025, and BurstGPT 1 to 3.

CSV with a header; columns are found by their names, in any order and among others. There are no block ids in them, so
they tell what load a server was under, and nothing of its cache.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...errors import TraceError
from ...rows import Row
from ..check import RowError, Skipped
from ..lines import Lines
from ..times import date_seconds, number_of
from . import Format, Options, each

_NO_IDS = array("q")
_MOST_DIGITS = 15  # of a count of tokens

Time = Callable[[int, str, str, Options], float]


@dataclass(frozen=True, slots=True)
class _Table:
    """What the columns of a form are called; by the names as people write them, whatever their case.

    Attributes:
        time, input, output: columns that every row needs.
        when: what a time is.
        session: whose turns follow one another; empty: there is no such column.
        images: images in the prompt; likewise.
    """

    time: str
    input: str
    output: str
    when: Time
    session: str = ""
    images: str = ""

    def looks_like(self, head: str) -> bool:
        """Tell whether a line is a header with the columns of this form."""
        names = {name.casefold() for name in _cells(head) or ()}
        return names >= {self.time.casefold(), self.input.casefold(), self.output.casefold()}

    def read(self, lines: Lines, options: Options) -> Iterator[Row | Skipped]:
        """Return the rows of a file.

        Raises:
            TraceError: its first line does not name the columns.
        """
        numbered = ((number, text) for number, text in lines if not text.startswith("#"))
        _, head = next(numbered, (1, ""))
        header = _cells(head) or []
        place = self._places(header, options)
        return each(numbered, _Reader(self, len(header), place, options).row, options)

    def _places(self, header: list[str], options: Options) -> dict[str, int]:
        """Return where each column stands."""
        names = [name.casefold() for name in header]
        needed = (self.time, self.input, self.output)
        missing = [name for name in needed if name.casefold() not in names]
        twice = [name for name in needed if names.count(name.casefold()) > 1]
        if missing or twice:
            what = f"has no column {', '.join(map(repr, missing))}" if missing else f"has {twice[0]!r} twice"
            raise TraceError(f"{options.name}: its header {what}; expected one each of {', '.join(map(repr, needed))}")
        known = (*needed, self.session, self.images)
        return {name: names.index(name.casefold()) for name in known if name.casefold() in names}


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the rows of one file."""

    table: _Table
    width: int
    places: dict[str, int]
    options: Options

    def row(self, item: tuple[int, str]) -> Row | Skipped:
        line, text = item
        table, cells = self.table, _cells(text)
        if cells is None:
            raise RowError(line, "bad_row", "a quoted field does not end in its line, or is not quoted as CSV is")
        if len(cells) != self.width:
            raise RowError(line, "bad_row", f"{len(cells)} fields; the header has {self.width}")
        length = _count(line, table.input, cells[self.places[table.input]])
        if not length:
            return Skipped(line, "zero_input", f"{table.input!r} is 0")
        if table.images in self.places and (images := _count(line, table.images, cells[self.places[table.images]])):
            known = f"whether {table.input!r} holds their tokens is not told"
            told = f"{{rows}} with images, {{amount}} in all (first: {{line}}): {known}"
            self.options.notes.add("images", line, told, images)
        session = cells[self.places[table.session]] if table.session in self.places else ""
        return Row(
            line,
            length,
            _NO_IDS,
            output_length=_count(line, table.output, cells[self.places[table.output]]),
            time=table.when(line, table.time, cells[self.places[table.time]], self.options),
            session=session or None,
        )


def _cells(text: str) -> list[str] | None:
    """Return the fields of a line, None when it is not written as CSV. No field of these tables goes over lines."""
    if '"' not in text:
        return [cell.strip() for cell in text.split(",")]
    try:
        return [cell.strip() for cell in next(csv.reader([text], strict=True, skipinitialspace=True))]
    except csv.Error:
        return None


def _count(line: int, name: str, cell: str) -> int:
    if cell.isascii() and cell.isdigit() and len(cell) <= _MOST_DIGITS:
        return int(cell)
    number = number_of(cell)  # 472.0, as a column with gaps is written by some tools
    if number is None or number < 0 or not number.is_integer() or number >= 10**_MOST_DIGITS:
        seen = "is empty" if not cell else "is no whole number of tokens from 0"
        raise RowError(line, "bad_field", f"{name!r} {seen}")
    return int(number)


def _date(line: int, name: str, cell: str, options: Options) -> float:
    time = date_seconds(cell)
    if time is not None:
        return time
    number = number_of(cell)
    if number is None:
        raise RowError(line, "bad_time", f"{name!r} is no date with a time such as 2023-11-16 18:17:03.9799600")
    if options.time_unit is None:
        raise RowError(line, "bad_time", f"{name!r} is a number, not a date; say its unit with time_unit=")
    return number / options.per_second("s")


def _number(line: int, name: str, cell: str, options: Options) -> float:
    number = number_of(cell)
    if number is None:
        raise RowError(line, "bad_time", f"{name!r} is no number of seconds")
    return number / options.per_second("s")


_AZURE = _Table("TIMESTAMP", "ContextTokens", "GeneratedTokens", _date, images="NumImages")
_BURSTGPT = _Table("Timestamp", "Request tokens", "Response tokens", _number, session="Session ID")

FORMATS = (
    Format("azure", _AZURE.looks_like, _AZURE.read, time_unit=None),
    Format("burstgpt", _BURSTGPT.looks_like, _BURSTGPT.read, time_unit="s"),
)
