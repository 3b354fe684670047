"""How sure is the value of an objective? Pure."""

from __future__ import annotations

from ..model import Objective, Stretch
from ..slo import intervals
from ..slo.intervals import Interval
from .breach import samples_of, value_of


def interval_of(objective: Objective, stretch: Stretch) -> Interval:
    """Return the 95 % interval of an objective's value; None where an end is not known."""
    value, statistic = value_of(objective, stretch), objective.statistic
    if value is None or statistic == "max":
        return None, None
    if objective.metric == "attainment":
        return intervals.share(stretch.good or 0, stretch.requests + stretch.failed)
    samples = samples_of(objective, stretch)
    if statistic == "mean":
        return intervals.mean(samples)
    return intervals.quantile(samples, float(statistic.removeprefix("p")) / 100)
