"""How is an objective said? Its name, its figure with the right unit, what was wanted, how sure that is. Pure."""

from __future__ import annotations

from ..model import Objective
from ..model.objective import UNITS
from .intervals import Interval

TITLES = {
    "ttft": "TTFT",
    "itl": "ITL",
    "tpot": "TPOT",
    "e2e": "E2E",
    "tokens_per_s": "tokens/s of a request",
    "output_tok_s": "output throughput",
    "input_tok_s": "input throughput",
    "goodput": "goodput",
    "attainment": "attainment",
    "error_rate": "error rate",
    "speedup": "speed-up",
}
_MOST_DECIMALS = 12


def title(objective: Objective) -> str:
    """Return what an objective is about: ``TTFT p95``, ``output throughput``, ``speed-up of TTFT p50``."""
    if objective.metric == "speedup":
        return f"speed-up of {TITLES[objective.name.split('_')[1]]} {objective.statistic}"
    name = TITLES[objective.metric]
    return name if objective.statistic == "total" else f"{name} {objective.statistic}"


def sentence(objective: Objective, value: float, interval: Interval, basis: str, where: str = "") -> str:
    """Return one line: ``TTFT p95 2.310 s, wanted at most 2.000 s (812 requests, 95 % between 2.21 and 2.43)``.

    Args:
        objective: what was asked.
        value: what came out.
        interval: of it.
        basis: what the value comes from.
        where: which run or level; may be empty.
    """
    shown, limit = told(objective, value)
    sure = between(objective, interval)
    place = f" {where}" if where else ""
    inside = f"{basis}, 95 % {sure}" if sure else basis
    return f"{title(objective)} {shown}{place}, wanted {wanted(objective, limit)} ({inside})"


def wanted(objective: Objective, limit: str | None = None) -> str:
    """Return what was asked for: ``at most 2.000 s``."""
    return f"at {'most' if objective.at_most else 'least'} {limit or figure(objective, objective.limit)}"


def told(objective: Objective, value: float) -> tuple[str, str]:
    """Return a value and its limit, with as many digits as tell them apart."""
    for more in range(_MOST_DECIMALS):
        shown, limit = figure(objective, value, more), figure(objective, objective.limit, more)
        if shown != limit or value == objective.limit:
            break
    return shown, limit


def between(objective: Objective, interval: Interval) -> str:
    """Return an interval in words, in the value's own unit; empty when no end is known."""
    low, high = interval
    if low is None and high is None:
        return ""
    if low is None or high is None:
        return f"at least {figure(objective, low)}" if low is not None else f"at most {figure(objective, high or 0.0)}"
    return f"between {figure(objective, low)} and {figure(objective, high)}"


def figure(objective: Objective, value: float, more: int = 0) -> str:
    """Return a value of an objective with its unit.

    Args:
        objective: what it is a value of.
        value: the figure.
        more: further decimals.
    """
    unit = UNITS[objective.metric]
    if unit == "s":
        return duration(value, more)
    if unit == "x":
        return f"{value:.{2 + more}f}x"
    if not unit:
        return f"{value:.{4 + more}f}"
    decimals = 1 if round(value, 2) >= 100 else 2
    return f"{value:,.{decimals + more}f} {unit}"


def duration(seconds: float, more: int = 0) -> str:
    """Return seconds as people read them: ``2.310 s``, ``45.20 ms``, ``0.85 µs``.

    What rounds to the next unit is told in that: 1 s has one spelling, and so can be told apart from what is near it.
    """
    if round(seconds, 4) >= 1 or seconds == 0:
        return f"{seconds:.{3 + more}f} s"
    if round(seconds, 8) >= 1e-3:
        return f"{seconds * 1e3:.{(1 if round(seconds, 5) >= 0.1 else 2) + more}f} ms"
    return f"{seconds * 1e6:.{2 + more}f} µs"
