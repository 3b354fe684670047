"""Which engine served which request? Nobody tells, but every request's hit says which caches it can have met.

Requests are replayed in order of sending through one LRU stack for each engine that looked anything up. A request goes
to an engine whose replayed hit is its measured one. Where several fit, a chooser decides: the next engine in turn, as a
router that does not look at caches would, or the one whose row of the counters has most room left for such a request.
A placement is believed only when it gives each engine's query and hit tokens as the counters have them, whatever the
engines' names; the requests' own numbers alone would fit too much.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..model import Grain
from .account import Account
from .sharing import reach
from .stack import LruStack
from .visits import Run, Visit

Row = tuple[int, int]
"""Query and hit tokens of an engine."""

Want = tuple[int, int]
"""Least and most that a visit may have hit, had nothing of it been in flight; what it did hit is the least."""

_MOST_STARTS = 8

Chooser = Callable[[Visit, int, Sequence[int]], int]
"""Of a visit, its hit and the engines that fit, return one."""


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

    def replay(self, visits: Sequence[Visit], wants: Sequence[Want | None], choose: Chooser) -> list[Place]:
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


def placed(
    fleet: Fleet, visits: Sequence[Visit], accounts: Sequence[Account | None], rows: Sequence[Row], slack: Row
) -> list[Place] | None:
    """Return the placement that explains most of what is left; None when none agrees with the engines' rows.

    Args:
        fleet: one engine for each row.
        visits: in order of sending.
        accounts: of each.
        rows: of the counters; with one engine there is nothing to choose and they are not looked at.
        slack: how far query and hit tokens of a row may be off.
    """
    wants = [_want(visit, account) for visit, account in zip(visits, accounts, strict=True)]
    best: tuple[int, list[Place]] | None = None
    for choose in _choosers(fleet.engines, rows):
        places = fleet.replay(visits, wants, choose)
        if fleet.engines > 1 and not agrees(visits, places, accounts, rows, slack):
            continue
        misfit = sum(_distance(place.bounded, want) for place, want in zip(places, wants, strict=True) if want)
        if best is None or misfit < best[0]:
            best = misfit, places
        if not misfit:
            break
    return best and best[1]


def agrees(
    visits: Sequence[Visit],
    places: Sequence[Place],
    accounts: Sequence[Account | None],
    rows: Sequence[Row],
    slack: Row = (0, 0),
) -> bool:
    """Return whether a placement gives the rows of the counters, in any order; an unknown hit is the replay's."""
    sums = [[0, 0] for _ in rows]
    for visit, place, account in zip(visits, places, accounts, strict=True):
        if account is not None:
            sums[place.engine][0] += visit.looked_up
            sums[place.engine][1] += place.bounded if account.measured is None else account.measured
    pairs = zip(sorted(map(tuple, sums)), sorted(rows), strict=True)
    return all(abs(a - b) <= room for pair in pairs for a, b, room in zip(*pair, slack, strict=True))


class Turns:
    """The next engine in turn, or the next one after it that fits."""

    def __init__(self, engines: int, start: int = 0) -> None:
        self._engines, self._next = engines, start

    def __call__(self, _visit: Visit, _hit: int, fitting: Sequence[int]) -> int:
        """Choose."""
        chosen = min(fitting, key=lambda engine: (engine - self._next) % self._engines)
        self._next = (chosen + 1) % self._engines
        return chosen


class Rooms:
    """The engine whose row has room for most requests like this one; in turn before the rows begin."""

    def __init__(self, rows: Sequence[Row], start: int) -> None:
        self._turns = Turns(len(rows), start)
        self._hit = [hit for _, hit in rows]
        self._computed = [query - hit for query, hit in rows]

    def __call__(self, visit: Visit, hit: int, fitting: Sequence[int]) -> int:
        """Choose, and take the request off the engine's row."""
        if visit.at is None:
            return self._turns(visit, hit, fitting)
        chosen = max(fitting, key=lambda engine: self._room(engine, visit.looked_up, hit))
        self._hit[chosen] -= hit
        self._computed[chosen] -= visit.looked_up - hit
        return chosen

    def _room(self, engine: int, length: int, hit: int) -> float:
        by_hit = self._hit[engine] / hit if hit else math.inf
        return min(by_hit, self._computed[engine] / (length - hit) if length > hit else math.inf)


def _choosers(engines: int, rows: Sequence[Row]) -> Iterator[Chooser]:
    yield Turns(engines)
    if engines > 1:
        for start in range(min(engines, _MOST_STARTS)):
            yield Rooms(rows, start)


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
