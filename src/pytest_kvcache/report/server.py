"""What engines tell of time and pressure to plain records."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..histogram import Histogram, Quantile, merged
from ..model import Measurement, Pressure
from .plain import Record, highest, total


def server_latency(measurements: Sequence[Measurement]) -> Record:
    """Return the engines' own histograms over several windows, by name."""
    names = dict.fromkeys(name for measurement in measurements for name in measurement.server_latency)
    found = {}
    for name in names:
        whole = merged(m.server_latency[name] for m in measurements if name in m.server_latency)
        if whole is not None:
            found[name] = _histogram(whole)
    return found


def _histogram(whole: Histogram) -> Record:
    quantiles = {f"p{percent}": _quantile(whole.quantile(percent / 100)) for percent in (50, 95, 99)}
    return {"count": whole.count, "mean": whole.mean, **quantiles}


def _quantile(quantile: Quantile | None) -> Record | None:
    if quantile is None:
        return None
    high = None if math.isinf(quantile.high) else quantile.high  # JSON has no infinity
    return {"value": quantile.value, "low": quantile.low, "high": high}


def pressure(several: Sequence[Pressure]) -> Record | None:
    """Return the pressure over several windows; None when nothing of it was read."""
    if not several:
        return None
    return {
        "preemptions": total(p.preemptions for p in several),
        "evictions": total(p.evictions for p in several),
        "kv_usage_peak": highest(p.kv_usage_peak for p in several),
        "running_peak": highest(p.running_peak for p in several),
        "waiting_peak": highest(p.waiting_peak for p in several),
        "samples": sum(p.samples for p in several),
        "missed": sum(p.missed for p in several),
    }
