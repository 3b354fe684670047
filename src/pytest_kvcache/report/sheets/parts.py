"""Rows of requests in parts: each process adds those of a test to a file of its own, and one table is made of all.

A million rows fit in no report and need no memory: what is known of a test's rows is where they stand. A process that
is killed leaves a part that reads as a table, but for its last line.
"""

from __future__ import annotations

import csv
import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from .cells import lines
from .requests import HEADER

FOLDER = "parts"
"""Beside the tables; only there while a session runs, and after one that was killed."""

_AT_ONCE = 2_000  # rows that are written together
_PIECE = 1 << 20  # bytes that are copied together
_KEY = (HEADER.index("nodeid"), HEADER.index("started"))
Key = tuple[str, str]
"""Of a run: its test and when it began, as they are written."""


class Place(NamedTuple):
    """Where the rows of a test are: in the bytes from ``begin`` to ``end`` of a part."""

    part: str
    begin: int
    end: int
    rows: int


class Part:
    """The part of one process; the file is made when there is a row.

    Args:
        folder: of all parts.
        session: of pytest, the same in all of its workers.
        worker: of the session.
    """

    def __init__(self, folder: Path, session: str, worker: str) -> None:
        self._folder = folder
        self._stem = f"{session}.{worker}"
        self._file: BinaryIO | None = None

    def append(self, rows: Iterable[Sequence[object]]) -> Place:
        """Write rows, and tell where they are.

        Raises:
            OSError: they cannot be written. The next ones go to another file, since this one may end within a line.
        """
        left = iter(rows)
        batch, count = list(islice(left, _AT_ONCE)), 0
        if not batch:
            return Place("", 0, 0, 0)
        try:
            file = self._file = self._file or self._open()
            begin = file.tell()
            while batch:
                file.write(lines(batch).encode())
                count += len(batch)
                batch = list(islice(left, _AT_ONCE))
            file.flush()
        except OSError:
            self.close()
            raise
        return Place(Path(file.name).name, begin, file.tell(), count)

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:
                return  # it was flushed after each test

    def _open(self) -> BinaryIO:
        self._folder.mkdir(parents=True, exist_ok=True)
        file = (self._folder / f"{self._stem}.{os.urandom(4).hex()}.csv").open("xb")
        file.write(lines([HEADER]).encode())
        return file


def joined(folder: Path, places: Iterable[Place], to: BinaryIO) -> int:
    """Write one table of the rows at some places, in their order.

    Returns:
        How many of the places are not there, such as those of a worker on another machine.

    Raises:
        OSError: the table cannot be written.
    """
    to.write(lines([HEADER]).encode())
    missing = 0
    for place in places:
        if place.rows:
            missing += not _copied(folder / place.part, place, to)
    return missing


def _copied(part: Path, place: Place, to: BinaryIO) -> bool:
    try:
        with part.open("rb") as file:
            if os.fstat(file.fileno()).st_size < place.end:
                return False
            file.seek(place.begin)
            left = place.end - place.begin
            while left > 0:
                piece = file.read(min(left, _PIECE))
                if not piece:
                    raise OSError(errno.EIO, "it became shorter while it was read", str(part))
                to.write(piece)
                left -= len(piece)
    except FileNotFoundError:
        return False
    return True


def found(files: Iterable[Path], wanted: Mapping[Key, int], into: Part) -> dict[Key, Place]:
    """Add the rows of runs that earlier sessions left in tables and parts to a part, and tell where they are now.

    Args:
        files: where they may be; what is no such table is passed over.
        wanted: how many rows each run has; one with fewer or more is none of these.
        into: of this session.

    Raises:
        OSError: the part cannot be written.
    """
    places: dict[Key, Place] = {}
    for path in files:
        for key, rows in groupby(_rows(path), key=lambda row: (row[_KEY[0]], row[_KEY[1]])):
            if key in wanted and key not in places:
                place = into.append(rows)
                if place.rows == wanted[key]:
                    places[key] = place
    return places


def _rows(path: Path) -> Iterator[list[str]]:
    """Return the whole rows of a table of this form, as far as it can be read."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            if tuple(next(rows, ())) == HEADER:
                yield from (row for row in rows if len(row) == len(HEADER))
    except (OSError, ValueError, csv.Error):
        return
