"""Service level x measurements -> what became of each objective. Pure arithmetic.

Each run and each level has to meet every objective. A percentile needs samples on both of its sides; a miss that the
client itself may have caused is none, while a pass stays one: a client that is late only makes times look longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..figures import plural
from ..model import Attained, Finding, Measurement, Objective, ServiceLevel
from ..model.objective import Reached
from . import wording
from .blame import clients_own
from .figures import Figure, figure, needed
from .samples import Sample, samples_of

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
        what = Finding("KV126", f"{name}{place}: {few}", "send more requests in one run, or ask for less")
        return Judged(replace(attained, reached="inconclusive", sentence=what.sentence), (what,))
    doubt = _doubt(objective, seen)
    if objective.met_by(seen.value):
        return Judged(attained, doubt)
    blame = None if sample is None else clients_own(objective, seen.value, sample, said)
    if blame is not None:
        return Judged(replace(attained, reached="inconclusive", sentence=blame.sentence), (blame,))
    note = _kinds(sample) if sample is not None and objective.metric == "error_rate" else ""
    told = f"{said}: {note}" if note else said
    failed = replace(attained, reached="fail", sentence=told, note=note)
    return Judged(failed, (Finding("KV207", told), *doubt))


def _too_few(objective: Objective, samples: int) -> str | None:
    least = needed(objective)
    if samples >= least:
        return None
    what = f"a share of {objective.limit:g}" if objective.metric == "attainment" else objective.statistic
    return f"{plural(samples, 'sample')}, and {what} needs at least {least:,}"


def _doubt(objective: Objective, seen: Figure) -> tuple[Finding, ...]:
    """Tell of a limit that lies inside the interval; behind an open end of a percentile's, everything is inside."""
    percentile, above = objective.statistic.startswith("p"), objective.limit > (seen.value or 0.0)
    end = seen.interval[1 if above else 0]
    name = wording.title(objective)
    if end is None:
        if not percentile:
            return ()
        what = f"{seen.units} do not bound {name} from {'above' if above else 'below'}"
        return (Finding("KV327", what, f"{seen.bounded_by} would; send more requests to be sure"),)
    if objective.limit >= end if above else objective.limit <= end:
        return ()
    sure = wording.between(objective, seen.interval)
    what = f"{name} may lie on either side of {wording.figure(objective, objective.limit)}: it is {sure} (95 %)"
    return (Finding("KV327", what, "send more requests to be sure"),)


def _kinds(sample: Sample) -> str:
    kinds = sorted(sample.failures.items(), key=lambda kind: -kind[1])[:3]
    return ", ".join(f"{count} x {message}" for message, count in kinds)
