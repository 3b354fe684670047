"""What is a record made of? Built-in types only, so that it crosses processes and goes into JSON as it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from ..distribution import Latency

Record = dict[str, Any]
_Number = TypeVar("_Number", int, float)


def latency(sample: Latency) -> Record:
    """Return samples of a duration, in seconds."""
    return {"p50": sample.p50, "p95": sample.p95, "p99": sample.p99, "mean": sample.mean, "count": len(sample)}


def rate(sample: Latency) -> Record:
    """Return samples of a rate, of which the low ones are the bad ones."""
    return {
        "p5": sample.percentile(5),
        "p10": sample.percentile(10),
        "p50": sample.p50,
        "mean": sample.mean,
        "count": len(sample),
    }


def total(values: Iterable[int | None]) -> int | None:
    """Return the sum of what is told; None when nothing is."""
    told = [value for value in values if value is not None]
    return sum(told) if told else None


def highest(values: Iterable[_Number | None]) -> _Number | None:
    """Return the highest that is told; None when nothing is."""
    return max((value for value in values if value is not None), default=None)
