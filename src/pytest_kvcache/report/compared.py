"""Comparisons with a baseline, and what can be compared later, to plain records."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from ..model import Regression
from ..regression.metrics import METRICS
from ..regression.values import Entry
from .plain import Record
from .text import visible


def regressions(found: Iterable[Regression]) -> list[Record]:
    """Return what became of each comparison."""
    return [
        {
            "name": one.name,
            "where": visible(one.where),
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
            "sentence": visible(one.sentence),
        }
        for one in found
    ]


def shown(entry: Entry) -> Entry:
    """Return an entry whose texts, which others wrote, can be shown."""
    told = entry.context
    if told is not None:
        told = {name: visible(value) if isinstance(value, str) else value for name, value in told.items()}
    return Entry(told, [replace(group, where=visible(group.where)) for group in entry.groups])


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
