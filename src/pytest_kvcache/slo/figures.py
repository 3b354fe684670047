"""What is the value of an objective in a sample, what does it come from, and how sure is it? Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..distribution import Latency
from ..figures import plural
from ..model import Objective
from . import intervals, wording
from .intervals import Interval
from .samples import Sample

UNKNOWN: Interval = (None, None)
_USAGE = "the server must report usage in every answer"


@dataclass(frozen=True, slots=True)
class Figure:
    """A value and what it comes from.

    Attributes:
        value: None when there is none; ``missing`` says why.
        interval: 95 %.
        samples: how many.
        basis: the same in words.
        units: of the samples, those that are independent, in words.
        bounded_by: so many of these would leave no end of a percentile's interval open.
        missing / advice: why there is no value, and what to do.
    """

    value: float | None
    interval: Interval = UNKNOWN
    samples: int = 0
    basis: str = ""
    units: str = ""
    bounded_by: int = 0
    missing: str = ""
    advice: str = ""


def figure(objective: Objective, sample: Sample) -> Figure:
    """Return the value of an objective in a sample, with its interval."""
    if not sample.timed:
        advice = "send it with kv.run, or judge it by its hit rate alone"
        return Figure(None, missing="traffic of your own is not timed here", advice=advice)
    if not sample.ended:
        why = f"no level held: {sample.limit}" if sample.limit else "no request had ended"
        return Figure(None, missing=why, advice="ask for less, or measure longer")
    if objective.metric in sample.latencies:
        return _of_samples(objective, sample)
    if objective.metric == "error_rate":
        interval = intervals.share(sample.failed, sample.ended)
        basis = f"{sample.failed:,} of {plural(sample.ended, 'request')} failed"
        return Figure(sample.failed / sample.ended, interval, sample.ended, basis)
    if objective.metric in ("goodput", "attainment"):
        return _of_good(objective, sample)
    return _throughput(objective, sample)


def _of_samples(objective: Objective, sample: Sample) -> Figure:
    found = sample.latencies[objective.metric]
    if objective.metric in ("tpot", "tokens_per_s") and sample.untold:
        return Figure(None, missing=_untold(sample), advice=_USAGE)
    if not len(found):
        return Figure(None, missing=_no_samples(objective, sample), advice=_to_have_samples(objective))
    gaps = objective.metric == "itl"
    independent = min(sample.answered, len(found)) if gaps else len(found)
    basis = plural(len(found), "gap" if gaps else "request")
    return Figure(
        statistic(found, objective.statistic),
        interval_of(found, objective.statistic, independent=independent),
        len(found),
        basis,
        plural(independent, "answer") if gaps else basis,
        bounding(objective.statistic),
    )


def statistic(samples: Latency, name: str) -> float | None:
    """Return ``mean``, ``max`` or a percentile (``p95``); None when there is no sample."""
    if name == "mean":
        return samples.mean
    return samples.max if name == "max" else samples.percentile(float(name[1:]))


def interval_of(
    samples: Latency, name: str, level: float = intervals.LEVEL, independent: int | None = None
) -> Interval:
    """Return the interval of a statistic; none for ``max``: nothing bounds what has not been seen."""
    if name == "max":
        return UNKNOWN
    if name == "mean":
        return intervals.mean(samples, level, independent)
    return intervals.quantile(samples, float(name[1:]) / 100, level, independent)


def _no_samples(objective: Objective, sample: Sample) -> str:
    if not sample.answered:
        return f"none of {plural(sample.failed, 'request')} was answered"
    token = "second" if objective.metric in ("itl", "tpot") else "first"
    return f"none of {plural(sample.answered, 'answer')} has a {token} token to time"


def _to_have_samples(objective: Objective) -> str:
    more = objective.metric in ("itl", "tpot")
    return "stream the answers, and ask for 2 output tokens or more" if more else "stream the answers (stream=True)"


def _untold(sample: Sample) -> str:
    return f"{sample.untold:,} of {plural(sample.answered, 'answer')} do not tell their completion tokens"


def _of_good(objective: Objective, sample: Sample) -> Figure:
    good = sample.good
    if good is None:
        what = "the durations that its limits are about are not known of every answer"
        return Figure(None, missing=what, advice="stream the answers; TPOT needs usage.completion_tokens")
    basis = f"{good:,} of {plural(sample.ended, 'request')}"
    if objective.metric == "attainment":
        return Figure(good / sample.ended, intervals.share(good, sample.ended), sample.ended, basis)
    return _per_second(objective, good, sample, basis)


def _throughput(objective: Objective, sample: Sample) -> Figure:
    tokens = sample.tokens[objective.metric]
    if objective.metric == "output_tok_s" and sample.untold:
        return Figure(None, missing=_untold(sample), advice=_USAGE)
    if tokens is None:
        what = "the answers do not tell their prompt tokens" if sample.answered else "no request was answered"
        return Figure(None, missing=what, advice=_USAGE)
    return _per_second(objective, tokens, sample, f"{tokens:,.0f} tokens")


def _per_second(objective: Objective, amount: float, sample: Sample, basis: str) -> Figure:
    if sample.seconds <= 0:
        return Figure(None, missing="it took no time", advice="send more requests")
    interval = intervals.rate(sample.batches.get(objective.metric, ()))
    basis = f"{basis} in {wording.duration(sample.seconds)}"
    return Figure(amount / sample.seconds, interval, sample.ended, basis)


def needed(objective: Objective) -> int:
    """Return how many samples an objective needs: one of them lies beyond a percentile, or may miss, on average.

    How many may fail is a tolerance, and no figure of the rest: ``error_rate`` needs no more than one.
    """
    beyond = 1.0
    if objective.metric == "attainment":
        beyond = 1 - objective.limit
    elif objective.statistic.startswith("p"):
        q = float(objective.statistic[1:]) / 100
        beyond = min(q, 1 - q)
    return math.ceil(round(1 / beyond, 6)) if beyond > 0 else 1


def bounding(name: str, level: float = intervals.LEVEL) -> int:
    """Return how many samples bound a percentile on both sides; 0 for what is none."""
    if not name.startswith("p"):
        return 0
    q = max(float(name[1:]), 100 - float(name[1:])) / 100
    return math.ceil(math.log((1 - level) / 2) / math.log(q))
