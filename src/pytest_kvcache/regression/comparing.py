"""Is this figure worse than it was, by more than it may be? One comparison. Pure.

Counted figures (the hit rate) are numbers: as long as the runs of a side differ by no more than is allowed, their
totals are compared and nothing is left to chance.

Everything else is noisy, and one value a run is what is known of it. The effect is the Hodges-Lehmann shift of the runs
against those of the baseline, on quotients where a relative change is allowed. A *regression* is an effect beyond what
is allowed that chance explains with a probability of at most :data:`~.asked.ALPHA` (Mann-Whitney, exact, one-sided): so
where nothing has changed a comparison is wrong that often at most, whatever is allowed. It is a *pass* when the effect
is within what is allowed and either the interval is too, or a change of the allowed size would have been seen: the
smallest change that the test tells with this spread (from the effect to the near end of its interval) is no larger, and
the far end is no more than twice what is allowed, as it is where runs spread alike to both sides. Without the latter
some runs could be as bad as they like, as long as most are alike. All else is *inconclusive*: too few runs for the test
to tell anything, or too wide a spread to tell that much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from ..model import Regression
from . import ranks, wording
from .asked import ALPHA, Allowed
from .shift import Shift
from .values import BOUNDS, Group

_EPSILON = 1e-9  # figures are read from text, and 0.70 - 0.02 is not 0.68
_TOO_MANY = 1000  # repeats that are no advice


def compare(allowed: Allowed, old: Group, new: Group) -> Regression:
    """Return what became of one metric.

    Args:
        allowed: how much worse it may be.
        old / new: values of the baseline, and of now, of the same load.
    """
    name = allowed.metric.name
    blank = Regression(
        name,
        new.where,
        "inconclusive",
        allowed.change,
        allowed.relative,
        n=new.runs,
        n_baseline=old.runs,
    )
    before, now = _known(old, name), _known(new, name)
    if before is None or now is None:
        side = new if now is None else old
        told = wording.unknown(allowed, side.values.get(name, [None] * side.runs), now_side=now is None)
        return replace(blank, sentence=told[0], advice=told[1])
    if allowed.metric.is_counted and max(_spread(allowed, before), _spread(allowed, now)) <= allowed.amount + _EPSILON:
        return _as_numbers(allowed, blank, old, new)
    return _as_samples(allowed, blank, before, now)


def _known(group: Group, name: str) -> Sequence[float] | None:
    """Return the values of a metric; None: it is not known of every run."""
    values = [value for value in group.values.get(name, ()) if value is not None]
    return values if values and len(values) == group.runs else None


# --- as numbers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Total:
    """A counted figure of all runs together, and the bounds that printed digits leave it."""

    value: float
    low: float
    high: float


def _spread(allowed: Allowed, values: Sequence[float]) -> float:
    """Return how far the runs of one side lie apart, as a change that would be allowed or not."""
    low, high = min(values), max(values)
    if low == high:
        return 0.0
    return (high - low) / high if allowed.relative else high - low


def _as_numbers(allowed: Allowed, blank: Regression, old: Group, new: Group) -> Regression:
    before, now = _total(old, allowed.metric.name), _total(new, allowed.metric.name)
    change = _change(allowed, before.value, now.value)
    low, high = _change(allowed, before.high, now.low), _change(allowed, before.low, now.high)
    found = replace(blank, baseline=before.value, measured=now.value, change=change, exact=True)
    if low < high:
        found = replace(found, low=low, high=high)
    best, worst = (low, high) if allowed.metric.rising else (-high, -low)  # as it would be worse
    if best > allowed.amount + _EPSILON:
        found = replace(found, reached="fail")
    elif worst <= allowed.amount + _EPSILON:
        found = replace(found, reached="pass")
    return wording.told(allowed, found)


def _total(group: Group, name: str) -> _Total:
    """Return a rate as the sum of hits over the sum of queries, and tokens as those of a run on average."""
    values = [value or 0.0 for value in group.values[name]]
    if name != "hit_rate":
        mean = math.fsum(values) / len(values)
        return _Total(mean, mean, mean)
    hits = [value or 0.0 for value in group.values.get("hit_tokens", values)]
    queries = [value or 0.0 for value in group.values.get("query_tokens", [1.0] * len(values))]
    query = math.fsum(queries)
    rate = math.fsum(hits) / query if query else math.fsum(values) / len(values)
    low, high = (_bound(group.values.get(bound), values, queries, rate) for bound in BOUNDS)
    return _Total(rate, min(low, rate), max(high, rate))


def _bound(
    bounds: Sequence[float | None] | None, values: Sequence[float], queries: Sequence[float], rate: float
) -> float:
    """Return a bound of the rate of all runs; where a run has none, it is exact."""
    if bounds is None or not math.fsum(queries):
        return rate
    each = [value if bound is None else bound for bound, value in zip(bounds, values, strict=True)]
    return math.fsum(b * q for b, q in zip(each, queries, strict=True)) / math.fsum(queries)


def _change(allowed: Allowed, before: float, now: float) -> float:
    if not allowed.relative:
        return now - before
    if before == now:
        return 0.0
    return now / before - 1 if before else math.inf


# --- as samples ------------------------------------------------------------------------------------------------------


def _as_samples(allowed: Allowed, blank: Regression, before: Sequence[float], now: Sequence[float]) -> Regression:
    shift = Shift.of(before, now, ALPHA, relative=allowed.relative)
    less = 1.0 if allowed.relative else 0.0
    change = shift.change - less
    low, high = (None if end is None else end - less for end in (shift.low, shift.high))
    first, second = (before, now) if allowed.metric.rising else (now, before)
    p = ranks.p_above(first, second)
    found = replace(blank, baseline=median(before), measured=median(now), change=change, low=low, high=high, p=p)
    smallest = _smallest(allowed, shift)
    if smallest is None or not ranks.reachable(len(before), len(now), ALPHA):
        sentence, advice = wording.too_few(allowed, found)
        return replace(found, sentence=sentence, advice=advice)
    worse, far_end = (change, high) if allowed.metric.rising else (-change, None if low is None else -low)
    if worse > allowed.amount + _EPSILON:
        if p <= ALPHA:
            return wording.told(allowed, replace(found, reached="fail"))
    elif far_end is not None and far_end <= _reach(allowed, smallest):
        return wording.told(allowed, replace(found, reached="pass"))
    sentence, advice = wording.too_wide(allowed, found, smallest, _enough(allowed, found, smallest))
    return replace(found, sentence=sentence, advice=advice)


def _reach(allowed: Allowed, smallest: float) -> float:
    """Return how bad the far end of the interval may be where the effect is within what is allowed."""
    would_have_been_seen = smallest <= allowed.amount + _EPSILON
    return (2 if would_have_been_seen else 1) * allowed.amount + _EPSILON


def _smallest(allowed: Allowed, shift: Shift) -> float | None:
    """Return the smallest change for the worse that the test would have told with this spread; None: not known.

    If everything had been worse by that much more than the near end of the interval, the end would have met no change.
    """
    effect, end = shift.change, shift.low if allowed.metric.rising else shift.high
    if end is None:
        return None
    if not allowed.relative:
        return abs(effect - end)
    if effect == end:
        return 0.0
    if allowed.metric.rising:
        return effect / end - 1 if end else math.inf
    return 1 - effect / end


def _enough(allowed: Allowed, found: Regression, smallest: float) -> int | None:
    """Return how many runs on each side would probably tell a change of the allowed size; None: no sensible number.

    The interval shrinks with the square root of the runs; a tenth more, because the spread is only estimated.
    """
    if not allowed.amount or not math.isfinite(smallest) or smallest <= allowed.amount:
        return None
    both = 2 * found.n * found.n_baseline / (found.n + found.n_baseline)
    runs = math.ceil(both * (1.1 * smallest / allowed.amount) ** 2)
    least = ranks.repeats_needed(ALPHA) or 0
    return max(runs, least, math.floor(both) + 1) if runs <= _TOO_MANY else None
