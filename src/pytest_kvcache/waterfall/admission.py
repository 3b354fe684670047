"""The same placement when requests had to wait: then they were looked up when they were admitted, not when sent.

An engine without room for a request's blocks lets it wait (vLLM 0.32, eight conversations in 100 blocks: 18,432 tokens
were lost to what ran meanwhile). When it was admitted nobody tells; the first token comes shortly after.
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
