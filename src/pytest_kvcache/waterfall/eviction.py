"""What was lost to other engines' caches, and what to a cache that was too small.

Both follow from a placement: what an engine could not have had, because other engines had computed it, is routing; what
it had and its capacity does not hold any more is eviction.

Where the capacity is not known, eviction is claimed on one of two grounds only: the engine counted evictions; or some
capacity would have kept everything that was hit and nothing more of what was missed, over several of both.
"""

from __future__ import annotations

from collections.abc import Sequence

from .account import Account
from .placement import Place

_FEW = 3  # misses that one capacity has to explain at least, before it counts as the reason


def take_routing(accounts: Sequence[Account | None], places: Sequence[Place]) -> None:
    """Move what the request's own engine never had from what is left to ``routing``."""
    for account, place in zip(accounts, places, strict=True):
        if account is not None:
            account.take("routing", account.predicted - place.unlimited)


def bounded_losses(accounts: Sequence[Account | None], places: Sequence[Place]) -> list[tuple[Account, int, Place]]:
    """Return what the capacity of each request's engine does not hold any more."""
    return [(a, place.unlimited - place.bounded, place) for a, place in zip(accounts, places, strict=True) if a]


def all_losses(accounts: Sequence[Account | None], places: Sequence[Place]) -> list[tuple[Account, int, Place]]:
    """Return all that is left, for an engine that says that it evicted, or a capacity that fits."""
    return [(a, a.left, place) for a, place in zip(accounts, places, strict=True) if a]


def take_eviction(losses: Sequence[tuple[Account, int, Place]]) -> int:
    """Move losses to ``eviction`` and return the capacity in blocks that would have kept them, 0 without any."""
    return max((place.needed for account, tokens, place in losses if account.take("eviction", tokens)), default=0)


def fitting_capacities(accounts: Sequence[Account | None], places: Sequence[Place]) -> tuple[int, int] | None:
    """Return the capacities, from the first and below the second, that hold all hits and nothing that was missed."""
    pairs = [(a, place) for a, place in zip(accounts, places, strict=True) if a]
    above = [place.lost_by for account, place in pairs if account.left and place.lost_by is not None]
    low = max((place.kept_by for _, place in pairs), default=0)
    if not low or len(above) < _FEW or min(above) <= low:
        return None
    return low, min(above)
