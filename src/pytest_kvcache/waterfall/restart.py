"""Was everything forgotten at one moment?

A reset or a restart shows as this: from one request on, what was cached before is missed, several prefixes of it, and
what is computed after that moment is found as predicted. One prefix alone may have been lost for any reason, so it
counts only where the counters themselves fell.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from ..model import Grain
from .account import Account
from .placement import Place
from .sharing import reach
from .visits import Visit

_PREFIXES = 2


class Forgotten(NamedTuple):
    """What was cached before ``first`` was sent and missed from then on."""

    first: Visit
    prefixes: int
    losses: tuple[tuple[Account, int], ...]


def forgotten(
    visits: Sequence[Visit], accounts: Sequence[Account | None], places: Sequence[Place], grain: Grain, *, fell: bool
) -> Forgotten | None:
    """Return what a reset before the first request that lost something explains; None when it does not explain all.

    Args:
        visits / accounts / places: in order of sending.
        grain: how the cache gives credit.
        fell: the counters say that the engine restarted.
    """
    first = next((number for number, account in enumerate(accounts) if account is not None and account.left), None)
    if first is None or not (fell or any(map(_hit, visits[:first], accounts[:first]))):
        return None
    seen: list[set[Hashable]] = [set() for _ in range(1 + max(place.engine for place in places))]
    losses: list[tuple[Account, int]] = []
    prefixes: set[Hashable] = set()
    for visit, account, place in zip(visits[first:], accounts[first:], places[first:], strict=True):
        there = reach(visit.prompt, seen[place.engine])
        seen[place.engine].update(run.key for run in visit.content)
        if account is None:
            continue
        lost = place.bounded - min(place.bounded, grain.credit(there, visit.length))
        if not lost - account.lost.get("duplicates", 0) <= account.left <= lost:
            return None  # something from before was found, or something from after was not
        if account.left:
            losses.append((account, lost))
            prefixes.add(next(run.key for run in visit.prompt if run.end > there))
    if len(prefixes) < (1 if fell else _PREFIXES):
        return None
    return Forgotten(visits[first], len(prefixes), tuple(losses))


def take_reset(found: Forgotten) -> None:
    """Move what was forgotten to ``reset``."""
    for account, lost in found.losses:
        account.take("reset", lost)


def _hit(visit: Visit, account: Account | None) -> bool:
    if account is not None:
        return bool(account.measured)
    return bool(visit.exchange and visit.exchange.cached_tokens)
