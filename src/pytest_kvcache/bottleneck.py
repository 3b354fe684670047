"""Where did the time of a run go, and what stood in the way? Statements with their figures, one line each. Pure.

What is not known is left out, and a figure is never taken for zero because nobody told it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from .distribution import Latency
from .figures import duration, percent, plural
from .histogram import Histogram
from .model import ClientLoad, Measurement, Pressure
from .overview import Overview

QUEUE_SHARE = 0.05  # of TTFT: from here on requests are said to have waited in the server
KV_FULL = 0.9  # of the cache: from here on it is said to be under pressure
LAG_SHARE = 0.1  # of the median TTFT: from here on (p99) the client may have been the bottleneck
BUSY = 0.9  # CPU of one process: the same
_SHOWN = {"queue": "queue", "ttft": "TTFT", "e2e": "E2E"}
WAY_SHARE, WAY_SECONDS = 0.1, 0.001  # of TTFT between engine and client: less is not worth telling


def statements(measurement: Measurement, seen: Overview | None = None) -> list[str]:
    """Return what is to be said of a measured window, the server first.

    Args:
        measurement: the window; of a search for the limit, all of its levels.
        seen: its requests, when they were gone through already.
    """
    seen = seen or Overview.of(measurement.exchanges)
    told = measurement.server_latency
    found = (
        _time(told),
        _waiting(told, measurement.pressure, seen),
        _cache(measurement.pressure),
        _way(told, seen),
        _client(measurement.client, seen),
        _errors(seen),
    )
    return [statement for statement in found if statement is not None]


def largest(told: Mapping[str, Histogram]) -> str | None:
    """Return which of ``queue``, ``prefill`` and ``decode`` takes most time; None where one of them is not known."""
    spent, _ = _spent(told)
    if len(spent) < 3 or not any(seconds for seconds, _ in spent.values()):
        return None
    return max(spent, key=lambda part: spent[part][0])


def _time(told: Mapping[str, Histogram]) -> str | None:
    """Compare what requests spent in the queue, in prefill and in decode; None where one of them is not known."""
    most = largest(told)
    if most is None:
        return None
    spent, derived = _spent(told)
    whole = sum(seconds for seconds, _ in spent.values())
    rest = sorted(spent.keys() - {most}, key=lambda part: (-spent[part][0], part))
    share = {
        part: f"{percent(seconds / whole)} ({duration(mean)} a request)" for part, (seconds, mean) in spent.items()
    }
    how = "most of" if spent[most][0] > whole / 2 else "the largest part of"
    note = f"; not told by the engine: {', '.join(derived)}" if derived else ""
    others = ", ".join(f"{part} {share[part]}".replace(" a request", "") for part in rest)
    return f"{most} takes {how} the server's time: {share[most]}; {others}{note}"


def _spent(told: Mapping[str, Histogram]) -> tuple[dict[str, tuple[float, float]], list[str]]:
    """Return sum and mean of each part, and how those came about that the engine does not tell itself.

    A difference of sums is exact as long as both histograms hold the same requests.
    """
    parts: dict[str, tuple[float, float]] = {}
    derived = []
    for part, end, begin in (("queue", "", ""), ("prefill", "ttft", "queue"), ("decode", "e2e", "ttft")):
        if part in told:
            if told[part].count:
                parts[part] = told[part].sum, told[part].sum / told[part].count
        elif end in told and begin in told and told[end].count == told[begin].count > 0:
            seconds = told[end].sum - told[begin].sum
            if seconds >= 0:
                parts[part] = seconds, seconds / told[end].count
                derived.append(f"{part} = {_SHOWN[end]} - {_SHOWN[begin]}")
    return parts, derived


def _waiting(told: Mapping[str, Histogram], pressure: Pressure | None, seen: Overview) -> str | None:
    """Tell whether requests waited in the server, by its queue and by the waiting ones that were sampled."""
    queue = told["queue"].mean if "queue" in told else None
    ttft = (told["ttft"].mean if "ttft" in told else None) or seen.ttft.mean
    peak = pressure.waiting_peak if pressure is not None else None
    share = None if queue is None or not ttft else queue / ttft
    waited = bool(peak) or (share is not None and share >= QUEUE_SHARE)
    figures = [
        *([] if peak is None else [f"{peak:,} waiting at peak"]),
        *([] if queue is None else [f"{duration(queue)} in the queue on average"]),
        *([] if share is None else [f"{percent(share)} of TTFT"]),
    ]
    if not figures or (not waited and peak is None and share is None):
        return None
    return f"{'requests waited' if waited else 'requests hardly waited'} in the server: {', '.join(figures)}"


def _cache(pressure: Pressure | None) -> str | None:
    """Tell whether the requests that ran at once filled the cache."""
    if pressure is None or (pressure.preemptions is None and pressure.kv_usage_peak is None):
        return None
    usage, preemptions = pressure.kv_usage_peak, pressure.preemptions
    full = bool(preemptions) or (usage is not None and usage >= KV_FULL)
    figures = [
        *([] if usage is None else [f"KV usage {percent(usage)} at peak"]),
        *([] if preemptions is None else [plural(preemptions, "preemption")]),
        *([f"{pressure.evictions:,} evicted"] if pressure.evictions else []),
    ]
    return f"running requests {'filled' if full else 'left room in'} the cache: {', '.join(figures)}"


def _way(told: Mapping[str, Histogram], seen: Overview) -> str | None:
    """Tell what of the client's TTFT lies outside of the engine's, when it is worth it."""
    engine = told.get("ttft")
    if engine is None or not engine.count or engine.count != len(seen.ttft) or len(seen.lateness):
        return None  # other requests, or a clock that begins before they are sent
    inside, outside = engine.sum / engine.count, seen.ttft.mean or 0.0
    way = outside - inside
    if way < WAY_SECONDS or way < WAY_SHARE * outside:
        return None
    return (
        f"{percent(way / outside)} of TTFT lie between engine and client: {duration(outside)} on average as the client"
        f" saw it, {duration(inside)} as the engine did"
    )


def _client(client: ClientLoad | None, seen: Overview) -> str | None:
    """Tell how much of what was measured may be the client's own.

    It stamps chunks as late as its event loop wakes. Its queue is before the clock of a closed loop, and part of what
    an open one measures.
    """
    if client is None:
        return None
    typical = seen.ttft.p50
    own = client.lag.p99
    if own is not None and len(seen.lateness):
        own += client.queueing.p95 or 0.0
    slow = own is not None and typical is not None and own >= LAG_SHARE * typical
    busy = client.busy is not None and client.busy >= BUSY
    figures = [
        *([f"event loop late by {_told(client.lag, 'p50', 'p99', 'max')}"] if len(client.lag) else []),
        *([f"queueing {_told(client.queueing, 'p50', 'p95')}"] if len(client.queueing) else []),
        *(
            []
            if own is None or not typical
            else [f"its share of TTFT at most {min(100, math.ceil(100 * own / typical))} %"]
        ),
        *([] if client.busy is None else [f"CPU {percent(client.busy)} busy"]),
    ]
    if not figures:
        return None
    processes = f" ({client.processes} processes)" if client.processes > 1 else ""
    known = client.busy is not None or (own is not None and typical is not None)
    kept_up = "the client kept up" if known else "the client, without a TTFT to hold it against"
    lead = "the client may have been the bottleneck" if slow or busy else kept_up
    return f"{lead}{processes}: {'; '.join(figures)}"


def _told(sample: Latency, *names: str) -> str:
    return ", ".join(f"{duration(getattr(sample, name))} {name}" for name in names)


def _errors(seen: Overview) -> str | None:
    if not seen.errors:
        return None
    classes = ", ".join(f"{count:,} {name}" for name, count in seen.errors.items())
    return f"{seen.failed:,} of {plural(seen.total, 'request')} failed: {classes}"
