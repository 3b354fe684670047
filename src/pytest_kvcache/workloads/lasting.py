"""A workload for a time instead of a number of requests: once more, and once more, each time with new rests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, islice

from ..errors import WorkloadError
from ..model import Composed, Request, Session
from ..model.sent import changed


@dataclass(frozen=True, slots=True)
class Lasting:
    """The traffic of a workload for as long as it is wanted.

    Attributes:
        once: the workload.
        lap: tells these repetitions from others of the run; empty: they begin with the workload itself.
        warm: its prefill was sent before in this run.
        count: requests that came of it; None: not known yet, and without end where the workload can be repeated.
    """

    once: Composed
    lap: str = ""
    warm: bool = False
    count: int | None = None

    def of(self, count: int) -> Lasting:
        """Return the same with as many requests as came of it."""
        return replace(self, count=count)

    @property
    def repeats(self) -> bool:
        """True where it has no end of its own."""
        return self.once.again("?") is not None

    @property
    def title(self) -> str:
        """One line for reports."""
        return self.once.title

    @property
    def notes(self) -> Sequence[str]:
        """What a reader of the result should know."""
        if self.count is not None and self.count > len(self.once):
            return (*self.once.notes, f"sent {self.count / len(self.once):.1f} times, with new rests each time")
        return self.once.notes

    @property
    def prefix_len(self) -> int:
        """Tokens that a request shares by construction."""
        return self.once.prefix_len

    @property
    def warms(self) -> str | None:
        """What is cached once the prefill is done."""
        return None if self.warm else self.once.warms

    @property
    def append_only(self) -> bool:
        """As of the workload."""
        return self.once.append_only

    @property
    def fresh(self) -> bool:
        """As of the workload."""
        return self.once.fresh

    def warmed(self) -> Iterator[Request]:
        """Return what is cached already."""
        return chain(self.once.warmed(), self.once.prefill()) if self.warm else self.once.warmed()

    def prefill(self) -> Iterator[Request]:
        """Return the requests that warm the cache, unless they were sent before."""
        return iter(()) if self.warm else self.once.prefill()

    def load(self) -> Iterator[Request] | None:
        """Return the requests; None where they depend on answers, or on which sessions got how far in the time."""
        first = self.once.load()
        if first is None or any(request.session is not None for request in islice(first, 1)):
            return None
        every = (request for lap in self._laps() for request in lap.load() or ())
        return every if self.count is None else islice(every, self.count)

    def sessions(self) -> Iterator[Session]:
        """Return the sessions, lap after lap, numbered on."""
        for number, lap in enumerate(self._laps()):
            for session in lap.sessions():
                yield changed(session, partial(_numbered, number * len(self.once))) if number else session

    def again(self, lap: str) -> Lasting:
        """Return the same with new rests, its prefixes warmed.

        Raises:
            WorkloadError: it cannot be repeated.
        """
        if not self.repeats:
            raise WorkloadError(
                f"{self.once.title}: sent once more these requests would find all of themselves in the cache; give"
                " kv.steps one level, or a workload of fresh prompts (kv_workload.shared_prefix, working_set,"
                " conversation)"
            )
        return Lasting(self.once, lap, warm=True)

    def __len__(self) -> int:
        return len(self.once) if self.count is None else self.count

    def _laps(self) -> Iterator[Composed]:
        if not self.lap:
            yield self.once
        for number in count(0 if self.lap else 1):
            made = self.once.again(f"{self.lap}{number}")
            if made is None:
                return
            yield made


def _numbered(before: int, request: Request, _turn: int) -> Request:
    """Count a session on, so that those of two laps are not taken for one."""
    return request if request.session is None else replace(request, session=request.session + before)
