"""A trace through caches of many budgets: what does each of them hit?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..errors import TraceError
from ..rows import Note, Row
from .lookups import Lookups, Played, play_each
from .paths import Paths
from .points import Point
from .rules import REFERENCE, Rules, rules_of
from .simulate import cache_of, room_of
from .stack import StackPass, stack_pass
from .workers import can_start, shared

SMALLEST_SHARE = 64
"""The first budget of a sweep holds one in so many of the blocks."""

_STEPS = 12  # from there to all: two for each doubling
_WORTH = 1_000_000  # look-ups of blocks: they take several times as long as a process needs to start


class Swept(NamedTuple):
    """What a curve is made of, see ``Curve.of_points``.

    Attributes:
        points: one for each budget, ascending.
        found: one pass over the same rows: requests, tokens, blocks, and hits without limit.
        notes: what should be known of the figures.
    """

    points: tuple[Point, ...]
    found: StackPass
    notes: tuple[Note, ...]


def sweep(
    rows: Iterable[Row],
    block_size: int,
    policy: str = "lru",
    *,
    budgets: Sequence[int] | None = None,
    rules: Rules | str = REFERENCE,
    warm_rows: int = 0,
    processes: int | None = None,
) -> Swept:
    """Send a trace through a cache of each budget.

    Args:
        rows: requests; gone through twice, so an iterator is kept in memory.
        block_size: tokens of a block.
        policy: ``lru``, ``fifo``, ``lfu``, ``s3fifo`` or ``optimum``.
        budgets: in blocks; None: from 1/64 of the distinct blocks to all of them, two for each doubling.
        rules: what is cached and what can hit.
        warm_rows: so many first rows only fill the cache.
        processes: to compute in, this one included; None: as many as there are processors, as far as the work is worth
            it. Results do not depend on it.

    Raises:
        TraceError: an unknown policy, a policy without such rules, a budget that is no whole number from 0, or a
            process that ended early.
    """
    rules = rules_of(rules)
    _check(budgets, processes)
    paths = Paths(block_size, rules)
    cache_of(policy, None, paths)  # before anything is read: is there such a policy?
    kept = list(rows) if isinstance(rows, Iterator) else rows
    lookups = Lookups.of(kept, paths, warm_rows)
    found = stack_pass(kept, block_size, rules, warm_rows=warm_rows)
    asked = geometric(found.blocks) if budgets is None else sorted(set(budgets))
    everything = sum(paths.costs)
    simulated = [slots for slots in asked if room_of(slots, paths) < everything]
    played = _play(lookups, policy, simulated, _processes(processes, len(simulated), len(lookups) * len(simulated)))
    most = found.tokens.most
    points = [Point(one.slots, min(one.hit_tokens + one.unreached, most), one.evictions) for one in played]
    points += [Point(slots, most, 0) for slots in asked if slots not in simulated]
    return Swept(tuple(sorted(points)), found, tuple(_unreached(played, most)))


def geometric(blocks: int) -> list[int]:
    """Return budgets from 1/64 of so many blocks to all of them, two for each doubling; none of no blocks."""
    series = (round(blocks / SMALLEST_SHARE ** (step / _STEPS)) for step in range(_STEPS, -1, -1))
    return sorted({slots for slots in series if slots})


def _check(budgets: Sequence[int] | None, processes: int | None) -> None:
    if budgets is not None and not (budgets and all(map(_is_whole, budgets))):
        raise TraceError(f"budgets={budgets!r}: expected whole numbers of blocks from 0 on, at least one")
    if processes is not None and not (_is_whole(processes) and processes):
        raise TraceError(f"processes={processes!r}: expected a whole number of processes, at least 1")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _processes(asked: int | None, budgets: int, work: int) -> int:
    if not can_start():
        return 1
    useful = asked if asked is not None else min(_processors(), work // _WORTH)
    return max(1, min(useful, budgets))


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _play(lookups: Lookups, policy: str, budgets: Sequence[int], processes: int) -> list[Played]:
    # budgets in turn, since the smaller one has the more to evict
    parts = [(lookups, policy, budgets[first::processes]) for first in range(processes)]
    return [one for part in shared(_play_part, parts) for one in part]


def _play_part(part: tuple[Lookups, str, Sequence[int]]) -> list[Played]:
    return play_each(*part)


def _unreached(played: Sequence[Played], most: int) -> Iterator[Note]:
    count = sum(one.unreached > 0 and one.hit_tokens < most for one in played)
    if count:
        yield Note(
            "optimum_schedule",
            count,
            None,
            f"at {count} of the budgets no policy has more hit tokens than told, and no schedule is known that has as"
            " many; evictions are those of the best one that is known",
        )
