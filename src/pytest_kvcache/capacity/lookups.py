"""A trace as caches see it: numbers of blocks and what they count for, small enough to be handed to other processes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..rows import Row
from .paths import Path, Paths
from .policies import Cache, Foresight, Optimum, bound
from .rules import Portion, Rules
from .simulate import cache_of, room_of

_UNTOLD = Row(0, 1, array("q"))
_NO_IDS = array("q")


class Played(NamedTuple):
    """What a cache of one budget did.

    Attributes:
        slots: the budget in blocks.
        hit_tokens: of counted rows.
        evictions: of all rows.
        unreached: hit tokens of an ``optimum`` that no known schedule has.
    """

    slots: int
    hit_tokens: int
    evictions: int
    unreached: int = 0


@dataclass(slots=True)
class Lookups:
    """Which blocks each request looks up and then puts into the cache.

    Attributes:
        block_size / rules: as for :class:`~pytest_kvcache.capacity.paths.Paths`.
        warm_rows: hits of so many first requests do not count.
        blocks: of all requests, one after the other.
        depths: blocks of each request.
        full / rest: what they count for, see :class:`~pytest_kvcache.capacity.rules.Portion`.
        costs: what each block takes of the room, by number.
    """

    block_size: int
    rules: Rules
    warm_rows: int = 0
    blocks: array[int] = field(default_factory=lambda: array("i"))
    depths: array[int] = field(default_factory=lambda: array("i"))
    full: array[int] = field(default_factory=lambda: array("i"))
    rest: array[int] = field(default_factory=lambda: array("q"))
    costs: array[int] = field(default_factory=lambda: array("q"))

    @classmethod
    def of(cls, rows: Iterable[Row], paths: Paths, warm_rows: int) -> Lookups:
        """Return what the caches are asked by a trace."""
        found = cls(paths.block_size, paths.rules, warm_rows)
        for path in map(paths.of, rows):
            found.blocks.extend(path.blocks)
            found.depths.append(len(path.blocks))
            found.full.append(path.used.full)
            found.rest.extend(path.used.rest)
        found.costs.extend(paths.costs)
        return found

    def __iter__(self) -> Iterator[Path]:
        """The requests, as far as a cache has to know them."""
        start = begin = 0
        for depth, full in zip(self.depths, self.full, strict=True):
            end, until = start + depth, begin + depth - full
            used = Portion(_NO_IDS, full, tuple(self.rest[begin:until]))
            yield Path(_UNTOLD, used, self.blocks[start:end].tolist(), self.block_size)
            start, begin = end, until

    def __len__(self) -> int:
        """Blocks that are looked up."""
        return len(self.blocks)

    @property
    def paths(self) -> Paths:
        """What an empty cache has to know of the blocks."""
        known = Paths(self.block_size, self.rules)
        known.costs = self.costs.tolist()
        return known

    def play(self, cache: Cache, slots: int) -> Played:
        """Send all requests through an empty cache."""
        hits = evictions = 0
        anywhere = self.rules.match == "any"
        for number, path in enumerate(self):
            if number >= self.warm_rows:
                if anywhere:
                    hits += sum(map(path.credit_at, cache.anywhere(path.blocks)))
                else:
                    hits += path.credit(cache.leading(path.blocks))
            evictions += len(cache.admit(path.blocks, number))
        return Played(slots, hits, evictions)


def play_each(lookups: Lookups, policy: str, budgets: Sequence[int]) -> list[Played]:
    """Send a trace through a cache of each budget, in blocks."""
    paths = lookups.paths
    if policy != "optimum":
        return [lookups.play(cache_of(policy, slots, paths), slots) for slots in budgets]
    foresight = Foresight(list(lookups), paths.costs, lookups.warm_rows)
    return [_optimum(lookups, foresight, room_of(slots, paths), slots) for slots in budgets]


def _optimum(lookups: Lookups, foresight: Foresight, room: int, slots: int) -> Played:
    reached = lookups.play(Optimum(room, lookups.costs, foresight), slots)
    return reached._replace(unreached=bound(foresight, room) - reached.hit_tokens)
