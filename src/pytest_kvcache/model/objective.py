"""What is asked of latency and throughput, and whether it was reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Metric = Literal[
    "ttft",
    "itl",
    "tpot",
    "e2e",
    "tokens_per_s",
    "output_tok_s",
    "input_tok_s",
    "goodput",
    "attainment",
    "error_rate",
    "speedup",
]
Statistic = Literal["p5", "p10", "p50", "p95", "p99", "mean", "min", "max", "total"]
Reached = Literal["pass", "fail", "inconclusive"]

UNITS = {
    "ttft": "s",
    "itl": "s",
    "tpot": "s",
    "e2e": "s",
    "tokens_per_s": "tok/s",
    "output_tok_s": "tok/s",
    "input_tok_s": "tok/s",
    "goodput": "req/s",
    "attainment": "",
    "error_rate": "",
    "speedup": "x",
}


@dataclass(frozen=True, slots=True)
class Objective:
    """One limit of a service level.

    Attributes:
        metric: ``ttft``, ``itl``, ``tpot``, ``e2e``: seconds; ``tokens_per_s``: of one request; ``output_tok_s``,
            ``input_tok_s``: of all together; ``goodput``: requests per second that meet every per-request limit;
            ``attainment``: their share; ``error_rate``: share of requests that failed; ``speedup``: cold over warm.
        statistic: of the samples; ``total`` where there is one number.
        limit: in the metric's unit.
        at_most: the value may not be above it; else not below.
        name: as the marker calls it, ``ttft_p95``.
    """

    metric: Metric
    statistic: Statistic
    limit: float
    at_most: bool
    name: str

    def met_by(self, value: float) -> bool:
        """Tell whether a value is within the limit."""
        return value <= self.limit if self.at_most else value >= self.limit


@dataclass(frozen=True, slots=True)
class PerRequest:
    """What each request has to meet to count as good, in seconds; None: anything.

    Attributes:
        ttft / tpot / e2e: at most.
    """

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None

    @property
    def asked(self) -> bool:
        """True when there is any limit."""
        return (self.ttft, self.tpot, self.e2e) != (None, None, None)


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """All that a ``kv_slo`` marker asks.

    Attributes:
        objectives: every limit.
        each: what a request has to meet for ``goodput`` and ``attainment``.
    """

    objectives: tuple[Objective, ...]
    each: PerRequest = PerRequest()


@dataclass(frozen=True, slots=True)
class Attained:
    """What became of one objective.

    Attributes:
        objective: what was asked.
        reached: ``inconclusive`` when there is no value, too few samples for it, or the client was too slow to tell.
        value: None when there is none.
        low / high: confidence interval (95 %) of the value, None where an end is not known.
        samples: requests or gaps that it comes from.
        sentence: one line, the value first: ``TTFT p95 2.310 s, wanted at most 2.000 s (n=812, 95 % CI 2.2-2.4 s)``.
        note: what stands beside it, such as the ceiling of a speed-up; may be empty.
    """

    objective: Objective
    reached: Reached
    value: float | None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    sentence: str = ""
    note: str = ""
