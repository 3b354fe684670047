"""A trace from a trace: its first rows, a while of it, a share of its sessions, blocks of another size; by time."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import islice

from ..errors import TraceError
from ..rows import Row

_WHOLE = 2**64


def first(rows: Iterable[Row], count: int) -> Iterator[Row]:
    """Return the first rows."""
    return islice(rows, count)


def between(rows: Iterable[Row], start: float, end: float) -> Iterator[Row]:
    """Return the rows of a while on the trace's clock: ``start`` belongs to it, ``end`` does not."""
    return (row for row in rows if row.time is not None and start <= row.time < end)


def sampled(rows: Iterable[Row], share: float, seed: int) -> Iterator[Row]:
    """Return a share of the sessions, whole; a row without one is its own.

    A session is in by a hash of its name, so that the order of rows does not matter, and a larger share holds all of a
    smaller one.
    """
    limit = share * _WHOLE
    for row in rows:
        whose = f"row {row.line} {row.time!r} {row.scope!r}" if row.session is None else f"session {row.session}"
        if _draw(f"{seed} {whose}") < limit:
            yield row


def _draw(key: str) -> int:
    from hashlib import blake2b  # loads OpenSSL, which nothing else here needs

    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def scaled(rows: Iterable[Row], size: int, to: int) -> Iterator[Row]:
    """Return the rows with blocks of ``to`` tokens for blocks of ``size``: the same blocks, other lengths.

    What is less than a block (the last one, tokens without an id, outputs) shrinks alike, rounded down, and to no less
    than one token.
    """
    for row in rows:
        ids, weights = row.ids, row.weights
        if weights is None:
            spare = row.input_length - len(ids) * size  # uncovered; less than 0: the last block is not full
            full = len(ids) if spare >= 0 else len(ids) - 1
            rest = spare if spare >= 0 else spare + size
            length = full * to + _less(rest, size, to)
        else:
            uncovered = row.input_length - sum(weights)
            weights = array("q", [_less(weight, size, to) for weight in weights])
            length = sum(weights) + _less(uncovered, size, to)
        yield row._replace(
            input_length=length,
            weights=weights,
            output_length=None if row.output_length is None else _less(row.output_length, size, to),
            cached=None if row.cached is None else min(length, row.cached * to // size),
            block_size=None if row.block_size is None else to,
        )


def _less(tokens: int, size: int, to: int) -> int:
    return max(1, tokens * to // size) if tokens else 0


def by_time(rows: Iterable[Row], name: str) -> list[Row]:
    """Return all rows in the order of their times, rows of equal time as they came.

    Raises:
        TraceError: a row has no time; names the trace.
    """
    kept = list(rows)
    need_times(name, "order='time'", sum(row.time is None for row in kept), len(kept))
    return sorted(kept, key=lambda row: row.time or 0.0)


def need_times(name: str, what: str, untimed: int, rows: int) -> None:
    """Raise TraceError when rows have no time, for what needs that of each."""
    if untimed:
        raise TraceError(f"{name}: {what} needs the time of every row, and {untimed:,} of {rows:,} have none")


def check_count(value: object, name: str) -> None:
    """Raise TraceError unless an argument is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise TraceError(f"{name}({value!r}): expected a whole number of at least 1")


def is_number(value: object) -> bool:
    """Tell whether an argument is a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
