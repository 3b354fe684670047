"""Measurements to values that can be compared later: one value a run, runs of the same load together. Pure.

A *group* is what was repeated: runs of the same workload at the same pace, or one level of a load with its repetitions.
A percentile is only a value where the run has enough samples for it, by the rule of ``kv_slo``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..model import Finding, Measurement, PerRequest, Severity, Verdict
from ..slo.figures import figure, needed
from ..slo.samples import sample_of
from ..slo.verdict import OF_RATE
from .context import Context
from .metrics import METRICS

COUNTS = ("hit_tokens", "query_tokens")
"""What the rate of several runs is computed from: sums, never a mean of rates."""

BOUNDS = ("hit_rate_low", "hit_rate_high")
"""Where printed digits leave room, the rate's bounds; not there where it is exact."""

_JUDGED = frozenset({"KV115", "KV123", "KV126", "KV127", "KV128"})  # of what was asked, not of what was measured


@dataclass(frozen=True, slots=True)
class Group:
    """Repetitions of one load.

    Attributes:
        where: which, ``concurrency 8`` or the title of a workload; empty when the test has only one.
        runs: how many.
        values: by name, one of each run in order; None: not known there. Names without any value are left out.
    """

    where: str
    runs: int
    values: Mapping[str, Sequence[float | None]]


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept of a test, to be compared with later.

    Attributes:
        context: under which it was measured; None: nothing was.
        groups: its values.
    """

    context: Context | None
    groups: Sequence[Group]

    def shown(self, visible: Callable[[str], str]) -> Entry:
        """Return it with texts that can be shown; others wrote them."""
        told = self.context
        if told is not None:
            told = {name: visible(value) if isinstance(value, str) else value for name, value in told.items()}
        return Entry(told, [replace(group, where=visible(group.where)) for group in self.groups])


@dataclass(frozen=True, slots=True)
class Session:
    """A document of a session, as far as sessions are compared.

    Attributes:
        name: of the file.
        interrupted: it was stopped before its end.
        checks: verdict and values of each test.
    """

    name: str
    interrupted: bool
    checks: Mapping[str, tuple[str, Entry]]


def groups_of(
    runs: Sequence[tuple[Measurement, Verdict]], sent: Sequence[str | None], each: PerRequest | None = None
) -> list[Group]:
    """Return the values of a test's measurements.

    Args:
        runs: each measurement with the verdict on it.
        sent: of each, the digest of what was sent and how; None: nothing tells.
        each: what a request has to meet to be good; None: nothing.
    """
    parts: dict[object, list[tuple[Measurement, Verdict]]] = {}
    for (measurement, verdict), digest in zip(runs, sent, strict=True):
        level = measurement.stretch.level if measurement.stretch is not None and measurement.limit is None else None
        parts.setdefault((measurement.title, digest, level), []).append((measurement, verdict))
    names = _names([group[0][0] for group in parts.values()])
    return [_group(name, group, each or PerRequest()) for name, group in zip(names, parts.values(), strict=True)]


def _names(firsts: Sequence[Measurement]) -> list[str]:
    """Return what tells groups apart: their level, their title, or their place."""
    if len(firsts) == 1:
        return [""]
    levels = ["" if m.stretch is None or m.limit is not None else str(m.stretch.level) for m in firsts]
    for names in (levels, [m.title for m in firsts]):
        if len(set(names)) == len(names):
            return names
    told = [f"{m.title} at {level}" if level else m.title for m, level in zip(firsts, levels, strict=True)]
    return told if len(set(told)) == len(told) else [f"{number}: {name}" for number, name in enumerate(told, 1)]


def _group(where: str, runs: Sequence[tuple[Measurement, Verdict]], each: PerRequest) -> Group:
    rows = [_values(measurement, verdict, each) for measurement, verdict in runs]
    known = dict.fromkeys(["hit_rate", *COUNTS, *BOUNDS, *METRICS])
    names = [name for name in known if any(row.get(name) is not None for row in rows)]
    return Group(where, len(rows), {name: [_rounded(row.get(name)) for row in rows] for name in names})


def _rounded(value: float | None) -> float | None:
    """Return a value as files keep it, so that what is compared is what was written."""
    return value if value is None or isinstance(value, int) else float(f"{value:.6g}")


def _values(measurement: Measurement, verdict: Verdict, each: PerRequest) -> Mapping[str, float | None]:
    """Return the figures of one run, as far as they are valid."""
    wrong = {f.code for f in verdict.findings if f.severity is Severity.INVALID} - _JUDGED
    found: dict[str, float | None] = {}
    if not wrong:
        found |= {"hit_rate": verdict.hit_rate, "hit_tokens": verdict.hit_tokens, "query_tokens": verdict.query_tokens}
        if verdict.low is not None and verdict.high is not None and verdict.low < verdict.high:
            found |= dict(zip(BOUNDS, (verdict.low, verdict.high), strict=True))
    if not wrong - OF_RATE:
        sample = sample_of(measurement, each)
        for name, metric in METRICS.items():
            if metric.objective is not None:
                seen = figure(metric.objective, sample)
                found[name] = seen.value if seen.samples >= least(name) else None
    return found


def least(name: str) -> int:
    """Return how many samples a run needs for a value."""
    objective = METRICS[name].objective
    return 1 if objective is None else needed(objective)


def invalid(verdict: Verdict, name: str) -> Finding | None:
    """Return what makes a metric of a measurement invalid, None when it is valid."""
    harmless = _JUDGED if METRICS[name].is_counted else _JUDGED | OF_RATE
    return next((f for f in verdict.findings if f.severity is Severity.INVALID and f.code not in harmless), None)
