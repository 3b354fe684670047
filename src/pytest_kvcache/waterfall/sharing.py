"""How many first tokens of each request were there before: with anybody, with earlier requests, with answered ones."""

from __future__ import annotations

import heapq
from collections.abc import Container, Hashable, Iterable, Sequence
from itertools import count

from .visits import Run, Visit


def reach(path: Iterable[Run], seen: Container[Hashable]) -> int:
    """Return how many first tokens of a path lie in runs that were seen."""
    tokens = 0
    for run in path:
        if run.key not in seen:
            break
        tokens = run.end
    return tokens


def with_earlier(visits: Sequence[Visit]) -> list[int]:
    """Return the tokens that each visit shares with what earlier ones, answers included, left in the cache."""
    seen: set[Hashable] = set()
    found = []
    for visit in visits:
        found.append(reach(visit.prompt, seen))
        seen.update(run.key for run in visit.content)
    return found


def with_answered(visits: Sequence[Visit]) -> list[int]:
    """Return the same, of what had been computed by the time each visit was sent, as far as the client can tell.

    A prompt is computed when its first content arrives (or, when nothing is streamed, its answer); that is a little
    later than on the server, so a visit just after counts as sent too early. An answer is computed when it ends.
    """
    seen: set[Hashable] = set()
    pending: list[tuple[float, int, Sequence[Run]]] = []
    number = count()
    found = []
    for visit in visits:
        while pending and pending[0][0] <= visit.sent:
            seen.update(run.key for run in heapq.heappop(pending)[2])
        found.append(reach(visit.prompt, seen))
        heapq.heappush(pending, (visit.ready, next(number), visit.prompt))
        heapq.heappush(pending, (visit.end, next(number), visit.content))
    return found


def with_others(visits: Sequence[Visit]) -> list[int]:
    """Return the tokens that each visit shares with any other, earlier or later.

    Requests of one conversation are one party here: what a turn adds is said for the first time in it, and that the
    next turn repeats it is no reason why it could have been cached before.
    """
    parties: dict[Hashable, Hashable] = {}
    shared: set[Hashable] = set()
    for number, visit in enumerate(visits):
        party = _party(visit, number)
        shared.update(run.key for run in visit.content if parties.setdefault(run.key, party) != party)
    return [reach(visit.prompt, shared) for visit in visits]


def _party(visit: Visit, number: int) -> Hashable:
    session = visit.lookup.session
    return ("request", number) if session is None else ("session", session)
