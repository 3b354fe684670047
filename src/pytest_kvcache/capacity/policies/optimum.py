"""What no policy exceeds, because it takes the future: whose next use is furthest goes first.

A block hits when it stayed from one use to the next. So each pair of uses that follow each other is a *stay*: it takes
the block's cost of the room in every gap between requests from one use to the next, and is worth its hit tokens. No
policy keeps more at a time than there is room for, so none does better than the best choice of stays. Where all cost
and are worth the same, dropping the stay that ends last whenever there are too many is such a choice (Belady, A study
of replacement algorithms for a virtual-storage computer, 1966; with the freedom not to keep a block at all). It keeps
prefixes: a block is used whenever one behind it is, so its next use is never the later one.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import chain, repeat

from ..paths import Path
from .cache import Cache, Evicted

_LAYERS = 16

Stays = dict[tuple[int, int], int]
"""Room that blocks take which are used by one request and next by another, by the numbers of both."""


class Foresight:
    """When every block of a trace is used next.

    Args:
        paths: all requests.
        costs: what a block takes of the room, by number.
        warm_rows: hits of so many first requests are worth nothing.

    Attributes:
        due: for each block of each request, one request after the other, the request that uses it next; the number of
            requests where there is none, or nothing is won by having kept it.
        stays: by what they are worth for their cost: hit tokens for a slot, or for a token.
    """

    def __init__(self, paths: Sequence[Path], costs: Sequence[int], warm_rows: int) -> None:
        self.due = array("i")
        kinds: dict[tuple[int, int], Stays] = defaultdict(lambda: defaultdict(int))
        never = (len(paths), 0)
        upcoming: dict[int, tuple[int, int]] = {}  # by block: its next request, and what it hits there
        for now in range(len(paths) - 1, -1, -1):
            path = paths[now]
            found = [upcoming.get(block, never) for block in path.blocks]
            self.due.extend([then for then, _ in reversed(found)])
            charged = zip(found, map(costs.__getitem__, path.blocks), strict=True)
            for ((then, worth), cost), blocks in Counter(charged).items():
                if worth:
                    kinds[worth, cost][now, then] += cost * blocks
            full, rest = (path.used.full, path.used.rest) if now >= warm_rows else (0, [0] * len(path.blocks))
            worths = chain(repeat((now, path.block_size), full), ((now, worth) if worth else never for worth in rest))
            upcoming.update(zip(path.blocks, worths, strict=True))
        self.due.reverse()
        self.stays = _merged((Fraction(worth, cost), stays) for (worth, cost), stays in kinds.items())


class Optimum(Cache):
    """Evicts what is used last from now on, or does not keep it in the first place."""

    __slots__ = ("_due", "_event", "_far", "_foresight", "_stride")

    def __init__(self, room: int, costs: Sequence[int], foresight: Foresight) -> None:
        super().__init__(room, costs)
        self._foresight = foresight.due
        self._event = 0
        self._due: dict[int, int] = {}
        self._stride = len(costs)
        self._far: list[int] = []  # blocks that are held, and stale entries: negative numbers of due and block in one

    def admit(self, path: Sequence[int], now: int) -> list[Evicted]:
        """Keep of everything that there is what is needed soonest."""
        for block in path:
            due = self._due[block] = self._foresight[self._event]
            self._event += 1
            heappush(self._far, -due * self._stride - block)  # of one request, the tail goes first
            if block not in self.held:
                self.held[block] = now
                self.used += self.costs[block]
        evicted = []
        while self.used > self.room:
            due, block = divmod(-heappop(self._far), self._stride)
            if self._due.get(block) != due:
                continue
            del self._due[block]
            self.used -= self.costs[block]
            since = self.held.pop(block)
            if since < now:  # else it was never let in
                evicted.append((block, since))
        if len(self._far) > 1_000 + 4 * len(self._due):
            self._far = [-due * self._stride - block for block, due in self._due.items()]
            heapify(self._far)
        return evicted


def bound(foresight: Foresight, room: int) -> int:
    """Return hit tokens that no policy exceeds, and that the best one has where all stays cost and are worth the same.

    What a stay is worth for its cost is cut into layers, from one threshold to the next; the best choice for all is
    worth no more than the best choices for each layer together. Values between thresholds count as the next higher one.
    """
    layers = _layers(foresight.stays)
    total = Fraction()
    chosen: Stays = defaultdict(int)
    for at, (value, stays) in enumerate(layers):
        for stay, units in stays.items():
            chosen[stay] += units
        lower = layers[at + 1][0] if at + 1 < len(layers) else 0
        total += (value - lower) * most(chosen, room)
    return int(total)


def most(stays: Stays, room: int) -> int:
    """Return how much of the stays, in units of cost, can be kept when no more than ``room`` is taken at a time."""
    ending: dict[int, int] = defaultdict(int)  # kept, by end
    far: list[int] = []
    kept = taken = reached = 0
    for start, end in sorted(stays):
        for over in range(reached, start + 1):
            taken -= ending.pop(over, 0)
        reached = start + 1
        units = stays[start, end]
        if not ending[end]:
            heappush(far, -end)
        ending[end] += units
        kept += units
        taken += units
        while taken > room:
            drop = min(taken - room, ending[-far[0]])
            ending[-far[0]] -= drop
            kept -= drop
            taken -= drop
            if not ending[-far[0]]:
                heappop(far)
    return kept


def _layers(stays: dict[Fraction, Stays]) -> list[tuple[Fraction, Stays]]:
    """Return stays by thresholds, the highest one first."""
    if len(stays) <= _LAYERS:
        return sorted(stays.items(), reverse=True)
    step = max(stays) / _LAYERS
    return sorted(_merged((-(-value // step) * step, found) for value, found in stays.items()).items(), reverse=True)


def _merged(kinds: Iterable[tuple[Fraction, Stays]]) -> dict[Fraction, Stays]:
    merged: dict[Fraction, Stays] = defaultdict(lambda: defaultdict(int))
    for value, stays in kinds:
        for stay, units in stays.items():
            merged[value][stay] += units
    return merged
