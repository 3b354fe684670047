"""Comparisons, and what can be compared later, to plain data as JSON has it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ..model import Regression
from .metrics import METRICS
from .values import Entry, Group


def regressions(found: Iterable[Regression]) -> list[dict[str, Any]]:
    """Return what became of each comparison."""
    return [
        {
            "name": one.name,
            "where": one.where,
            "unit": METRICS[one.name].unit,
            "verdict": one.reached,
            "baseline": one.baseline,
            "measured": one.measured,
            "change": _finite(one.change),
            "relative": one.relative,
            "low": _finite(one.low),
            "high": _finite(one.high),
            "p": one.p,
            "n": one.n,
            "n_baseline": one.n_baseline,
            "allowed": one.allowed,
            "exact": one.exact,
            "sentence": one.sentence,
        }
        for one in found
    ]


def context(entry: Entry) -> dict[str, Any] | None:
    """Return under which circumstances something was measured."""
    return None if entry.context is None else dict(entry.context)


def groups(found: Sequence[Group]) -> list[dict[str, Any]]:
    """Return the values of each group of runs."""
    return [
        {
            "where": group.where,
            "runs": group.runs,
            "values": {name: list(values) for name, values in group.values.items()},
        }
        for group in found
    ]


def entry(found: Entry) -> dict[str, Any]:
    """Return all that is kept of a test."""
    return {"context": context(found), "groups": groups(found.groups)}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
