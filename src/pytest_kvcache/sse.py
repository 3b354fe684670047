"""Bytes to events: the event-stream grammar of the HTML standard (section 9.2.6), incrementally.

Lines end with CR, LF or CRLF, also when the network splits the pair; one byte-order mark may lead; a line that starts
with a colon is a comment; one space after the field's colon is dropped; several ``data`` lines join with LF; a blank
line dispatches; what is not dispatched when the stream ends is discarded.
"""

from __future__ import annotations

from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One dispatched event.

    Attributes:
        data: the joined data lines.
        type: the ``event`` field, ``message`` when there is none.
        id: the last event id seen so far.
    """

    data: str
    type: str = "message"
    id: str = ""


class EventStream:
    """Feed it pieces of any size, take the events that each piece completes."""

    __slots__ = ("_data", "_id", "_partial", "_skip_lf", "_started", "_type")

    def __init__(self) -> None:
        self._partial: list[bytes] = []  # pieces of the line that has not ended yet
        self._skip_lf = False  # the last piece ended with CR: an LF right after it belongs to it
        self._started = False
        self._data: list[str] = []
        self._type = ""
        self._id = ""

    @property
    def between(self) -> bool:
        """True when the next byte begins an event, and what is fed up to the end of one does not depend on the past."""
        return self._started and not (self._partial or self._data or self._type or self._skip_lf)

    def begin(self) -> None:
        """There is no byte-order mark."""
        self._started = True

    def feed(self, piece: bytes) -> list[Event]:
        """Return the events that ``piece`` completes, in order."""
        if self._skip_lf and piece:
            self._skip_lf = False
            piece = piece.removeprefix(b"\n")
        if b"\r" in piece:
            self._skip_lf = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = piece.split(b"\n")
        events: list[Event] = []
        for line in lines:
            if self._partial:
                line = b"".join((*self._partial, line))
                self._partial.clear()
            event = self._line(line)
            if event is not None:
                events.append(event)
        if rest:
            self._partial.append(rest)
        return events

    def _line(self, line: bytes) -> Event | None:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")  # a comment has an empty name
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value.decode("utf-8", "replace"))
        elif name == b"event":
            self._type = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        return None

    def _dispatch(self) -> Event | None:
        data, kind = self._data, self._type
        self._type = ""
        if not data:
            return None
        self._data = []
        return Event("\n".join(data), kind or "message", self._id)
