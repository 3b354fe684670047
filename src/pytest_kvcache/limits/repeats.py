"""What do several measurements of one level say together: mean, deviation, and how sure the mean is? Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..distribution import Latency
from ..model import Stretch
from ..slo.intervals import student

Figure = Callable[[Stretch], "float | None"]

# 97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom, where the expansion of `student` is not exact.
_FEW = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060)


@dataclass(frozen=True, slots=True)
class Repeated:
    """One figure of several measurements.

    Attributes:
        values: of each, in order; None: not known there.
        mean: of those that are known; None: none is.
        deviation: their standard deviation (of a sample); None for fewer than two.
        low / high: 95 % interval of the mean (Student's t): the truth if measurements vary as normal ones do; None for
            fewer than two.
    """

    values: tuple[float | None, ...]
    mean: float | None = None
    deviation: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Repeated:
        """Return what several values say together."""
        known = [value for value in values if value is not None]
        count = len(known)
        if not count:
            return cls(tuple(values))
        mean = math.fsum(known) / count
        if count == 1:
            return cls(tuple(values), mean)
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (count - 1))
        quantile = _FEW[count - 2] if count - 2 < len(_FEW) else student(0.975, count - 1)
        half = quantile * deviation / math.sqrt(count)
        return cls(tuple(values), mean, deviation, mean - half, mean + half)

    @property
    def known(self) -> int:
        """How many measurements have it."""
        return sum(value is not None for value in self.values)


def _error_rate(stretch: Stretch) -> float | None:
    ended = stretch.requests + stretch.failed
    return stretch.failed / ended if ended else None


def _attainment(stretch: Stretch) -> float | None:
    ended = stretch.requests + stretch.failed
    return stretch.good / ended if ended and stretch.good is not None else None


def _of(samples: Callable[[Stretch], Latency | None], figure: Callable[[Latency], float | None]) -> Figure:
    return lambda stretch: None if (of := samples(stretch)) is None else figure(of)


def _percentile(q: int) -> Callable[[Latency], float | None]:
    return lambda samples: samples.percentile(q)


def _figures(name: str, samples: Callable[[Stretch], Latency | None], *qs: int) -> dict[str, Figure]:
    """Return the mean and some percentiles of samples as figures."""
    at = {f"{name}_p{q}": _of(samples, _percentile(q)) for q in qs}
    return {f"{name}_mean": _of(samples, lambda of: of.mean), **at}


FIGURES: dict[str, Figure] = {
    **_figures("ttft", lambda stretch: stretch.ttft, 50, 95, 99),
    **_figures("tpot", lambda stretch: stretch.tpot, 50, 95, 99),
    **_figures("itl", lambda stretch: stretch.itl, 50, 95, 99),
    **_figures("e2e", lambda stretch: stretch.e2e, 50, 95, 99),
    **_figures("tokens_per_s", lambda stretch: stretch.tokens_per_s, 5, 10),
    "requests_per_s": lambda stretch: stretch.requests_per_s,
    "output_tok_s": lambda stretch: stretch.output_tok_s,
    "input_tok_s": lambda stretch: stretch.input_tok_s,
    "goodput": lambda stretch: stretch.goodput,
    "attainment": _attainment,
    "error_rate": _error_rate,
    "hit_rate": lambda stretch: stretch.hit_rate,
}


def repeated(stretches: Sequence[Stretch]) -> dict[str, Repeated]:
    """Return every figure of several measurements of one level, by name.

    Raises:
        ValueError: they are not of one level.
    """
    levels = {stretch.level for stretch in stretches}
    if len(levels) > 1:
        raise ValueError(f"expected measurements of one level, got {', '.join(sorted(map(str, levels)))}")
    return {name: Repeated.of([figure(stretch) for stretch in stretches]) for name, figure in FIGURES.items()}
