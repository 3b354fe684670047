"""Pieces of an event stream to an answer: in full where something new is said, by their bytes where it was read before.

What comes out is what reading every event in full would give (:meth:`~pytest_kvcache.replies.Answer.take_event`),
whatever the pieces are.
"""

from __future__ import annotations

from ..sse import EventStream
from .answer import DONE, Answer
from .phrases import HEAD, Phrases, Texts
from .piece import Piece
from .plain import Shape, shapes

_LAST = f"data: {DONE}\n\n".encode()
_PATIENCE = 4  # shapes that are learned before one of them has to have been of use
_SHAPES = 4


class Reader:
    """Reads a stream into an answer, piece by piece as they arrive.

    Args:
        answer: where it goes.
        phrases: what other streams of the same API said; None: it is the only one.
    """

    __slots__ = ("_answer", "_between", "_blank", "_credit", "_events", "_head", "_phrases", "_texts")

    def __init__(self, answer: Answer, phrases: Phrases | None = None) -> None:
        self._answer = answer
        self._phrases = phrases if answer.has_head else None
        self._events = EventStream()
        self._between: bool | None = None  # two events; None: nothing came yet
        self._blank = b"\n\n"
        self._head: bytes | None = None
        self._texts: list[Texts] = []  # the latest first
        self._credit = _PATIENCE

    def feed(self, piece: bytes, at: float) -> None:
        """Read a piece that was received at ``at``, in seconds."""
        if self._between and self._texts:  # nearly always: one event that differs from the last one in its text
            shape, reasoning = self._texts[0]
            text = shape.text_of(piece)
            if text is not None:
                self._answer.take_texts(text, 1, at, reasoning=reasoning)
                self._credit += 1
                return
        if self._between is None and piece:
            self._begin(piece)
        place, end = 0, len(piece)
        while place < end:
            place = (self._between and self._again(piece, place, at)) or self._anew(piece, place, at)

    def _begin(self, piece: bytes) -> None:
        """Find out whether a byte-order mark may be coming, which only the first line can have."""
        if not piece.startswith(b"\xef"):
            self._events.begin()
        self._between = self._events.between

    def _again(self, piece: bytes, place: int, at: float) -> int:
        """Take events there that say what was read before, or texts, and return where they end; 0: there is none."""
        end = self._run(piece, place, at)
        if end:
            return end
        end = self._end(piece, place)
        event = piece[place:end]
        if event == _LAST:
            self._answer.take_event(DONE, at)
            return end
        if self._phrases is None:
            return 0
        head = self._head
        if head is None or not event.startswith(head):
            head = self._recall(event, self._phrases)
            if head is None or (run := self._run(piece, place, at)):
                return 0 if head is None else run
        said = self._phrases.said(event[len(head) :])
        if said is None:
            return 0
        self._answer.take(said, at)
        return end

    def _run(self, piece: bytes, place: int, at: float) -> int:
        for shape, reasoning in self._texts:
            run = shape.run(piece, place)
            if run is not None:
                self._answer.take_texts(run.texts, run.events, at, reasoning=reasoning)
                self._credit += run.events
                return run.end
        return 0

    def _recall(self, event: bytes, phrases: Phrases) -> bytes | None:
        """Find the head of this stream's events, and what is said behind that of others; None: there is none."""
        found = HEAD.match(event)
        if found is None:
            return None
        self._head = head = found[0]
        recalled = [Texts(Shape(head + shape.before, shape.after), reasoning) for shape, reasoning in phrases.texts]
        self._texts = [*recalled, *self._texts][:_SHAPES]
        return head

    def _anew(self, piece: bytes, start: int, at: float) -> int:
        """Read in full to the end of the next event, and return where that is; to cut elsewhere would do no harm."""
        end = self._end(piece, start)
        part = piece[start:end]
        began, said = self._between, None
        events = self._events.feed(part)
        for event in events:
            said = self._answer.take_event(event.data, at)
        self._between = self._events.between
        if began and self._between and len(events) == 1 and said is not None:
            self._learn(part, said)
        return end

    def _end(self, piece: bytes, start: int) -> int:
        end = piece.find(self._blank, start)
        if end < 0 and self._blank == b"\n\n":
            end = piece.find(b"\r\n\r\n", start)
            if end >= 0:
                self._blank = b"\r\n\r\n"
        return len(piece) if end < 0 else end + len(self._blank)

    def _learn(self, event: bytes, said: Piece) -> None:
        """Remember what an event said, and its shape if that was a text and nothing else."""
        text = said.alone
        if text is None:
            if self._phrases is not None and self._head is not None and event.startswith(self._head):
                self._phrases.note(event[len(self._head) :], said)
        elif self._credit:
            self._credit -= 1
            if not self._answer.tells_usage(said):
                self._learn_shape(event, said, text)

    def _learn_shape(self, event: bytes, said: Piece, text: str) -> None:
        """Remember the shape of an event if the same event with another text says that one, and nothing else either."""
        reasoning = bool(said.reasoning)
        for shape, escaped in shapes(event, text):
            [trial] = self._events.feed(shape.holding(escaped + b"."))
            other = self._answer.read(trial.data)
            if isinstance(other, Piece) and other.alone == f"{text}.":
                self._texts = [Texts(shape, reasoning), *self._texts][:_SHAPES]
                if self._phrases is not None and self._head is not None and shape.before.startswith(self._head):
                    self._phrases.note_texts(Texts(Shape(shape.before[len(self._head) :], shape.after), reasoning))
                return
