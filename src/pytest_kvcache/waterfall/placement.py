"""Which engine served which request? Nobody tells, but every request's hit says which caches it can have met.

Requests are replayed in order of sending through one LRU stack for each engine. A request goes to an engine whose
replayed hit is its measured one; where several fit, a guess at the router decides (``routers``). It is believed
only when it gives each engine's query and hit tokens as the counters have them, whatever the engines' names; the
requests' own numbers alone would fit too much. Many requests on several engines fit in more ways than can be tried, so
one that explains nearly all of what is left may miss an engine's counters by a tenth of what that engine looked up.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from ..model import Grain
from .account import Account
from .routers import Router, Row, routers
from .sharing import reach
from .stack import LruStack
from .visits import Run, Visit

Want = tuple[int, int]
"""Least and most that a visit may have hit, had nothing of it been in flight; what it did hit is the least."""

_OFF = 0.1  # of what an engine looked up
_UNFIT = 0.05  # of what is to be explained


@dataclass(frozen=True, slots=True)
class Place:
    """Where a visit went in a replay, and what it could find there.

    Attributes:
        engine: its number.
        unlimited / bounded: hit tokens of that engine's cache without and with its capacity.
        kept_by: least capacity in blocks that holds what was hit.
        lost_by: least capacity that would have held more than was hit; None when there was no more.
        needed: least capacity that holds all that was there once.
    """

    engine: int
    unlimited: int
    bounded: int
    kept_by: int
    lost_by: int | None
    needed: int


@dataclass(frozen=True, slots=True)
class Fleet:
    """Engines of one kind.

    Attributes:
        engines: how many.
        grain: how each gives credit.
        capacity: blocks of each; None: unlimited, or not known.
    """

    engines: int
    grain: Grain
    capacity: int | None = None

    def replay(self, visits: Sequence[Visit], wants: Sequence[Want | None], choose: Router) -> list[Place]:
        """Replay visits in order of sending.

        Args:
            visits: in that order. Each uses its prompt's blocks when it is sent, and all of them when it ends.
            wants: of each; None: not known, so every engine fits.
            choose: among engines that fit.
        """
        uses = sum(len(visit.prompt) + len(visit.content) for visit in visits)
        stacks = [LruStack(self.grain.block, uses) for _ in range(self.engines)]
        running: list[tuple[float, int, LruStack, Sequence[Run]]] = []
        places = []
        for number, (visit, want) in enumerate(zip(visits, wants, strict=True)):
            while running and running[0][0] <= visit.sent:
                _, _, ended, content = heapq.heappop(running)
                ended.use(content)
            bounded = [self._bounded(stack, visit) for stack in stacks]
            engine = choose(visit, want[0] if want else 0, _fitting(bounded, want))
            stack = stacks[engine]
            places.append(self._place(engine, stack, visit, bounded[engine], want))
            stack.use(visit.prompt)
            heapq.heappush(running, (visit.end, number, stack, visit.content))
        return places

    def _bounded(self, stack: LruStack, visit: Visit) -> int:
        there = reach(visit.prompt, stack)
        if self.capacity is not None and stack.total > self.capacity:
            there = min(there, stack.held(visit.prompt, self.capacity) * self.grain.block)
        return self.grain.credit(there, visit.length)

    def _place(self, engine: int, stack: LruStack, visit: Visit, bounded: int, want: Want | None) -> Place:
        block = self.grain.block
        unlimited = self.grain.credit(reach(visit.prompt, stack), visit.length)
        hit = min(want[0] if want else bounded, unlimited) // block
        more = max(hit + 1, -(-self.grain.minimum // block))
        return Place(
            engine=engine,
            unlimited=unlimited,
            bounded=bounded,
            kept_by=stack.needed(visit.prompt, hit),
            lost_by=stack.needed(visit.prompt, more) if hit * block < unlimited else None,
            needed=stack.needed(visit.prompt, unlimited // block),
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """Where every visit went.

    Attributes:
        places: of the visits, in their order.
        misfit: tokens by which replayed hits differ from the measured ones.
        off: tokens by which the engine's counters differ at most, after what they leave open themselves.
    """

    places: Sequence[Place]
    misfit: int
    off: int


def placed(
    fleet: Fleet, visits: Sequence[Visit], accounts: Sequence[Account | None], rows: Sequence[Row], slack: Row
) -> Placement | None:
    """Return the placement that explains most of what is left; None when none agrees with the engines' rows.

    Args:
        fleet: one engine for each row.
        visits: in order of sending.
        accounts: of each.
        rows: of the counters; with one engine there is nothing to choose and they are not looked at.
        slack: how far query and hit tokens of a row may be off.
    """
    wants = [_want(visit, account) for visit, account in zip(visits, accounts, strict=True)]
    left = sum(account.left for account in accounts if account is not None)
    best: Placement | None = None
    for group in routers(rows, len(visits)):
        if best is not None and not best.misfit:
            break
        for router in group:
            places = fleet.replay(visits, wants, router)
            misfit = sum(_distance(place.bounded, want) for place, want in zip(places, wants, strict=True) if want)
            off, share = off_by(visits, places, accounts, rows, slack) if fleet.engines > 1 else (0, 0.0)
            believed = not off or (share <= _OFF and misfit <= _UNFIT * left)
            if believed and (best is None or (misfit, off) < (best.misfit, best.off)):
                best = Placement(places, misfit, off)
            if not off and not misfit:
                break
    return best


def off_by(
    visits: Sequence[Visit],
    places: Sequence[Place],
    accounts: Sequence[Account | None],
    rows: Sequence[Row],
    slack: Row = (0, 0),
) -> tuple[int, float]:
    """Return by how much a placement misses the engines' rows, in any order, at most: tokens, and share of the row.

    A hit that nobody told is the replay's.
    """
    sums = [[0, 0] for _ in rows]
    for visit, place, account in zip(visits, places, accounts, strict=True):
        if account is not None:
            sums[place.engine][0] += visit.looked_up
            sums[place.engine][1] += place.bounded if account.measured is None else account.measured
    tokens, share = 0, 0.0
    for placed_row, row in zip(sorted(map(tuple, sums)), sorted(rows), strict=True):
        off = max(abs(a - b) - room for a, b, room in zip(placed_row, row, slack, strict=True))
        tokens, share = max(tokens, off), max(share, off / max(1, row[0]))
    return tokens, share


def _want(visit: Visit, account: Account | None) -> Want | None:
    """Return what a visit's hit may have been; of one that only warms, what its answer says."""
    if visit.otherwise:
        return None
    if account is not None:
        if account.measured is None:
            return None
        least = min(account.measured, account.predicted)  # no cache of these requests explains more
        return least, least + account.lost.get("duplicates", 0)
    cached = visit.exchange.cached_tokens if visit.exchange and visit.exchange.ok else None
    return None if cached is None else (cached, cached)


def _fitting(bounded: Sequence[int], want: Want | None) -> list[int]:
    """Return the engines whose hit is nearest to what is wanted, more rather than less."""
    if want is None:
        return list(range(len(bounded)))
    ranks = [(_distance(hit, want), hit < want[0]) for hit in bounded]
    above = [rank for rank in ranks if not rank[1]]
    best = min(above or ranks)
    return [engine for engine, rank in enumerate(ranks) if rank == best]


def _distance(hit: int, want: Want) -> int:
    return max(want[0] - hit, hit - want[1], 0)
