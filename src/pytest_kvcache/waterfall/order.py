"""In which order were requests looked up? As they were sent, except where their hits say otherwise.

Of requests that are in flight together any may come first. One that found what nobody before it had must have come
after one that missed it: then the two change places, so that neither a surplus nor a loss is made up between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..model import Grain
from .account import Account, opened
from .visits import Visit

_PASSES = 8


def admitted(
    visits: Sequence[Visit], grain: Grain, hits: Mapping[int, int]
) -> tuple[Sequence[Visit], list[Account | None]]:
    """Return visits in the order of their look-ups, with their accounts.

    Args:
        visits: in order of sending.
        grain: how the cache gives credit.
        hits: as for :func:`~pytest_kvcache.waterfall.account.opened`.
    """
    accounts = opened(visits, grain, hits)
    for _ in range(_PASSES):
        before = _before(visits, accounts)
        if not before:
            break
        moved = set(before.values())
        order: list[int] = []
        for number in range(len(visits)):
            if number not in moved:
                order += [before[number], number] if number in before else [number]
        visits = [visits[number] for number in order]
        accounts = opened(visits, grain, hits)
    return visits, accounts


def _before(visits: Sequence[Visit], accounts: Sequence[Account | None]) -> dict[int, int]:
    """Return which visit has to come before which, both by their place."""
    found: dict[int, int] = {}
    taken: set[int] = set()
    for number, (visit, account) in enumerate(zip(visits, accounts, strict=True)):
        if account is None or not account.lost.get("surplus") or number in taken:
            continue
        deepest = [run.key for run in visit.prompt if run.start < (account.measured or 0)][-1]
        for later in range(number + 1, len(visits)):
            if visits[later].sent >= visit.ready:
                break
            other = accounts[later]
            if later not in taken and other is not None and other.left and deepest in _keys(visits[later]):
                found[number] = later
                taken.add(later)
                break
    return found


def _keys(visit: Visit) -> list[object]:
    return [run.key for run in visit.prompt]
