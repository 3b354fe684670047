"""What form does a trace have?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module

from ..errors import TraceError
from .formats import Format, fields_of
from .lines import Lines

_FILES = ("bailian", "sessions", "spans", "tables", "mooncake", "bodies")
"""Files of forms, in the order in which they are asked: those whose names say more come first."""

_MOONCAKE = frozenset(("timestamp", "input_length", "output_length", "hash_ids"))
"""Fields that no other form is known by: where there are no others, no other file has to be loaded and asked."""

_COLUMN = r"[A-Za-z_][A-Za-z_0-9]{0,39}"
_SHOWN = 12  # names of fields in an error


def formats(first: str = "") -> Iterator[Format]:
    """Return all forms, those of the file ``first`` first: files behind the one that is looked for are not loaded."""
    for file in sorted(_FILES, key=lambda file: file != first):
        yield from import_module(f".formats.{file}", __package__).FORMATS


def named(name: str) -> Format | None:
    """Return the form of a name; None for ``auto``.

    Raises:
        TraceError: there is none.
    """
    if name == "auto":
        return None
    for form in formats(name):
        if form.name == name:
            return form
    raise TraceError(f"format={name!r}: expected 'auto' or one of {', '.join(form.name for form in formats())}")


def detected(lines: Lines) -> Format:
    """Return the form of a file by its first line.

    Raises:
        TraceError: it is none that is known, or there is nothing to read.
    """
    head = lines.head()
    fields = fields_of(head)
    for form in formats("mooncake" if fields and _MOONCAKE.issuperset(fields) else ""):
        if form.looks_like(head):
            return form
    known = ", ".join(form.name for form in formats())
    raise TraceError(
        f"{lines.name}: no form of trace is known whose first line is {_seen(head)}; format= takes {known}"
    )


def _seen(head: str) -> str:
    """Describe a first line by the names of its fields, which are no text of the user's."""
    start = head.lstrip()[:1]
    if start not in "{[":
        columns = head.split(",")
        if len(columns) < 3:
            return "plain text"
        names = all(re.fullmatch(_COLUMN, column.strip()) for column in columns)  # else they may be anybody's words
        return f"a table of {', '.join(columns[:_SHOWN])}" if names else f"a table of {len(columns):,} columns"
    fields = [name for name in fields_of(head) if len(name) <= 40]
    if not fields:
        return "a list" if start == "[" else "an object without fields"
    more = f" and {len(fields) - _SHOWN:,} more" if len(fields) > _SHOWN else ""
    return f"an object of {', '.join(fields[:_SHOWN])}{more}"
