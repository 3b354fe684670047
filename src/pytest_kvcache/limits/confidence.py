"""How sure is the value of an objective? Pure."""

from __future__ import annotations

from ..model import Objective, Stretch
from ..slo import figures, intervals
from ..slo.intervals import Interval
from .breach import samples_of, value_of


def interval_of(objective: Objective, stretch: Stretch) -> Interval:
    """Return the 95 % interval of an objective's value; None where an end is not known."""
    if value_of(objective, stretch) is None:
        return figures.UNKNOWN
    if objective.metric == "attainment":
        return intervals.share(stretch.good or 0, stretch.requests + stretch.failed)
    return figures.interval_of(samples_of(objective, stretch), objective.statistic)
