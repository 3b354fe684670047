"""Which files are a trace? A file, a pipe, standard input, a list or a folder, each of which can be read again."""

from __future__ import annotations

import os
import stat
import sys
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..errors import TraceError

_NAMES = (".jsonl", ".json", ".ndjson", ".csv", ".tsv")
_STDIN = "-"

Given = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Source:
    """A file that a trace is read from, as often as it is needed.

    Attributes:
        path: of the file, or of the copy of what can be read only once.
        name: what the user called it, for errors.
        seen: its size and when it was written, as they were at first.
    """

    path: Path
    name: str
    seen: tuple[int, ...]

    def unchanged(self) -> None:
        """Hold that it is still what it was.

        Raises:
            TraceError: it is not, or it is gone.
        """
        now = _state(self.path, self.name)
        if now != self.seen:
            raise TraceError(
                f"{self.name}: it changed while it was in use, from {self.seen[0]:,} to {now[0]:,} bytes or in its"
                " time; open the trace again once it is written"
            )


def sources(given: Given) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    """Return the files of a trace, those of a folder in the order of their names, and the names of others in it.

    Args:
        given: a path, ``-`` for standard input, a folder, or several of them.

    Raises:
        TraceError: one does not exist, or there is none.
    """
    parts = [given] if isinstance(given, (str, Path)) else list(given)
    if not parts:
        raise TraceError("no files are given; expected a path, '-', a folder or a list of them")
    found: list[Source] = []
    others: list[str] = []
    for part in parts:
        path = Path(part).expanduser()
        if str(part) == _STDIN:
            found.append(_stdin())
        elif path.is_dir():
            inside, left = _inside(path)
            found += map(_file, inside)
            others += left
        else:
            found.append(_file(path))
    return tuple(found), tuple(others)


def title(given: Given) -> str:
    """Return what a trace is called."""
    if isinstance(given, (str, Path)):
        return "standard input" if str(given) == _STDIN else Path(given).name or str(given)
    parts = list(given)
    return title(parts[0]) + (f" and {len(parts) - 1:,} more" if len(parts) > 1 else "")


def many(count: int, of: str) -> str:
    """Return a number of things."""
    return f"{count:,} {of}{'' if count == 1 else 's'}"


def _inside(folder: Path) -> tuple[list[Path], list[str]]:
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    except OSError as error:
        raise TraceError(f"{folder}: cannot be read: {error.strerror or error}") from None
    fitting = [path for path in files if path.name.lower().removesuffix(".gz").endswith(_NAMES)]
    if not fitting:
        seen = many(len(files), "other file") if files else "no files"
        raise TraceError(
            f"{folder}: no traces in this folder, but {seen}; expected names in {', '.join(_NAMES)}, or .gz"
        )
    return fitting, [path.name for path in files if path not in fitting]


def _file(path: Path) -> Source:
    name = str(path)
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
        if regular:
            return Source(path, name, _state(path, name))
        with path.open("rb") as stream:  # a pipe can be read only once
            return _spooled(stream, name)
    except OSError as error:
        raise TraceError(f"{name}: cannot be read: {error.strerror or error}") from None


def _stdin() -> Source:
    if sys.stdin is None:
        raise TraceError("standard input cannot be read: it is closed")
    try:
        return _spooled(sys.stdin.buffer, "standard input")
    except (OSError, AttributeError) as error:  # pytest takes it away unless told -s
        raise TraceError(f"standard input cannot be read: {error}") from None


def _spooled(stream: IO[bytes], name: str) -> Source:
    """Return a copy of what can be read only once; it is removed with the source."""
    import shutil
    import tempfile  # with what it imports it takes longer than reading a small trace

    handle, path = tempfile.mkstemp(prefix="kvcache-trace-")
    try:
        with os.fdopen(handle, "wb") as copy:
            shutil.copyfileobj(stream, copy)
    except BaseException:
        _remove(path)
        raise
    source = Source(Path(path), name, _state(Path(path), name))
    weakref.finalize(source, _remove, path)
    return source


def _remove(path: str) -> None:
    with suppress(OSError):
        Path(path).unlink()


def _state(path: Path, name: str) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError as error:
        raise TraceError(f"{name}: cannot be read: {error.strerror or error}") from None
    return found.st_size, found.st_mtime_ns, found.st_ino
