"""Which requests of a trace follow one another, and when is each of them due? Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from ..errors import WorkloadError
from ..model import Row

Order = tuple[tuple[int, ...], ...]
"""Requests by number: those that follow one another, in the order in which they begin."""


class Seat(NamedTuple):
    """A request's place in time.

    Attributes:
        session: number, in the order of their first requests; who stands alone has one as well.
        turn: from 0; None: it stands alone.
        due: seconds from the first request of all, on the replay's clock; None: when its turn comes.
        pause: seconds after the answer before.
    """

    session: int
    turn: int | None
    due: float | None = None
    pause: float = 0.0


def seated(rows: Sequence[Row], name: str, *, clock: bool, speed: float, think: bool) -> list[Seat]:
    """Return the place of each request.

    On the clock a later turn without a time has its delay after the answer before, as AIPerf's traces mean it.

    Args:
        rows: in order.
        name: of the trace, for errors.
        clock: they are due when the trace says; else when their turn comes.
        speed: times and delays are divided by it.
        think: without a clock, delays are waited for.

    Raises:
        WorkloadError: there is no time, or it runs backwards within a session; names the line.
    """
    begin = min((row.time for row in rows if row.time is not None), default=0.0)
    last: dict[int, float] = {}
    found = []
    for row, (session, turn) in zip(rows, _sessions(rows), strict=True):
        wait = row.delay / speed if turn and row.delay is not None else None
        if not clock:
            found.append(Seat(session, turn, None, (wait or 0.0) if think else 0.0))
        elif row.time is not None:
            if row.time < last.get(session, -math.inf):
                back = f"{last[session] - row.time:g} s before the turn before it in its session"
                raise WorkloadError(
                    f"trace {name}: line {row.line:,} is {back}; a closed loop (users=, clock=False) needs no times"
                )
            last[session] = row.time
            found.append(Seat(session, turn, (row.time - begin) / speed))
        elif wait is not None:
            found.append(Seat(session, turn, None, wait))
        else:
            raise WorkloadError(
                f"trace {name}: line {row.line:,} has no time, so it is never due; a closed loop (users=, clock=False)"
                " needs none"
            )
    return found


def order(seats: Sequence[Seat], *, one_by_one: bool) -> Order:
    """Return which requests follow one another: those of a session, or all of them.

    Sessions begin in the order in which they are due, or else in that of their first requests.
    """
    if one_by_one:
        return (tuple(range(len(seats))),)
    sessions: dict[int, list[int]] = {}
    for number, seat in enumerate(seats):
        sessions.setdefault(seat.session, []).append(number)
    return tuple(sorted(map(tuple, sessions.values()), key=lambda numbers: seats[numbers[0]].due or 0.0))


def _sessions(rows: Sequence[Row]) -> Iterator[tuple[int, int | None]]:
    """Return the number of each request's session, and its turn."""
    numbers: dict[Hashable, int] = {}
    turns: dict[int, int] = {}
    for place, row in enumerate(rows):
        # a name and a number are never equal
        session = numbers.setdefault(place if row.session is None else row.session, len(numbers))
        turns[session] = turn = turns.get(session, -1) + 1
        yield session, None if row.session is None else turn
