"""The same placement at other moments than those that the client saw.

When requests had to wait, they were looked up when they were admitted, not when sent.

An engine without room for a request's blocks lets it wait (vLLM 0.32, eight conversations in 100 blocks: 18,432 tokens
were lost to what ran meanwhile). When it was admitted nobody tells; the first token comes shortly after.

An answer's blocks are in the cache before the client has read it to its end. Where it reads slowly, they had taken
their room before the next request came, though that one was sent earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .account import Account
from .placement import Fleet, Placement, placed
from .routers import Row
from .visits import Visit


def placed_as_admitted(
    fleet: Fleet, visits: Sequence[Visit], accounts: Sequence[Account | None], rows: Sequence[Row], slack: Row
) -> Placement | None:
    """Return what :func:`~.placement.placed` does, with every visit at the moment of its first token."""
    order = sorted(range(len(visits)), key=lambda at: visits[at].ready)
    late = [replace(visits[at], sent=visits[at].ready) for at in order]
    found = placed(fleet, late, [accounts[at] for at in order], rows, slack)
    if found is None:
        return None
    places = dict(zip(order, found.places, strict=True))
    return replace(found, places=[places[at] for at in range(len(visits))])


def placed_one_by_one(
    fleet: Fleet, visits: Sequence[Visit], accounts: Sequence[Account | None], rows: Sequence[Row], slack: Row
) -> Placement | None:
    """Return what :func:`~.placement.placed` does, with every visit at its end before the next one is sent."""
    return placed(fleet, [replace(visit, end=visit.sent) for visit in visits], accounts, rows, slack)
