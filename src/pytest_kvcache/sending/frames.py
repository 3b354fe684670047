"""What passes between the parent and a process that sends, as bytes: whole tuples of built-in types.

They are written by ``marshal``: it is the cheapest way there is, one request costs the parent two of them, and what it
reads it does not execute. Its format belongs to one version of Python, which both ends are by construction
(``sys.executable``), and the socket between them is nobody else's.
"""

from __future__ import annotations

import marshal
import struct
from typing import Any

Frame = tuple[Any, ...]
"""Its kind, and what belongs to it."""

_LENGTH = struct.Struct("=I")
_FORMAT = 2  # the last one without references, for which every object would be looked up


def framed(*parts: Any) -> bytes:
    """Return a frame as bytes.

    Raises:
        ValueError: a part is not of a built-in type.
    """
    data = marshal.dumps(parts, _FORMAT)
    return _LENGTH.pack(len(data)) + data


class Frames:
    """Takes bytes as they arrive and gives the frames that are whole."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that end in this piece."""
        if not self._rest:
            found, used = _read(data)
            if used < len(data):
                self._rest += data[used:]
            return found
        self._rest += data
        found, used = _read(self._rest)
        del self._rest[:used]
        return found


def _read(data: bytes | bytearray) -> tuple[list[Frame], int]:
    """Return the whole frames at the head of ``data``, and how many bytes they are."""
    found: list[Frame] = []
    place, end = 0, len(data)
    with memoryview(data) as view:  # a frame is not copied before it is read
        while (start := place + _LENGTH.size) <= end:
            stop = start + _LENGTH.unpack_from(data, place)[0]
            if stop > end:
                break
            with view[start:stop] as frame:
                found.append(marshal.loads(frame))
            place = stop
    return found, place
