"""Which columns does a sample of durations take, and a rate per second?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .cells import Column

_STATISTICS = {"p50": "median", "p95": "95th percentile", "p99": "99th percentile", "mean": "mean"}
_LOW = {"p5": "5th percentile", "p10": "10th percentile", "p50": "median", "mean": "mean"}


def latencies(name: str, about: str, record: Callable[[Any], Any]) -> Iterator[Column]:
    """Return the columns of a duration: ``ttft_p50_s``, ... of ``ttft_s``.

    Args:
        name: of the samples in the record.
        about: what they are.
        record: finds it in a row.
    """
    short = name.removesuffix("_s")
    for key, statistic in _STATISTICS.items():
        yield Column(f"{short}_{key}_s", "s", f"{about}: {statistic}", _read(record, name, key))
    yield Column(f"{short}_count", "", f"{about}: samples", _read(record, name, "count"))


def rates(name: str, about: str, record: Callable[[Any], Any]) -> Iterator[Column]:
    """Return the columns of a rate of each request: ``tokens_per_s_p5``, ..."""
    for key, statistic in _LOW.items():
        yield Column(f"{name}_{key}", "tokens/s", f"{about}: {statistic}", _read(record, name, key))


def per_second(name: str, about: str, value: Callable[[Any], Any]) -> Column:
    """Return the column of a throughput."""
    return Column(name, "tokens/s", about, value)


def _read(record: Callable[[Any], Any], name: str, key: str) -> Callable[[Any], Any]:
    def read(row: Any) -> Any:
        sample = record(row)[name]
        return None if sample is None else sample[key]

    return read
