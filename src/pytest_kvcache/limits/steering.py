"""Which rung is likely to be the last that holds? Arithmetic on what others used of their limit. Pure."""

from __future__ import annotations

import math

from .ladder import Ladder

GROWTH = 4.0  # fold at once, at most: what is left of an overload has to be waited for
CAP = 3.0  # limits used: far above, a queue only tells how long it has grown


def ramp(ladder: Ladder, rung: int, used: float | None) -> int:
    """Return the rung to try above one that held while none has broken: the more headroom, the higher.

    It is where a latency in proportion to the level would reach its limit.

    Args:
        ladder: the levels.
        rung: the highest that held, not the last.
        used: how much of the limit it used; None: not known.
    """
    if used is None:
        return rung + 1
    growth = min(GROWTH, 1 / used) if used > 0 else GROWTH
    return max(rung + 1, ladder.below(ladder[rung].value * growth))


def aim(floor: int, ceiling: int, used: tuple[float | None, float | None], *, halve: bool) -> int:
    """Return the rung to try between one that held and one that did not.

    It is the last that holds if what is used grows evenly between the two.

    Args:
        floor / ceiling: with at least one rung between them.
        used: of the limit, by the two.
        halve: take the middle, because an aim left most of the gap: what is used does not grow evenly.
    """
    low, high = used
    if halve or low is None or high is None or not low < 1 < high:
        return (floor + ceiling) // 2
    share = (1 - low) / (min(high, CAP) - low)
    return max(floor + math.floor(share * (ceiling - floor)), floor + 1)
