"""What does a form of trace offer, and what do all forms share? One file for each family.

Each file has ``FORMATS``, a tuple of :class:`Format`; ``traces/detect.py`` asks them in its order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar

from ...rows import Row
from ..check import RowError, Skipped
from ..lines import Lines
from ..notes import Notes

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Units of a clock: so many of them are a second."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """How one file is to be read.

    Attributes:
        block_size: tokens of a block as the user said; None: as the file says.
        time_unit: a key of :data:`PER_SECOND` as the user said; None: the form's own.
        ids: what the user said of them: ``prefix``, ``content`` or nothing.
        strict: a bad row ends the reading; else it is skipped and counted.
        tokenizer: for forms that carry text.
        name: of the trace, for errors.
        salt: of the digests that are made of text.
        notes: what to tell of this reading: ``options.notes.add(reason, line, sentence)``.
        subagent_time: what the clock of a sub-agent counts from: its own start (``relative``), or that of its session
            (``absolute``); None: as the file shows.
        usage_prompt: whether recorded prompt tokens are all of the prompt (``total``) or leave the cached ones out
            (``uncached``); None: all.
        usage_absent: what it means that no cached tokens were recorded, ``zero`` or ``unknown``; None: unknown.
    """

    block_size: int | None = None
    time_unit: str | None = None
    ids: str | None = None
    strict: bool = True
    tokenizer: str | None = None
    name: str = "trace"
    salt: str | None = None
    notes: Notes = field(default_factory=Notes, compare=False)
    subagent_time: Literal["relative", "absolute"] | None = None
    usage_prompt: Literal["total", "uncached"] | None = None
    usage_absent: Literal["zero", "unknown"] | None = None

    def per_second(self, unit: str) -> int:
        """Return how many units of the file's clock are a second: as the user said, else those of ``unit``.

        Times are divided by it, which is exact to the last digit where a multiplication is not.
        """
        return PER_SECOND[self.time_unit or unit]


class Format(NamedTuple):
    """A form of trace.

    Attributes:
        name: as ``format=`` takes it.
        looks_like: told the first line that is neither blank nor a ``#`` comment (at most 1 MiB of it; of a document
            over several lines its head), tells whether it is this form. Never raises.
        read: the rows of a file, with what is left out. Raises RowError only where ``options.strict``.
        time_unit: of its clock, a key of :data:`PER_SECOND`; None: the file has dates of its own.
        block_size: tokens of a block where the form's documentation fixes it.
    """

    name: str
    looks_like: Callable[[str], bool]
    read: Callable[[Lines, Options], Iterator[Row | Skipped]]
    time_unit: str | None
    block_size: int | None = None


def each(items: Iterable[T], row: Callable[[T], Row | Skipped | None], options: Options) -> Iterator[Row | Skipped]:
    """Make a row of each item, and go on after a bad one where that is asked for; None is left out without a word."""
    strict = options.strict
    for item in items:
        try:
            made = row(item)
        except RowError as error:
            if strict:
                raise
            made = error.skipped
        if made is not None:
            yield made


def each_object(
    lines: Lines, row: Callable[[int, str, dict[str, Any]], Row | Skipped | None], options: Options
) -> Iterator[Row | Skipped]:
    """Make a row of the JSON object of each line, told its number, its text and the object; see :func:`each`."""

    def made(numbered: tuple[int, str]) -> Row | Skipped | None:
        line, text = numbered
        value = parsed(line, text)
        return None if value is None else row(line, text, value)

    return each(lines, made, options)


def parsed(line: int, text: str) -> dict[str, Any] | None:
    """Return the JSON object of a line; None for a ``#`` comment.

    Raises:
        RowError: it is none.
    """
    try:
        value, end = _begun(text)  # a quarter faster, which is enough where nothing is around the object
    except (ValueError, RecursionError):
        end = -1
    if end != len(text):
        if text.lstrip().startswith("#"):
            return None
        value = _decoded(line, text)
    if type(value) is not dict:
        raise RowError(line, "no_json", f"expected a JSON object, got {kind_of(value)}")
    return value


def _decoded(line: int, text: str) -> object:
    try:
        return decode(text)
    except json.JSONDecodeError as error:
        why = f"no JSON, column {error.colno:,}: {error.msg}"
        raise RowError(line, "no_json", f"{why}; expected one object a line") from None
    except RecursionError:
        raise RowError(line, "no_json", "the JSON is nested too deeply") from None
    except ValueError as error:
        raise RowError(line, "no_json", f"no JSON: {str(error).split(';')[0]}") from None


def kind_of(value: object) -> str:
    """Say what a value of JSON is, without the value."""
    from ...requested import named  # of use where something is wrong, and where there is text

    return named(value)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_begun = _DECODER.raw_decode  # the value that a text begins with, and where it ends

decode = _DECODER.decode
"""Returns the value of a JSON text, in which NaN and Infinity are errors as in JSON's definition."""


def fields_of(head: str) -> tuple[str, ...]:
    """Return the names of the fields of a JSON object, also of one that is cut; nothing for anything else."""
    if not head.lstrip().startswith("{"):
        return ()
    try:
        value = json.loads(head)
    except (ValueError, RecursionError):
        return tuple(dict.fromkeys(re.findall(r'"([^"\\]{1,80})"\s*:', head)))
    return tuple(value)


def whole(line: int, name: str, value: object, least: int = 0) -> int:
    """Return a count of tokens.

    Raises:
        RowError: it is no whole number of at least ``least``.
    """
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise RowError(line, "bad_field", f"{name!r} is {kind_of(value)}; expected a whole number")
    if value < least:
        raise RowError(line, "bad_field", f"{name!r} is {value}; expected at least {least}")
    return value
