"""What can be compared, in which unit, and which way is worse? Names as in ``kv_slo``, and what was reused. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..model import Objective
from ..model.objective import UNITS
from ..slo import asked as slo
from ..slo import wording

SHARES = ("hit_rate", "attainment", "error_rate")
"""Rates of 0..1: their changes are told in points, because a change of 5 % of a share may mean two things."""

COUNTED = ("hit_rate", "hit_tokens")
"""What is the same in every run unless something changed, as far as requests do not race each other."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of a run that can be compared.

    Attributes:
        name: as the marker calls it, ``ttft_p95``.
        title: ``TTFT p95``.
        unit: ``s``, ``tok/s``, ``req/s``, ``tokens``, or empty for a share.
        rising: it is worse when it rises; else when it falls.
        objective: for the figure of a sample; None: it comes from the verdict on the hit rate.
    """

    name: str
    title: str
    unit: str
    rising: bool
    objective: Objective | None = None

    @property
    def is_share(self) -> bool:
        """Its changes are told in points."""
        return self.name in SHARES

    @property
    def is_counted(self) -> bool:
        """It is the same in every run unless something changed."""
        return self.name in COUNTED


def _metrics() -> dict[str, Metric]:
    found = [
        Metric("hit_rate", "hit rate", "", rising=False),
        Metric("hit_tokens", "hit tokens", "tokens", rising=False),
    ]
    for name, (metric, statistic, at_most) in slo.KNOWN.items():
        objective = Objective(metric, statistic, 0.0, at_most, name)
        found.append(Metric(name, wording.title(objective), UNITS[metric], at_most, objective))
    return {metric.name: metric for metric in found}


METRICS = _metrics()
"""Every metric by its name, the hit rate first."""
