"""What are the lines of a trace? Plain or gzip, of bounded length, numbered; damage is told with its position."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .notes import Notes

MAX_LINE = 128 * 2**20
"""Bytes of the longest line that is read, by default."""

_CHUNK = 2**18
_HEAD = 2**20
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


class Lines:
    """The lines of a file, as often as they are asked for.

    Iterating gives ``(number, text)``, numbers from 1, without line ends, without blank lines.

    Attributes:
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
        for start, texts in self._blocks():
            for number, text in enumerate(texts, start):
                if text and not text.isspace():
                    yield number, text

    def whole(self) -> str:
        """Return the file as one text, for forms that are one document.

        Raises:
            TraceError: it is longer than the longest line may be, damaged, or cannot be read.
        """
        raise NotImplementedError

    def _blocks(self) -> Iterator[tuple[int, list[str]]]:
        raise NotImplementedError
