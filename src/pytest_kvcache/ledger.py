"""What came of every request of a run, in little memory: nothing is lost that a report tells, and no stream is kept.

An exchange is reduced as its request ends. Its numbers go into columns, 8 bytes each; what few requests have (failures,
token ids, attempts before) is kept beside them. Of the stamps of its chunks remain the gaps between them, counted to a
microsecond over all requests, and how many tokens came out when.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, overload

from .distribution import Latency
from .model import Exchange, Phase
from .production import Production

Place = tuple[int, int]
"""Number of a session and of a request in it."""

_NAN = float("nan")  # stands for None among stamps
_NONE = -(1 << 62)  # and among counts
_STAMPS, _COUNTS = 6, 9  # columns of each
_MICRO = 1e6
_MADE = (
    5_000  # exchanges that are kept as objects once they were read: about 2 MiB, and reading them again costs nothing
)
_MOST_TEXT = 1 << 23  # characters of all answers; those behind are not kept, as nothing is judged by them


class Exchanges(Sequence[Exchange]):
    """Exchanges in columns, in the order of their places. Of many, each access makes an object."""

    __slots__ = ("_alike", "_counts", "_ends", "_made_once", "_order", "_phase", "_rests", "_said", "_stamps")

    def __init__(self, phase: Phase) -> None:
        self._phase: Phase = phase
        self._order: Sequence[int] = ()
        self._made_once: list[Exchange] | None = None
        self._stamps = array("d")
        self._counts = array("q")
        self._rests: list[tuple[Any, ...]] = []  # of each request; the same object for all that ended alike
        self._said = bytearray()  # texts and reasonings, one behind the other
        self._ends = array("q")  # where they end there: two for each request
        self._alike: dict[object, tuple[Any, ...]] = {}

    def add(self, e: Exchange, *, with_text: bool) -> None:
        """Take one more, without its chunks."""
        self._stamps.extend(
            [
                _NAN if stamp is None else stamp
                for stamp in (e.queued, e.end, e.scheduled, e.sent, e.first_content, e.last_content)
            ]
        )
        counts = (
            e.prompt_len,
            e.prompt_tokens,
            e.cached_tokens,
            e.completion_tokens,
            e.written_tokens,
            e.lookups,
            e.status,
            e.session,
            e.turn,
        )
        self._counts.extend([_NONE if count is None else count for count in counts])
        for said in (e.text, e.reasoning):
            if with_text:
                self._said += said.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._said))
        rest = (e.partial, e.finish_reason, e.failure, e.tool_calls, e.prompt_ids, e.output_ids, e.earlier)
        if rest == (False, e.finish_reason, None, (), None, None, ()):
            rest = self._alike.setdefault(e.finish_reason, rest)
        self._rests.append(rest)

    def ordered(self, order: Sequence[int]) -> Exchanges:
        """Return a view of them in another order, by their numbers in the order of :meth:`add`."""
        view = Exchanges(self._phase)
        view._stamps, view._counts, view._rests = self._stamps, self._counts, self._rests
        view._said, view._ends = self._said, self._ends
        view._order = array("l", order)
        return view

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, at: int) -> Exchange: ...
    @overload
    def __getitem__(self, at: slice) -> list[Exchange]: ...
    def __getitem__(self, at: int | slice) -> Exchange | list[Exchange]:
        if isinstance(at, slice):
            return list(map(self._made, self._order[at]))
        return self._made(self._order[at])

    def __iter__(self) -> Iterator[Exchange]:
        if self._made_once is None and len(self) <= _MADE:
            self._made_once = list(map(self._made, self._order))
        return map(self._made, self._order) if self._made_once is None else iter(self._made_once)

    def _made(self, number: int) -> Exchange:
        queued, end, *moments = self._stamps[number * _STAMPS : (number + 1) * _STAMPS]
        scheduled, sent, first, last = (stamp if stamp == stamp else None for stamp in moments)
        counts = self._counts[number * _COUNTS : (number + 1) * _COUNTS]
        length, prompt, cached, completion, written, lookups, status, session, turn = (
            None if count == _NONE else count for count in counts
        )
        partial, finish, failure, calls, prompt_ids, output_ids, earlier = self._rests[number]
        return Exchange(
            self._phase,
            queued,
            end,
            scheduled,
            sent,
            first,
            last,
            (),
            length,
            prompt,
            cached,
            completion,
            written,
            lookups or 0,
            partial,
            finish,
            status,
            failure,
            self._text(2 * number),
            self._text(2 * number + 1),
            calls,
            prompt_ids,
            output_ids,
            session,
            turn,
            earlier,
        )

    def _text(self, place: int) -> str:
        start, end = self._ends[place - 1] if place else 0, self._ends[place]
        return self._said[start:end].decode("utf-8", "surrogatepass") if end > start else ""


class Ledger:
    """Receives every exchange of a run under its place, as its request ends.

    Args:
        phase: of the run.
    """

    __slots__ = ("_gaps", "_kept", "_ordered", "_places", "_text", "produced")

    def __init__(self, phase: Phase = "load") -> None:
        self._kept = Exchanges(phase)
        self._places = array("q")  # two for each request
        self._gaps: Counter[int] = Counter()
        self._text = 0
        self._ordered = self._kept  # in the order of their places, when it was last asked for
        self.produced = Production()

    def __setitem__(self, place: Place, exchange: Exchange) -> None:
        self._places.extend(place)
        arrived = Counter(exchange.chunks)  # what came in one piece has one stamp
        self.produced.add(exchange, arrived)
        if exchange.failure is None and arrived:
            self._gaps.update([round((after - before) * _MICRO) for before, after in pairwise(arrived)])
            if together := len(exchange.chunks) - len(arrived):
                self._gaps[0] += together
        self._text += len(exchange.text) + len(exchange.reasoning)
        self._kept.add(exchange, with_text=self._text <= _MOST_TEXT)

    def __len__(self) -> int:
        return len(self._places) // 2

    @property
    def exchanges(self) -> Exchanges:
        """All of them, session by session, each in the order of its requests."""
        if len(self._ordered) != len(self):
            sessions, turns = self._places[::2], self._places[1::2]
            self._ordered = self._kept.ordered(sorted(range(len(self)), key=lambda at: (sessions[at], turns[at])))
        return self._ordered

    def since(self, count: int) -> Iterator[Exchange]:
        """Return those that ended after the first ``count``, as they ended."""
        return map(self._kept._made, range(count, len(self)))

    @property
    def gaps(self) -> Latency:
        """Between the content chunks of whole answers, seconds."""
        return Latency.counted({count / _MICRO: times for count, times in self._gaps.items()})
