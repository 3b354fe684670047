"""What are the lines of a trace? Plain or gzip, of bounded length, numbered; damage is told with its position."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from ..errors import TraceError
from .check import RowError
from .notes import Notes

MAX_LINE = 128 * 2**20
"""Bytes of the longest line that is read, by default."""

_CHUNK = 2**16
_HEAD = 2**20
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_FOREIGN = (
    (b"PAR1", "a Parquet file"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd"),
    (b"\xfd7zXZ", "packed with xz"),
    (b"BZh", "packed with bzip2"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


class _Damaged(Exception):
    """What is wrong with packed data."""


class Lines:
    """The lines of a file, as often as they are asked for.

    Iterating gives ``(number, text)``, numbers from 1, without line ends and without blank lines. What is wrong with
    one line (too long, no UTF-8) raises RowError, what is wrong with the file TraceError. Not ``strict``: such lines
    are left out, cut gzip data end with their last whole line, and both are noted.

    Attributes:
        path: the file.
        name: for errors.
    """

    def __init__(
        self,
        path: str | Path,
        name: str | None = None,
        *,
        max_line: int = MAX_LINE,
        strict: bool = True,
        notes: Notes | None = None,
    ) -> None:
        self.path = Path(path)
        self.name = str(path) if name is None else name
        self._max_line = max_line
        self._strict = strict
        self._notes = Notes() if notes is None else notes

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for start, block in self._blocks():
            for number, text in enumerate(self._texts(start, block), start):
                if text and not text.isspace():
                    yield number, text

    def whole(self) -> str:
        """Return the file as one text, for forms that are one document.

        Raises:
            TraceError: it is longer than the longest line may be, damaged, or cannot be read.
        """
        found: list[bytes] = []
        size = 0
        try:
            for chunk in self._chunks():
                found.append(chunk)
                size += len(chunk)
                if size > self._max_line:
                    raise TraceError(f"{self.name}: it is longer than {self._max_line:,} bytes; if so, give max_line=")
        except _Damaged as error:
            self._cut(None, error)
        data = b"".join(found).removeprefix(_BOM)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            line, column = data.count(b"\n", 0, error.start) + 1, error.start - data.rfind(b"\n", 0, error.start)
            raise TraceError(f"{self.name}, line {line:,}: byte {column:,} of it is no UTF-8") from None

    def head(self) -> str:
        """Return the first line that is neither blank nor a ``#`` comment; of a document over several lines its head.

        At most 1 MiB is looked at, and no more than it takes.

        Raises:
            TraceError: there is none, it is no text, or the file cannot be read.
        """
        data, what, head = b"", "it is empty", None
        try:
            for chunk in self._chunks():
                data += chunk
                head, complete = _head_of(data)
                if complete or len(data) >= _HEAD:
                    break
        except _Damaged as error:  # where, is told by whoever reads all of it
            what = str(error)
        self._refuse_binary(data)
        if head is not None:
            return head
        if data.removeprefix(_BOM):
            what = "it holds only blank lines and comments"
        raise TraceError(f"{self.name}: {what}; expected a trace")

    def _refuse_binary(self, data: bytes) -> None:
        seen = next((what for magic, what in _FOREIGN if data.startswith(magic)), None)
        if seen is None and b"\0" in data:
            seen = f"binary (byte {data.index(0) + 1:,} is 0)"
        if seen is not None:
            raise TraceError(f"{self.name}: it is {seen}; expected UTF-8 text, JSON or CSV, plain or gzip")

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Return whole lines, many at a time, with the number of the first."""
        number, held, size, dropped = 1, [b""], 0, False
        try:
            for chunk in self._chunks():
                first = chunk.find(b"\n")
                if not dropped and size + (len(chunk) if first < 0 else first) > self._max_line:
                    self._too_long(number)
                    held, size, dropped = [], 0, True
                if dropped:
                    if first < 0:
                        continue
                    number, chunk, dropped = number + 1, chunk[first + 1 :], False
                end = chunk.rfind(b"\n") + 1
                if end:
                    block = b"".join((*held, chunk[:end]))
                    yield number, block
                    number += block.count(b"\n")
                    held, size = [], 0
                held.append(chunk[end:])
                size += len(chunk) - end
        except _Damaged as error:
            self._cut(number, error)
            return  # what is held is no whole line
        yield number, b"".join(held)

    def _texts(self, start: int, block: bytes) -> list[str]:
        if start == 1:
            block = block.removeprefix(_BOM)
        try:
            text = block.decode()
        except UnicodeDecodeError:
            return [self._text(number, line) for number, line in enumerate(block.split(b"\n"), start)]
        if "\r" in text:
            text = text.replace("\r\n", "\n").removesuffix("\r")
        return text.split("\n")

    def _text(self, number: int, line: bytes) -> str:
        try:
            return line.decode().removesuffix("\r")
        except UnicodeDecodeError as error:
            wrong = RowError(number, "no_utf8", f"byte {error.start + 1:,} of it is no UTF-8; save the file as UTF-8")
            if self._strict:
                raise wrong from None
            self._notes.skip(wrong.skipped)
            return ""

    def _too_long(self, number: int) -> None:
        wrong = RowError(
            number, "long_line", f"it is longer than {self._max_line:,} bytes; if that is right, give max_line="
        )
        if self._strict:
            raise wrong
        self._notes.skip(wrong.skipped)

    def _cut(self, number: int | None, error: _Damaged) -> None:
        where = "" if number is None else f", line {number:,}"
        if self._strict:
            help = "fetch the file again, or read what is whole with strict=False"
            raise TraceError(f"{self.name}{where}: {error}; {help}") from None
        self._notes.add("cut", number, f"{self.name}{where}: {error}".replace("{", "{{").replace("}", "}}"))

    def _chunks(self) -> Iterator[bytes]:
        """Return the bytes of the file, unpacked, never much at once whatever they were packed into."""
        size = min(_CHUNK, self._max_line)
        try:
            with self.path.open("rb") as file:
                if file.peek(2)[:2] == _GZIP:
                    yield from _unpacked(file, size)
                else:
                    while chunk := file.read1(size):
                        yield chunk
        except OSError as error:
            raise TraceError(f"{self.name}: cannot be read: {error.strerror or error}") from None


def _head_of(data: bytes) -> tuple[str | None, bool]:
    """Return the head in the beginning of a file, and whether no more of the file would change it."""
    text = data.removeprefix(_BOM).decode(errors="replace")
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        complete = end >= 0
        line = text[start : end if complete else None]
        if line.strip() and not line.lstrip().startswith("#"):
            closed = line.lstrip()[0] not in "{[" or line.rstrip()[-1] in "}]"
            return (line.rstrip("\r"), complete) if closed else (text[start:], False)
        start += len(line) + 1
    return None, False


def _unpacked(file: BufferedReader, size: int) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=file) as packed:
            while chunk := packed.read1(size):  # one step at a time: what is whole before a damage is not lost
                yield chunk
    except EOFError:
        raise _Damaged(f"the gzip data end before they are complete, after {file.tell():,} bytes of the file") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise _Damaged(f"the gzip data are damaged near byte {file.tell():,} of the file ({error})") from None
