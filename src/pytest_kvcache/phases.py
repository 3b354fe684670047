"""Which part of a run goes on, and since when? Notes it as it happens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .model import Moment, PhaseName, Span


def now() -> Moment:
    """Return this moment by both clocks."""
    return Moment(time.monotonic(), time.time())


@dataclass(slots=True)
class Phases:
    """The parts of one run, in order.

    Attributes:
        begun: when the run began.
        spans: what it did since then; one that was broken off ends there.
    """

    begun: Moment = field(default_factory=now)
    spans: list[Span] = field(default_factory=list)

    @contextmanager
    def of(self, name: PhaseName) -> Iterator[None]:
        """Note that a part begins here and how it ends."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.spans.append(Span(name, start, time.monotonic()))
