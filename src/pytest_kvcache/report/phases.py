"""The phases of a run to plain records: how long each took, what was sent in it, what the counters moved by."""

from __future__ import annotations

from datetime import datetime, timezone

from ..model import Measurement, Moment, Span
from ..overview import Overview
from .plain import Record

_COUNTED = ("query_tokens", "hit_tokens", "evictions", "preemptions")
_SENT = ("requests", "failed", "prompt_tokens", "cached_tokens", "output_tokens")


def started(begun: Moment | None) -> str | None:
    """Return when a run began: UTC, ISO 8601 to the microsecond; None: not noted."""
    if begun is None:
        return None
    return datetime.fromtimestamp(begun.epoch, timezone.utc).isoformat(timespec="microseconds")


def phases(measurement: Measurement, seen: Overview) -> list[Record]:
    """Return every phase of a run, in order.

    Args:
        measurement: the run.
        seen: its measured requests.
    """
    return [_phase(measurement, span, seen) for span in measurement.phases]


def _phase(measurement: Measurement, span: Span, seen: Overview) -> Record:
    begun = measurement.begun.monotonic if measurement.begun is not None else measurement.phases[0].start
    return {
        "name": span.name,
        "start": max(0.0, span.start - begun),
        "seconds": max(0.0, span.end - span.start),
        **_sent(measurement, span, seen),
        **_counted(measurement, span),
    }


def _sent(measurement: Measurement, span: Span, seen: Overview) -> Record:
    """Return the requests of a phase; null: the phase has none of its own, or whose they are is not known."""
    if span.name == "prefill":
        sent = Overview.of(measurement.prefill)
    elif span.name == "load" and measurement.own_traffic:
        sent = seen
    else:
        return dict.fromkeys(_SENT)
    tokens = (sent.prompt_tokens, sent.cached_tokens, sent.output_tokens)
    return dict(zip(_SENT, (sent.total, sent.failed, *tokens), strict=True))


def _counted(measurement: Measurement, span: Span) -> Record:
    """Return by how much the engines' counters moved; only the window, which is the load, lies between two reads."""
    if span.name != "load":
        return dict.fromkeys(_COUNTED)
    counters, pressure = measurement.counters, measurement.pressure
    return {
        "query_tokens": None if counters is None else counters.query,
        "hit_tokens": None if counters is None else counters.hit,
        "evictions": None if pressure is None else pressure.evictions,
        "preemptions": None if pressure is None else pressure.preemptions,
    }
