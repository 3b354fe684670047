"""What is concluded: one verdict, a list of findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..errors import ExpectationFailed
from .measured import Finding
from .objective import Attained
from .regressed import Regression

Status = Literal["pass", "fail", "inconclusive"]
Origin = Literal["given", "predicted", "simulated"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The conclusion about one or several measurements: a list of findings, where green is the empty list.

    Attributes:
        status: ``pass``, ``fail`` or ``inconclusive``.
        sentence: one line for a failure text; it begins with ``hit rate`` or ``inconclusive`` unless passed, or, where
            no hit rate is asked for or it is met, with the objective that was missed.
        hit_tokens / query_tokens: what the rate was computed from; None when there is no valid number.
        hit_rate: the judged rate; None when undefined or invalid.
        target: the rate that was asked for, as a number also where it is predicted or simulated; None when only bounds
            were, or it is not known.
        target_from: where the target comes from; None without one.
        min / max: the bounds that were asked for; None without one.
        simulated: the rate that a cache as large as the server's reaches; None when that is not known.
        source: where the rate came from, ``counters`` or ``usage``; None without one.
        low / high: the bounds of the rate, where printed digits or the engine's own probes leave some room; None when
            it is exact.
        warm: the rate over the requests that had something to hit; None when that is not known.
        findings: deviations and doubts, gravest first.
        objectives: what became of each limit of latency, throughput and speed-up; empty when none was asked for.
        regressions: what became of each comparison with the baseline; empty when none was asked for.
    """

    status: Status
    sentence: str
    hit_rate: float | None = None
    hit_tokens: int | None = None
    query_tokens: int | None = None
    target: float | None = None
    target_from: Origin | None = None
    min: float | None = None
    max: float | None = None
    predicted: float | None = None
    simulated: float | None = None
    ceiling: float | None = None
    source: Literal["counters", "usage"] | None = None
    low: float | None = None
    high: float | None = None
    warm: float | None = None
    findings: tuple[Finding, ...] = ()
    objectives: tuple[Attained, ...] = ()
    regressions: tuple[Regression, ...] = ()

    def check(self) -> None:
        """Raise :class:`~pytest_kvcache.errors.ExpectationFailed` unless the verdict is a pass."""
        if self.status != "pass":
            raise ExpectationFailed(self)
