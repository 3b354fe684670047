"""How is a comparison said? What it was, what it is, by how much, how sure that is, and what was allowed. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..figures import plural
from ..model import Regression
from ..slo import wording as slo
from . import ranks
from .asked import ALPHA, Allowed
from .metrics import METRICS, Metric
from .values import least

_MOST_DECIMALS = 9
_POINTS = 100


def told(allowed: Allowed, found: Regression) -> Regression:
    """Return a comparison with its sentence: ``TTFT p95 rose from 120.0 ms to 138.0 ms (+15.1 %, ...)``."""
    moved = change(allowed, found.change) if found.change else ""
    facts = [moved, *_sure(allowed, found), f"allowed {_allowed(allowed)}", *_basis(found)]
    sentence = f"{title(found)} {_moved(allowed.metric, found)} ({', '.join(filter(None, facts))})"
    advice = ""
    if found.reached == "inconclusive" and found.exact:
        advice = "the limit lies inside what printed digits leave open: send more tokens, or use source='usage'"
    return replace(found, sentence=sentence, advice=advice)


def title(found: Regression) -> str:
    """Return what was compared: ``TTFT p95 at concurrency 8``."""
    where = f" at {found.where}" if found.where.startswith(("concurrency ", "rate ")) else ""
    other = f" of {found.where}" if found.where and not where else ""
    return f"{METRICS[found.name].title}{where}{other}"


def unknown(allowed: Allowed, values: Sequence[float | None], *, now_side: bool) -> tuple[str, str]:
    """Return that a value is missing on one side, and what to do."""
    name, lacking = allowed.metric.title, sum(value is None for value in values)
    side = "now" if now_side else "in the baseline"
    what = f"{name} is not known {side}"
    if values and lacking < len(values):
        what += f" of {lacking} of {plural(len(values), 'run')}"
    advice = "" if now_side else "make it anew (--kv-update-baseline)"
    needs = least(allowed.metric.name)
    if needs > 1:
        advice = "; ".join(filter(None, (f"a value takes at least {needs} samples in every run", advice)))
    return what, advice


def too_few(allowed: Allowed, found: Regression) -> tuple[str, str]:
    """Return that no values whatsoever could have been told apart, and how many runs are needed."""
    least_p = 1 / math.comb(found.n + found.n_baseline, found.n)
    sides = f"{plural(found.n, 'run')} against {found.n_baseline} of the baseline"
    why = " (its runs differ by more than is allowed, so it is compared by a test)" if allowed.metric.is_counted else ""
    what = f"{title(found)} {_moved(allowed.metric, found)}, and {sides} cannot show a change{why}:"
    what += f" at best p{_p(least_p)}, {ALPHA:g} is needed"
    both = ranks.repeats_needed(ALPHA)
    alone = ranks.repeats_needed(ALPHA, found.n_baseline)
    if both is not None and alone is not None and alone <= both:
        return what, f"run it {alone} times"
    other = f", or {alone} times against this baseline" if alone is not None else ""
    return what, f"run it {both} times on each side{other}"


def too_wide(allowed: Allowed, found: Regression, smallest: float, enough: int | None) -> tuple[str, str]:
    """Return that the values spread too widely to tell a change of the allowed size, and how many runs would do."""
    what = told(allowed, found).sentence
    seen = change(allowed, smallest if allowed.metric.rising else -smallest)
    if math.isfinite(smallest) and smallest > allowed.amount:
        what += f": no change below {seen} could have been told from none"
    elif math.isfinite(smallest):
        beyond = abs(found.change or 0.0) > allowed.amount
        what += ": chance may explain it" if beyond else ": some runs are far off, so it may be more than twice that"
    advice = "allow more, or make the runs more alike (longer ones, a quiet machine)"
    if not allowed.amount:
        return what, "no number of runs shows that a noisy figure did not change at all; say how much it may"
    if enough is not None:
        advice = f"about {enough} runs on each side would probably do; or allow more"
    return what, advice


def change(allowed: Allowed, value: float | None) -> str:
    """Return a change with its sign: ``+15.1 %``, ``-3.0 points``, ``+12.0 ms``; empty when it is not known."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return "from nothing"
    if allowed.relative:
        return f"{_signed(100 * value, 1)} %"
    if allowed.metric.is_share:
        return f"{_signed(_POINTS * value, 1)} points"
    sign = "+" if value > 0 else "-" if value < 0 else ""
    return f"{sign}{figure(allowed.metric, abs(value))}"


def _signed(value: float, decimals: int) -> str:
    """Return a number with its sign, and more decimals where it would be 0."""
    for more in range(_MOST_DECIMALS):
        shown = f"{value:+.{decimals + more}f}"
        if float(shown) or not value:
            break
    return shown if float(shown) else f"{0:.{decimals}f}"


def figure(metric: Metric, value: float, more: int = 0) -> str:
    """Return a value with its unit."""
    if metric.objective is not None:
        return slo.figure(metric.objective, value, more)
    return f"{value:.{3 + more}f}" if metric.is_share else f"{value:,.{more}f} {metric.unit}"


def pair(metric: Metric, old: float, new: float) -> tuple[str, str]:
    """Return two values, with as many digits as tell them apart; where none do, as many as usual."""
    for more in range(_MOST_DECIMALS):
        shown = figure(metric, old, more), figure(metric, new, more)
        if shown[0] != shown[1]:
            return shown
    return figure(metric, old), figure(metric, new)


def _moved(metric: Metric, found: Regression) -> str:
    if found.baseline is None or found.measured is None:
        return "is not known"
    old, new = pair(metric, found.baseline, found.measured)
    if old == new:
        return f"stayed at {new}"
    return f"{'rose' if found.measured > found.baseline else 'fell'} from {old} to {new}"


def _sure(allowed: Allowed, found: Regression) -> list[str]:
    if found.low is None and found.high is None:
        return []
    low, high = (change(allowed, end) for end in (found.low, found.high))
    bounds = f"between {low} and {high}"
    if found.exact:
        return [f"{bounds} as far as the counters tell"]
    return [f"{100 * (1 - 2 * ALPHA):g} % {bounds}"]


def _allowed(allowed: Allowed) -> str:
    if not allowed.amount:
        return "none"
    return change(allowed, allowed.change)


def _basis(found: Regression) -> list[str]:
    if found.exact or found.p is None:
        return []
    return [f"p{_p(found.p)}", f"{plural(found.n, 'run')} against {found.n_baseline}"]


def _p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"={p:.2g}"


def adopted(found: Regression) -> str:
    """Return what becomes the baseline, and what it was."""
    metric = METRICS[found.name]
    if found.measured is None:
        return f"{title(found)} is not known"
    if found.baseline is None:
        return f"{title(found)} {figure(metric, found.measured)} becomes the baseline"
    old, new = pair(metric, found.baseline, found.measured)
    return f"{title(found)} {new} for the baseline, which says {old}"
