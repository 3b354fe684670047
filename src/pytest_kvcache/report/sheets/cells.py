"""How is a value written into a cell, so that a program reads it whole and a spreadsheet does not run it?

Comma-separated, UTF-8, lines end with a line feed, cells are quoted where they must be (RFC 4180). Numbers are written
in full; an empty cell was not told, and is never a zero.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..text import visible

_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # what a spreadsheet takes for the beginning of a formula
_MARK = "'"


class Column(NamedTuple):
    """One column of a table.

    Attributes:
        name: in the header; stays.
        unit: of its numbers; empty: it has none.
        about: what it tells, as in docs/csv.md.
        value: makes the cell of a row.
    """

    name: str
    unit: str
    about: str
    value: Callable[[Any], Any]


def text(value: str) -> str:
    r"""Return text for a cell: what cannot be seen is written out, such as ``\x1b``, and it is no formula.

    A text that would begin one gets an apostrophe in front, and so does one that begins with an apostrophe: without the
    first apostrophe it is what it was.
    """
    shown = visible(value)
    return _MARK + shown if shown.lstrip().startswith((*_FORMULA, _MARK)) else shown


def cell(value: object) -> object:
    """Return what is written for a value."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def lines(rows: Iterable[Sequence[object]]) -> str:
    """Return rows of cells as lines."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue()


def sheet(columns: Sequence[Column], rows: Iterable[Any]) -> str:
    """Return a table: its header, and a line for each row."""
    return lines([[column.name for column in columns], *([cell(c.value(row)) for c in columns] for row in rows)])
