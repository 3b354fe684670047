"""Which events of a stream differ in nothing but their text, and what are these texts?

Nearly every event of a stream is, byte for byte, one that was read before with another text in it. Whoever has read one
of them in full knows what the others say: what stands before and behind a JSON string means the same whatever is in it.
So they are found by their bytes, all of a piece in a few calls, and none is parsed.

Sure rather than complete: what is not certainly such an event is left to those who read in full.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

_UNQUOTED = rb'[^"\\\x00-\x1f]*'  # what stands for itself in a JSON string
_ESCAPE = rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_STRING = _UNQUOTED + rb"(?:" + _ESCAPE + _UNQUOTED + rb")*"
_VALUE = re.compile(rb'"(?:content|text|reasoning|reasoning_content|thinking)"[ \t]*:[ \t]*"(' + _STRING + rb')"')
_STRINGS = re.compile(_UNQUOTED + rb"(?:(?:\n|" + _ESCAPE + rb")" + _UNQUOTED + rb")*")  # one a line
_SPECIAL = bytes(range(32)) + b'"\\'
_MARK = 30  # bytes; to look for a long separator is slow
_SHORT = 64


class Run(NamedTuple):
    """Events that follow one another.

    Attributes:
        texts: as they stand in their JSON strings, one a line.
        events: how many; none has an empty text.
        end: where the run ends in its piece.
    """

    texts: bytes
    events: int
    end: int


class Shape(NamedTuple):
    """An event around its text.

    Attributes:
        before / after: the bytes in front of the text, its opening quote included, and behind it.
    """

    before: bytes
    after: bytes

    def holding(self, text: bytes) -> bytes:
        """Return the event with a text as it stands in a JSON string."""
        return self.before + text + self.after

    def run(self, piece: bytes, start: int) -> Run | None:
        """Return the events of this shape that stand at a place of a piece; None when there is none.

        The place must be between two events.
        """
        if not piece.startswith(self.before, start):
            return None
        return self._several(piece, start) or self._beginning(piece, start)

    def text_of(self, piece: bytes) -> bytes | None:
        """Return the text of a piece that is one such event and no more, as it stands there; None when it is not
        certainly one: its text is long, or has escapes.
        """
        before, after = self
        if not (piece.startswith(before) and piece.endswith(after)):
            return None
        text = piece[len(before) : -len(after)]
        return text if 0 < len(text) <= _SHORT and len(text.translate(None, _SPECIAL)) == len(text) else None

    def _several(self, piece: bytes, start: int) -> Run | None:
        """Return the events up to the end of the last one of this shape, if there is nothing between them."""
        before, after = self
        parts = piece[start:].split(before[-_MARK:])
        between = len(after) + len(before[:-_MARK])
        texts = [part[:-between] for part in parts[1:-1]]
        last, whole, _ = parts[-1].partition(after)
        if whole:
            texts.append(last)
        lines = _lines(texts)
        if lines is None:
            return None
        begin, middle = start + len(before), (after + before).join(texts)
        end = begin + len(middle)
        if not piece.startswith(middle, begin) or not piece.startswith(after, end):
            return None
        return Run(lines, len(texts), end + len(after))

    def _beginning(self, piece: bytes, start: int) -> Run | None:
        """Return the events in front of the first thing between them that is another one."""
        before, after = self
        texts = []
        while piece.startswith(before, start):
            end = piece.find(after, start + len(before))
            text = piece[start + len(before) : end]
            if end < 0 or _lines([text]) is None:
                break
            texts.append(text)
            start = end + len(after)
        return Run(b"\n".join(texts), len(texts), start) if texts else None


def shapes(event: bytes, said: str) -> Iterator[tuple[Shape, bytes]]:
    """Return what may be the shape of an event, and its text as it stands there.

    Who reads it with another text there, and finds that one, knows that it is.

    Args:
        event: all its bytes, to the end of the blank line.
        said: the text that was read.
    """
    for found in _VALUE.finditer(event):
        if found[1] and decoded(found[1]) == said:
            yield Shape(event[: found.start(1)], event[found.end(1) :]), found[1]


def decoded(texts: bytes) -> str:
    """Return the text of JSON strings, one a line.

    Each is decoded alone: halves of a surrogate pair, or of a character, that stand in two of them stay halves.
    """
    if b"\\" not in texts:
        return texts.decode("utf-8", "replace").replace("\n", "")
    return "".join(json.loads('["' + texts.decode("utf-8", "replace").replace("\n", '","') + '"]'))


def _lines(texts: list[bytes]) -> bytes | None:
    """Return texts one a line; None when one is empty or cannot stand in a JSON string."""
    if not texts or not all(texts):
        return None
    lines, ends = b"\n".join(texts), len(texts) - 1
    if len(lines.translate(None, _SPECIAL)) == len(lines) - ends:
        return lines
    return lines if lines.count(b"\n") == ends and _STRINGS.fullmatch(lines) is not None else None
