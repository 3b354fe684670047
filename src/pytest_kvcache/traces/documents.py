"""What JSON documents does a file hold? One a line, or one over all its lines; a list's entries are documents too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ..rows import Row
from .check import RowError, Skipped
from .formats import Options, decode, parsed
from .lines import Lines

T = TypeVar("T")
Numbered = tuple[int, Any]


def documents(lines: Lines, options: Options) -> Iterator[Numbered | RowError]:
    """Return the documents of a file with the number of the line, or of the entry of a list, where each stands.

    What is no JSON is returned as the error that it is, so that reading can go on behind it.
    """
    start = True
    for number, text in lines:
        if start and not text.lstrip().startswith("#"):
            start = False
            if _goes_on(text):
                yield from _whole(lines, options)
                return
        try:
            value = parsed(number, text)
        except RowError as error:
            yield error
            continue
        if value is not None:
            yield number, value


def _goes_on(first: str) -> bool:
    """Tell whether a document does not end with its first line, or is a list."""
    if first.lstrip().startswith("["):
        return True
    try:
        json.loads(first)
    except json.JSONDecodeError as error:
        return error.pos >= len(first.rstrip())
    except (ValueError, RecursionError):
        return False
    return False


def _whole(lines: Lines, options: Options) -> Iterator[Numbered | RowError]:
    text = lines.whole()
    try:
        value = decode(text)
    except json.JSONDecodeError as error:
        yield RowError(error.lineno, "no_json", f"no JSON, column {error.colno:,}: {error.msg}")
    except RecursionError:
        yield RowError(1, "no_json", "the JSON is nested too deeply")
    except ValueError as error:
        yield RowError(1, "no_json", f"no JSON: {str(error).split(';')[0]}")
    else:
        if isinstance(value, list):
            options.notes.unit = "entry"
            yield from enumerate(value, 1)
        else:
            yield 1, value


def all_of(
    items: Iterable[T | RowError], rows: Callable[[T], Iterable[Row | Skipped]], options: Options
) -> Iterator[Row | Skipped]:
    """Make rows of each item, none or several, and go on after a bad one where that is asked for.

    Like :func:`~pytest_kvcache.traces.formats.each`, for items that are several rows or were damaged already.
    """
    for item in items:
        try:
            if isinstance(item, RowError):
                raise item
            yield from rows(item)
        except RowError as error:  # noqa: PERF203 - each is good or bad on its own
            if options.strict:
                raise
            yield error.skipped
