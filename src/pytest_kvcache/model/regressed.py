"""What became of a figure against what it was before."""

from __future__ import annotations

from dataclasses import dataclass

from .objective import Reached


@dataclass(frozen=True, slots=True)
class Regression:
    """One comparison of a metric with its baseline.

    Attributes:
        name: of the metric, as the marker calls it: ``hit_rate``, ``ttft_p95``.
        where: which level or workload of the test; empty when there is only one.
        reached: ``fail``: it regressed; ``inconclusive``: that cannot be told.
        allowed: how much worse it may be, signed: -0.02 of a rate, 0.1 of a relative change, seconds.
        relative: ``allowed``, ``change`` and the interval are shares of the baseline; else in the metric's unit.
        baseline / measured: of counted metrics the total, of others the median of the runs; None: not known.
        change: the estimated change; None: not known.
        low / high: of it, a confidence interval (98 %), or the bounds that printed digits leave; None: open, or exact.
        p: one-sided probability of values so much worse by chance alone; None: nothing was tested.
        n / n_baseline: runs on each side.
        exact: compared as numbers, because runs of one side do not differ by more than is allowed.
        sentence: one line, the metric first.
        advice: what to do; may be empty.
    """

    name: str
    where: str
    reached: Reached
    allowed: float
    relative: bool
    baseline: float | None = None
    measured: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    n: int = 0
    n_baseline: int = 0
    exact: bool = False
    sentence: str = ""
    advice: str = ""
