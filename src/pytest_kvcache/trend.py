"""What changes as the load or the hit rate rises? Statements over several measurements, one line each. Pure.

A statement is made where the data shows it: the thresholds stand below, and levels with fewer than :data:`REQUESTS`
whole answers are left out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import fmean, stdev

from .bottleneck import KV_FULL, largest
from .figures import duration, percent, tok_s
from .histogram import merged
from .model import Level, Measurement, Stretch

REQUESTS = 5  # whole answers that a level needs to be compared
GROWTH = 0.1  # throughput has stopped growing where it rises less than so much of what the level does
MARGIN = 1.1  # TTFT grows faster than the level when its factor is so many times that of the level
NOTICED = 0.001  # seconds of TTFT that a rise needs
SPREAD = 0.1  # of hit rates: closer ones are not compared
FALLS = 0.95  # TTFT has fallen when it is below so much of what it was
_PARTS = ("queue", "prefill", "decode", "ttft", "e2e")


@dataclass(frozen=True, slots=True)
class _Kept:
    """One level, all of its repetitions together; ``largest``: part of the server's time. None: not told."""

    level: Level
    stretches: tuple[Stretch, ...]
    output: float | None
    ttft: float | None
    largest: str | None
    kv_usage: float | None
    waiting: int | None
    preemptions: int | None


def of_levels(measurements: Iterable[Measurement]) -> list[str]:
    """Return what changes with the level, for each workload that was run at two levels or more."""
    by_workload: dict[tuple[str, bool], list[tuple[Stretch, Measurement]]] = {}
    for measurement in measurements:
        if measurement.stretch is not None and measurement.limit is None:
            kind = measurement.title, measurement.stretch.level.rate is None
            by_workload.setdefault(kind, []).append((measurement.stretch, measurement))
    found = [_of_workload(levels) for levels in by_workload.values()]
    if len(found) == 1:
        return found[0]
    titles = (title for title, _ in by_workload)
    return [f"{title}: {line}" for title, lines in zip(titles, found, strict=True) for line in lines]


def _of_workload(levels: Sequence[tuple[Stretch, Measurement]]) -> list[str]:
    kept = [_kept(value, levels) for value in sorted({stretch.level.value for stretch, _ in levels})]
    lines = [*_repeated(kept)]
    rising = [level for level in kept if sum(stretch.requests for stretch in level.stretches) >= REQUESTS]
    if len(rising) > 1:
        lines += [*_throughput(rising, kept[-1]), *_first_token(rising), *_waiting(rising)]
    if len(kept) > 1:
        lines += [*_cache(kept), *_server_time(kept)]
    return lines


