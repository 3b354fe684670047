"""Service level x measurements -> what became of each objective. Pure arithmetic.

Each run and each level has to meet every objective. A percentile needs samples on both of its sides; a miss that the
client itself may have caused is none, while a pass stays one: a client that is late only makes times look longer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..distribution import Latency
from ..model import Attained, Finding, Measurement, Objective, ServiceLevel
from ..model.objective import Reached
from . import intervals, wording
from .intervals import Interval
from .samples import Sample, samples_of

_BUSY = 0.95  # CPU seconds over wall seconds: such a process could not have sent or read much more
_DURATIONS = ("ttft", "itl", "tpot", "e2e")
_UNKNOWN: Interval = (None, None)
_RANK: tuple[Reached, ...] = ("fail", "inconclusive", "pass")


@dataclass(frozen=True, slots=True)
class Judged:
    """One objective with what is to say of it.

    Attributes:
        attained: what became of it.
        findings: the one that decides first.
    """

    attained: Attained
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """A value and what it comes from.

    Attributes:
        value: None when there is none; ``missing`` says why.
        interval: 95 %.
        samples: how many.
        basis: the same in words.
        missing / advice: why there is no value, and what to do.
    """

    value: float | None
    interval: Interval = _UNKNOWN
    samples: int = 0
    basis: str = ""
    missing: str = ""
    advice: str = ""


def judge_level(asked: ServiceLevel, measurements: Sequence[Measurement]) -> tuple[Attained, ...]:
    """Return what became of each objective, in the order asked; of several runs or levels the worst one tells."""
    return tuple(one.attained for one in judged(asked, measurements))


def judged(asked: ServiceLevel, measurements: Sequence[Measurement]) -> tuple[Judged, ...]:
    """Do what :func:`judge_level` does, with findings."""
    samples = samples_of(measurements, asked.each)
    return tuple(
        _worst(objective, [_judged(objective, sample) for sample in samples]) for objective in asked.objectives
    )


def _worst(objective: Objective, found: Sequence[Judged]) -> Judged:
    """Return the first that failed, else the first that cannot be told, else the one nearest to the limit."""
    if not found:
        nothing = Finding("KV126", f"{wording.title(objective)}: nothing was measured", "call kv.run")
        return Judged(Attained(objective, "inconclusive", None, sentence=nothing.sentence), (nothing,))
    worst = min(found, key=lambda one: _RANK.index(one.attained.reached))
    reached = worst.attained.reached
    alike = [one for one in found if one.attained.reached == reached]
    if reached == "pass":
        return (max if objective.at_most else min)(alike, key=lambda one: one.attained.value or 0.0)
    if len(alike) == 1 or reached != "fail":
        return worst
    more = f"missed in {len(alike)} of {len(found)} runs and levels"
    note = "; ".join(filter(None, (worst.attained.note, more)))
    return replace(worst, attained=replace(worst.attained, note=note))


def _judged(objective: Objective, sample: Sample) -> Judged:
    return compared(objective, figure(objective, sample), sample)


def compared(objective: Objective, seen: Figure, sample: Sample | None = None) -> Judged:
    """Compare a figure with its limit.

    Args:
        objective: what was asked.
        seen: what came out.
        sample: where it comes from, to know what the client itself may have added; None: not known.
    """
    where = sample.where if sample is not None else ""
    name, place = wording.title(objective), f" {where}" if where else ""
    if seen.value is None:
        what = Finding("KV126", f"{name}{place}: {seen.missing}", seen.advice)
        attained = Attained(objective, "inconclusive", None, samples=seen.samples, sentence=what.sentence)
        return Judged(attained, (what,))
    low, high = seen.interval
    said = wording.sentence(objective, seen.value, seen.interval, seen.basis, where)
    attained = Attained(objective, "pass", seen.value, low, high, seen.samples, said)
    few = _too_few(objective, seen.samples)
    if few is not None:
        what = Finding("KV126", f"{name}{place}: {few}", "send more requests in one run, or ask for p50 or the mean")
        return Judged(replace(attained, reached="inconclusive", sentence=what.sentence), (what,))
    doubt = _doubt(objective, seen)
    if objective.met_by(seen.value):
        return Judged(attained, doubt)
    blame = None if sample is None else _clients_own(objective, seen.value, sample, said)
    if blame is not None:
        return Judged(replace(attained, reached="inconclusive", note=blame.sentence), (blame,))
    note = _kinds(sample) if sample is not None and objective.metric == "error_rate" else ""
    told = f"{said}: {note}" if note else said
    failed = replace(attained, reached="fail", sentence=told, note=note)
    return Judged(failed, (Finding("KV207", told), *doubt))


# --- the figure ------------------------------------------------------------------------------------------------------


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
        basis = f"{sample.failed:,} of {wording.plural(sample.ended, 'request')} failed"
        return Figure(sample.failed / sample.ended, interval, sample.ended, basis)
    if objective.metric in ("goodput", "attainment"):
        return _of_good(objective, sample)
    return _throughput(objective, sample)


def _of_samples(objective: Objective, sample: Sample) -> Figure:
    found = sample.latencies[objective.metric]
    if not len(found):
        return Figure(None, missing=_no_samples(objective, sample), advice=_to_have_samples(objective))
    gaps = objective.metric == "itl"
    independent = sample.answered if gaps else len(found)
    value = statistic(found, objective.statistic)
    interval = interval_of(found, objective.statistic, independent=independent)
    basis = wording.plural(len(found), "gap" if gaps else "request")
    return Figure(value, interval, len(found), basis)


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
        return _UNKNOWN
    if name == "mean":
        return intervals.mean(samples, level, independent)
    return intervals.quantile(samples, float(name[1:]) / 100, level, independent)


def _no_samples(objective: Objective, sample: Sample) -> str:
    if not sample.answered:
        return f"none of {wording.plural(sample.failed, 'request')} was answered"
    answers = wording.plural(sample.answered, "answer")
    if objective.metric in ("tpot", "tokens_per_s") and sample.untold:
        return f"{sample.untold:,} of {answers} do not tell their completion tokens"
    if objective.metric in ("itl", "tpot"):
        return f"none of {answers} has a second token to time"
    return f"none of {answers} has a first token to time"


def _to_have_samples(objective: Objective) -> str:
    if objective.metric in ("itl", "tpot"):
        return "stream the answers, and ask for 2 output tokens or more"
    return "stream the answers (stream=True)" if objective.metric == "ttft" else "the server must report usage"


def _of_good(objective: Objective, sample: Sample) -> Figure:
    good = sample.good
    if good is None:
        what = "the durations that its limits are about are not known of every answer"
        return Figure(None, missing=what, advice="stream the answers; TPOT needs usage.completion_tokens")
    basis = f"{good:,} of {wording.plural(sample.ended, 'request')}"
    if objective.metric == "attainment":
        return Figure(good / sample.ended, intervals.share(good, sample.ended), sample.ended, basis)
    return _per_second(objective, good, sample, basis)


def _throughput(objective: Objective, sample: Sample) -> Figure:
    tokens = sample.tokens[objective.metric]
    if tokens is None:
        what = "the answers do not tell their tokens" if sample.answered else "no request was answered"
        return Figure(None, missing=what, advice="the server must report usage")
    return _per_second(objective, tokens, sample, f"{tokens:,.0f} tokens")


def _per_second(objective: Objective, amount: float, sample: Sample, basis: str) -> Figure:
    if sample.seconds <= 0:
        return Figure(None, missing="it took no time", advice="send more requests")
    interval = intervals.rate(sample.batches.get(objective.metric, ()))
    basis = f"{basis} in {wording.duration(sample.seconds)}"
    return Figure(amount / sample.seconds, interval, sample.ended, basis)


# --- what is left open -----------------------------------------------------------------------------------------------


def needed(name: str) -> int:
    """Return how many samples a statistic needs: one of them lies beyond it, on average."""
    if not name.startswith("p"):
        return 1
    q = float(name[1:])
    return math.ceil(100 / min(q, 100 - q))


def _too_few(objective: Objective, samples: int) -> str | None:
    least = needed(objective.statistic)
    if samples >= least:
        return None
    return f"{wording.plural(samples, 'sample')}, and {objective.statistic} needs at least {least}"


def _doubt(objective: Objective, seen: Figure) -> tuple[Finding, ...]:
    """Tell of a limit that lies inside the interval; an open end of a percentile may lie anywhere."""
    low, high = seen.interval
    known = low is not None or high is not None or objective.statistic.startswith("p")
    if not known or not (low or 0.0) < objective.limit < (math.inf if high is None else high):
        return ()
    sure = wording.between(objective, seen.interval) or "anywhere, as far as so few samples can tell"
    limit = wording.figure(objective, objective.limit)
    what = f"{wording.title(objective)} may lie on either side of {limit}: it is {sure} with 95 % confidence"
    return (Finding("KV327", what, "send more requests to be sure"),)


def _kinds(sample: Sample) -> str:
    kinds = sorted(sample.failures.items(), key=lambda kind: -kind[1])[:3]
    return ", ".join(f"{count} x {message}" for message, count in kinds)


# --- was it the client? ----------------------------------------------------------------------------------------------


def _clients_own(objective: Objective, value: float, sample: Sample, said: str) -> Finding | None:
    """Return that the load generator may have caused a miss, None when it cannot have."""
    advice = f"spread the load over more processes (--kv-processes={2 * sample.processes})"
    full = sample.busy is not None and sample.busy > _BUSY
    if full and objective.metric in ("output_tok_s", "input_tok_s", "goodput"):
        why = f"its busiest process computed {100 * (sample.busy or 0.0):.0f} % of the time"
        return Finding("KV127", f"the load generator was the bottleneck ({why}): {said}", advice)
    late = _lag(objective, sample)
    if not late or not _explained(objective, value, sample, late):
        return None
    why = f"its own event loop was {wording.duration(late)} late"
    return Finding("KV127", f"the load generator was the bottleneck ({why}): {said}", advice)


def _lag(objective: Objective, sample: Sample) -> float:
    """Return the client's lag at the statistic that is judged; the slow tail of a speed is the late tail of a time."""
    if objective.statistic == "total":
        return sample.late
    mirrored = {"p5": "p95", "p10": "p90"}
    return statistic(sample.lag, mirrored.get(objective.statistic, objective.statistic)) or 0.0


def _explained(objective: Objective, value: float, sample: Sample, late: float) -> bool:
    metric = objective.metric
    if metric == "tpot":  # a chunk that is noticed late moves the time of one token by its share of the answer
        late /= max(1.0, _tokens_per_answer(sample) - 1)
    if metric in _DURATIONS:
        return objective.met_by(value - late)
    if metric == "tokens_per_s":
        seconds = sample.latencies["e2e"].p50 or 0.0
        return late >= seconds or objective.met_by(value * seconds / (seconds - late))
    if metric == "attainment" and sample.nearly is not None:
        return objective.met_by(sample.nearly / sample.ended)
    return metric == "goodput" and sample.nearly is not None and objective.met_by(sample.nearly / sample.seconds)


def _tokens_per_answer(sample: Sample) -> float:
    tokens = sample.tokens["output_tok_s"]
    return tokens / sample.answered if tokens is not None and sample.answered else 1.0
