"""A curve in few points, each of them exact: enough to draw it, and small enough for a report."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .points import Everywhere
from .rules import ENGINE, REFERENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .curve import Curve
    from .steps import Steps

MOST = 200
_LOOKED_AT = 1_000  # bends of an interval, of more every so many: the others lie close by

_Bend = tuple[float, int, int, int]
"""How far a straight line misses the curve, negative for a heap; the budgets at its ends; where it misses most."""


def outline(curve: Curve, most: int = MOST) -> dict[str, Any]:
    """Return a curve as built-in types: its keys are those of ``curves`` in the document of a session.

    Args:
        curve: of a trace.
        most: points at most, 50 or more.
    """
    counted = curve.input_tokens > 0
    points = [_point(curve, at) for at in budgets(curve, most)] if counted else []
    rules = {REFERENCE: "reference", ENGINE: "engine"}
    return {
        "name": curve.name,
        "policy": curve.policy,
        "rules": rules.get(curve.rules, "own"),
        "warm": curve.warm,
        "block_size": curve.block_size,
        "bytes_per_token": curve.bytes_per_token,
        "requests": curve.requests,
        "input_tokens": curve.input_tokens,
        "ceiling": curve.ceiling,
        "error": max((point["error"] for point in points), default=None) if curve.errors else None,
        "knee": curve.knee()._asdict() if counted else None,
        "points": points,
    }


def budgets(curve: Curve, most: int = MOST) -> list[int]:
    """Return the budgets in blocks of which a curve is best drawn, on an axis that is logarithmic.

    Both ends, the knee, the smallest budget that reaches the ceiling, budgets in steps of one ratio, and those at which
    straight lines between all these miss it most.
    """
    knee, full = curve.knee().blocks, curve.reaching(curve.ceiling_tokens).blocks
    if not isinstance(curve.known, Everywhere):
        return _simulated(curve.points, {knee, full}, most)
    steps = curve.known.tokens
    last = max(curve.unique_blocks, steps.at[-1], 1)
    if last <= most:
        return list(range(1, last + 1))
    chosen = {1, last, max(knee, 1), max(full, 1)}
    spaced = most // 2  # as on a logarithmic axis; bends get what is left
    chosen |= {round(last ** (step / (spaced - 1))) for step in range(spaced)}
    return sorted(chosen | _bends(steps, sorted(chosen), most - len(chosen)))


def _simulated(known: Sequence[int], marks: set[int], most: int) -> list[int]:
    """Return budgets that were simulated: all, or of too many some in steps of one ratio."""
    if len(known) <= most:
        return list(known)
    spaced = most - len(marks) - 2
    ratio = known[-1] / max(1, known[0])
    wanted = (max(1, known[0]) * ratio ** (step / (spaced - 1)) for step in range(spaced))
    near = {known[min(bisect_left(known, at), len(known) - 1)] for at in wanted}
    return sorted(near | (marks & {*known}) | {known[0], known[-1]})


def _bends(steps: Steps, chosen: Sequence[int], count: int) -> set[int]:
    """Return so many more budgets, each where straight lines between all those before it miss the curve most."""
    waiting = [bend for left, right in pairwise(chosen) if (bend := _bend(steps, left, right)) is not None]
    heapify(waiting)
    found: set[int] = set()
    while waiting and len(found) < count:
        _, left, right, at = heappop(waiting)
        found.add(at)
        for ends in ((left, at), (at, right)):
            if (bend := _bend(steps, *ends)) is not None:
                heappush(waiting, bend)
    return found


def _bend(steps: Steps, left: int, right: int) -> _Bend | None:
    """Return where a straight line between two budgets misses the curve most; None: nowhere."""
    begin, end = bisect_right(steps.at, left), bisect_left(steps.at, right)
    if begin >= end:
        return None
    low, high = steps(left), steps(right)
    start, slope = math.log(left), (high - low) / (math.log(right) - math.log(left))
    stride = 1 + (end - begin) // _LOOKED_AT
    missed, at = max(
        (abs(steps.value[n] - low - slope * (math.log(steps.at[n]) - start)), steps.at[n])
        for n in range(begin, end, stride)
    )
    return (-missed, left, right, at) if missed > 0 else None


def _point(curve: Curve, at: int) -> dict[str, Any]:
    error = curve.error(blocks=at) if curve.errors else None
    return {**curve.sizes.budget(at)._asdict(), "hit_rate": curve.hit_rate(blocks=at), "error": error}