def _kept(value: float, levels: Sequence[tuple[Stretch, Measurement]]) -> _Kept:
    stretches = tuple(stretch for stretch, _ in levels if stretch.level.value == value)
    measurements = [measurement for stretch, measurement in levels if stretch.level.value == value]
    pressures = [m.pressure for m in measurements if m.pressure is not None]
    told = {name: merged(m.server_latency[name] for m in measurements if name in m.server_latency) for name in _PARTS}
    preemptions = [p.preemptions for p in pressures if p.preemptions is not None]
    return _Kept(
        level=stretches[0].level,
        stretches=stretches,
        output=_mean(stretch.output_tok_s for stretch in stretches),
        ttft=_mean(stretch.ttft.p50 for stretch in stretches),
        largest=largest({name: whole for name, whole in told.items() if whole is not None}),
        kv_usage=max((p.kv_usage_peak for p in pressures if p.kv_usage_peak is not None), default=None),
        waiting=max((p.waiting_peak for p in pressures if p.waiting_peak is not None), default=None),
        preemptions=sum(preemptions) if preemptions else None,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean; None when one of them is not known."""
    known = list(values)
    return None if None in known or not known else fmean(value for value in known if value is not None)


# --- levels ----------------------------------------------------------------------------------------------------------


def _repeated(kept: Sequence[_Kept]) -> list[str]:
    """Return mean and standard deviation (n - 1) of the repetitions of each level."""
    lines = []
    for level in kept:
        if len(level.stretches) < 2:
            continue
        figures = [
            _with_deviation("output", [s.output_tok_s for s in level.stretches], tok_s),
            _with_deviation("TTFT p50", [s.ttft.p50 for s in level.stretches], duration),
        ]
        told = ", ".join(figure for figure in figures if figure is not None)
        lines += [f"{level.level}, {len(level.stretches)} times: {told}"] if told else []
    return lines


def _with_deviation(name: str, values: Sequence[float | None], shown: Callable[[float], str]) -> str | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return f"{name} {shown(fmean(known))} ± {shown(stdev(known))}"


def _throughput(levels: Sequence[_Kept], highest: _Kept) -> list[str]:
    """Tell from where on more load brings no more: no higher level gains a tenth of what the load rises by.

    Args:
        levels: that can be compared.
        highest: that was kept; it may have answered too little for that.
    """
    told = [(level, level.output) for level in levels if level.output]
    if len(told) < 2:
        return []
    last, most = told[-1]
    for place, (level, output) in enumerate(told[:-1]):
        if all(_gain(level, output, *higher) < GROWTH for higher in told[place + 1 :]):
            falls = "falls" if most < output * (1 - GROWTH) else "stops growing"
            return [f"output {falls} from {level.level} on: {tok_s(output)} there, {tok_s(most)} at {_at(last)}"]
    before, less = told[-2]
    where = "at the highest level" if last is highest else f"up to {last.level}"
    return [f"output still grows {where}: {tok_s(less)} at {before.level}, {tok_s(most)} at {_at(last)}"]


def _at(kept: _Kept) -> str:
    """Return the number of a level that stands behind one that names its unit."""
    level = kept.level
    return f"{level.concurrency}" if level.rate is None else f"{level.rate:.4g}"


def _gain(lower: _Kept, output: float, higher: _Kept, more: float) -> float:
    """Return how much of the rise of the level the throughput followed: 1 when both rise by the same factor."""
    return (more / output - 1) / (higher.level.value / lower.level.value - 1)


def _first_token(levels: Sequence[_Kept]) -> list[str]:
    """Tell from where on TTFT rises by a larger factor than the level, and does not come back."""
    told = [(level, level.ttft) for level in levels if level.ttft]
    for place, ((lower, short), (higher, long)) in enumerate(pairwise(told)):
        faster = long / short > MARGIN * higher.level.value / lower.level.value and long - short >= NOTICED
        if faster and all(later >= long / MARGIN for _, later in told[place + 2 :]):
            shown = (told[place], told[place + 1], *told[place + 2 :][-1:])
            values = ", ".join(f"{duration(ttft)} at {_at(level)}" for level, ttft in shown)
            return [f"TTFT p50 grows faster than the load from {lower.level} on: {values}"]
    return []


def _waiting(levels: Sequence[_Kept]) -> list[str]:
    told = [(level, level.waiting) for level in levels if level.waiting is not None]
    first = next(((level, waiting) for level, waiting in told if waiting), None)
    if first is None:
        return []
    if _lasts(told):
        return [f"requests wait in the server from {first[0].level} on: {first[1]:,} at peak"]
    return [f"requests wait in the server at some levels, at peak: {_each(told)}"]


def _cache(levels: Sequence[_Kept]) -> list[str]:
    """Tell KV usage and preemptions: where they begin, or how far away they stayed."""
    lines = []
    told = [(level, level.preemptions) for level in levels if level.preemptions is not None]
    preempted = [(level, count) for level, count in told if count]
    if preempted and _lasts(told):
        values = ", ".join(f"{count:,} at {_at(level)}" for level, count in preempted)
        lines.append(f"requests are preempted from {preempted[0][0].level} on: {values}")
    elif preempted:
        lines.append(f"requests are preempted at some levels: {_each(told)}")
    used = [(level, level.kv_usage) for level in levels if level.kv_usage is not None]
    full = next(((level, usage) for level, usage in used if usage >= KV_FULL), None)
    if full is not None:
        lasts = _lasts([(level, usage >= KV_FULL) for level, usage in used])
        where = f"from {full[0].level} on" if lasts else f"at {full[0].level}"
        lines.append(f"the cache is full {where}: KV usage {percent(full[1])} at peak")
    elif used:
        level, usage = max(used, key=lambda pair: pair[1])
        none = "; no preemptions" if all(level.preemptions == 0 for level in levels) else ""
        lines.append(f"KV usage peaks at {percent(usage)}, at {level.level}{none}")
    return lines


def _lasts(told: Sequence[tuple[_Kept, int]]) -> bool:
    """Tell whether what has begun at a level is there at all higher ones."""
    counts = [bool(count) for _, count in told]
    return counts == sorted(counts)


def _each(told: Sequence[tuple[_Kept, int]]) -> str:
    return ", ".join(f"{count:,} at {level.level}" for level, count in told if count)


def _server_time(levels: Sequence[_Kept]) -> list[str]:
    """Tell what takes the largest part of the server's time, where that changes with the level."""
    told = [(level.largest, level) for level in levels if level.largest is not None]
    changes = [next(group) for _, group in groupby(told, key=lambda pair: pair[0])]
    if len(changes) < 2:
        return []
    (first, _), *later = changes
    steps = ", ".join(f"{part} from {level.level} on" for part, level in later)
    return [f"the largest part of the server's time is {first} at first, {steps}"]


# --- hit rates -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AtRate:
    """What was measured at one hit rate. None: not known, or nothing to compare.

    Attributes:
        hit_rate: measured, 0..1.
        ttft: median, seconds.
        output: generated tokens per second.
        held: the highest level that held.
    """

    hit_rate: float
    ttft: float | None
    output: float | None = None
    held: float | None = None


def against_hit_rate(points: Iterable[AtRate]) -> list[str]:
    """Return whether TTFT falls as the hit rate rises, and what rises with it; nothing where rates hardly differ."""
    rising = sorted(points, key=lambda point: point.hit_rate)
    lines = []
    waits = [(point.hit_rate, point.ttft) for point in rising if point.ttft]
    if _spread(waits):
        lines.append(_ttft_against(waits))
    output = [(point.hit_rate, point.output) for point in rising if point.output]
    lines += _rises("output", output, tok_s)
    held = [(point.hit_rate, point.held) for point in rising if point.held]
    return lines + _rises("the level that holds", held, "{:.4g}".format)


def _spread(values: Sequence[tuple[float, float]]) -> bool:
    return len(values) > 1 and values[-1][0] - values[0][0] >= SPREAD


def _rises(what: str, values: Sequence[tuple[float, float]], shown: Callable[[float], str]) -> list[str]:
    if not _spread(values):
        return []
    (low, before), (high, after) = values[0], values[-1]
    if after <= before / FALLS:
        return []
    return [
        f"{what} rises with the hit rate: {shown(before)} at {low:.3f}, {shown(after)} at {high:.3f}"
        f" ({after / before:.2f} times)"
    ]


def _ttft_against(waits: Sequence[tuple[float, float]]) -> str:
    (low, before), (high, after) = waits[0], waits[-1]
    values = f"{duration(before)} at {low:.3f}, {duration(after)} at {high:.3f}"
    if after >= FALLS * before:
        return f"TTFT p50 does not fall as the hit rate rises: {values}"
    back = next((pair for pair in pairwise(waits) if pair[1][1] > pair[0][1] / FALLS), None)
    but = ""
    if back is not None:
        (rate, short), (higher, long) = back
        but = f"; but it rises from {duration(short)} at {rate:.3f} to {duration(long)} at {higher:.3f}"
    return f"TTFT p50 falls as the hit rate rises: {values} ({percent(1 - after / before)} less){but}"
