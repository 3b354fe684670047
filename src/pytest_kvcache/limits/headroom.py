"""How far is a level from its limit, and can a period that has begun still be held? Pure."""

from __future__ import annotations

import math

from ..model import Objective, Stretch
from .asked import Asked
from .breach import NOBODY, Stalled, judge, samples_of, value_of

AMPLE = 0.5  # of a limit: who uses no more is far enough from it to be passed
GLANCE = 1 / 3  # of an assessment to see that
FEW = 4  # requests to see that, of a limit of which a tenth is used; of a quarter 10, of a half 20
TAILS = {"p95": 0.05, "p5": 0.05, "p10": 0.1}  # share of the samples that may be beyond a limit


def used(asked: Asked, stretch: Stretch) -> float | None:
    """Return how much of its limit the worst objective has used, 1: all of it; None: not known."""
    shares = [_used(asked, objective, stretch) for objective in asked.objectives]
    known = [share for share in shares if share is not None]
    return max(known) if len(known) == len(shares) else None


def is_ample(asked: Asked, stretch: Stretch, assessment: float) -> bool:
    """Tell whether so little of every limit is used that a level need not be assessed before a higher one."""
    if stretch.seconds < GLANCE * assessment or judge(asked, stretch):
        return False
    share = used(asked, stretch)
    return share is not None and share <= AMPLE and stretch.requests >= FEW * max(1.0, 10 * share)


def is_lost(asked: Asked, stretch: Stretch, assessment: float, stalled: Stalled = NOBODY) -> bool:
    """Tell whether a period that has begun is not held even if all that is still to come were good.

    It is taken to go on as fast as it began. What is lost need not be waited for: an overload that lasts shorter is
    over sooner.

    Args:
        asked: what is to be held.
        stretch: the period as far as it has come.
        assessment: seconds that it is to last.
        stalled: of the requests that are in flight.
    """
    if stalled.requests:
        return True
    ended = stretch.requests + stretch.failed
    if not ended or stretch.seconds <= 0:
        return False
    total = max(ended * max(1.0, assessment / stretch.seconds), asked.needed)
    if stretch.failed > max(1.0, asked.max_failed * total):
        return True
    return any(_beyond(objective, stretch) > _allowed(objective, total) for objective in asked.objectives)


def _used(asked: Asked, objective: Objective, stretch: Stretch) -> float | None:
    value = value_of(objective, stretch)
    if value is None:
        return None
    if objective.metric == "attainment":
        return _used_by_each(asked, objective, stretch, met=objective.met_by(value))
    if objective.at_most:
        return value / objective.limit
    return objective.limit / value if value > 0 else math.inf


def _used_by_each(asked: Asked, objective: Objective, stretch: Stretch, *, met: bool) -> float:
    """Return how much of its limit the request uses that stands where the share ends, of the worst kind of limit.

    Several limits together, or failures, break a share of requests before one of them is used up.
    """
    each, q = asked.each, 100 * objective.limit
    kinds = ((stretch.ttft, each.ttft), (stretch.tpot, each.tpot), (stretch.e2e, each.e2e))
    worst = max((seconds.percentile(q) or 0.0) / limit for seconds, limit in kinds if limit is not None)
    return min(worst, 1.0) if met else max(worst, 1.01)


def _beyond(objective: Objective, stretch: Stretch) -> float:
    """Return how many samples are beyond a limit; of a mean that may not be above it, their sum in its unit."""
    if objective.metric == "attainment":
        return 0 if stretch.good is None else stretch.requests + stretch.failed - stretch.good
    samples = samples_of(objective, stretch)
    if objective.statistic == "mean":
        return (samples.mean or 0.0) * len(samples) / objective.limit if objective.at_most else 0.0
    return sum(not objective.met_by(samples.ranked(rank)) for rank in range(len(samples)))


def _allowed(objective: Objective, total: float) -> float:
    """Return how many of so many samples may be beyond a limit, at most."""
    if objective.metric == "attainment":
        return (1 - objective.limit) * total
    if objective.statistic in ("mean", "max"):
        return total if objective.statistic == "mean" else 0
    return TAILS[objective.statistic] * total + 1  # a percentile lies between two samples
