"""What do measurements tell of latency and throughput? Of each run, and of each level that was kept. Pure.

A run of all requests counts from the first body sent to the last answer. Of a level that was kept for a time counts
that time, of a search for the limit what held. Every run is judged alone, so that no good one hides a bad one;
repetitions of the same level are one sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise

from .. import latency
from ..counts import total
from ..distribution import Latency, merged
from ..model import Exchange, Measurement, PerRequest, Stretch
from ..production import BIN
from ..stretch import is_good, overdue

_BATCHES = 20  # parts of a level's time, for the interval of a throughput
_LEAST_BATCHES = 10
_LATE = 95  # percentile of the client's lag that a request may owe to it


@dataclass(frozen=True, slots=True)
class Sample:
    """What one run or level gave.

    Attributes:
        where: which, for a sentence; empty when there is only one.
        answered / failed: requests that count, whole answers and others.
        seconds: that throughput counts over.
        latencies: samples of ``ttft``, ``itl``, ``tpot``, ``e2e``, ``tokens_per_s``.
        tokens: ``output_tok_s``, ``input_tok_s``: tokens in these seconds; None: not told.
        good: requests that met every limit of their own; None: not asked, or not known.
        nearly: the same if the client's lag were no part of what they took.
        untold: whole answers that do not tell their completion tokens.
        batches: by metric, its rate in equal parts of the time; none where that is no steady state.
        lag: of the client's event loops.
        scheduled: times count from when requests were due, so that a late client adds to both of their ends.
        busy: CPU seconds over wall seconds of the busiest client process; None: not known.
        processes: of the client.
        failures: how requests failed, and how often.
        timed: False when nothing was sent by this package, so that nothing was timed.
        limit: of a search for the limit: its sentence.
    """

    where: str
    answered: int
    failed: int
    seconds: float
    latencies: Mapping[str, Latency]
    tokens: Mapping[str, float | None]
    good: int | None = None
    nearly: int | None = None
    untold: int = 0
    batches: Mapping[str, Sequence[float]] = field(default_factory=dict)
    lag: Latency = field(default_factory=Latency)
    scheduled: bool = False
    busy: float | None = None
    processes: int = 1
    failures: Mapping[str, int] = field(default_factory=dict)
    timed: bool = True
    limit: str = ""

    @property
    def ended(self) -> int:
        """Requests that count, failed ones included."""
        return self.answered + self.failed

    @property
    def late(self) -> float:
        """How much later than it could the client may have noticed what came, seconds."""
        return self.lag.percentile(_LATE) or 0.0


def samples_of(measurements: Sequence[Measurement], each: PerRequest) -> list[Sample]:
    """Return one sample for each run and each level.

    Args:
        measurements: of one test, in order.
        each: what a request has to meet to be good.
    """
    groups: list[list[Measurement]] = []
    levels: dict[object, list[Measurement]] = {}  # the latest group of each
    for m in measurements:
        level = (m.title, m.stretch.level) if m.stretch is not None and m.limit is None else None
        if level in levels and m.stretch is not None and m.stretch.lap:
            levels[level].append(m)
        else:
            groups.append([m])
            levels[level] = groups[-1]
    alike = len({m.title for m in measurements}) > 1 or len(levels) < len(groups)
    found = []
    for number, group in enumerate(groups, 1):
        sample = _together([sample_of(m, each) for m in group])
        where = "" if len(groups) == 1 else _where(group[0], number, len(groups), named=alike)
        found.append(replace(sample, where=where))
    return found


def _where(m: Measurement, number: int, of: int, *, named: bool) -> str:
    if m.stretch is None:
        return f"in run {number} of {of}"
    return f"at {m.stretch.level}" + (f" in run {number} of {of}" if named else "")


def sample_of(m: Measurement, each: PerRequest) -> Sample:
    """Return what one measurement gave, a repetition of a level by itself."""
    exchanges = list(_counted(m))
    whole = [e for e in exchanges if e.ok]
    untold = sum(e.completion_tokens is None for e in whole)
    late = 0.0 if m.client is None else m.client.lag.percentile(_LATE) or 0.0
    sample = _of_level(m, m.stretch) if m.stretch is not None else _of_run(m, whole)
    return replace(
        sample,
        failed=sum(not e.ok for e in exchanges) if m.stretch is None else m.stretch.failed,
        untold=untold,
        good=_good(whole, each),
        nearly=_good(whole, each, late),
        batches={} if m.stretch is None else _batches(m, m.stretch, whole, each),
        lag=Latency() if m.client is None else m.client.lag,
        scheduled=any(e.scheduled is not None for e in whole),
        busy=None if m.client is None else m.client.busy,
        processes=1 if m.client is None else m.client.processes,
        failures=Counter(e.failure.message for e in exchanges if e.failure is not None),
        timed=m.own_traffic or bool(exchanges),
        limit="" if m.limit is None else m.limit.sentence,
    )


def _of_run(m: Measurement, whole: Sequence[Exchange]) -> Sample:
    bodies = [e.sent for e in whole if e.sent is not None]
    seconds = max((e.end for e in whole), default=0.0) - min(bodies, default=0.0)
    return Sample(
        where="",
        answered=len(whole),
        failed=0,
        seconds=seconds if bodies else 0.0,
        latencies={
            "ttft": latency.ttft(whole),
            "itl": m.gaps,
            "tpot": latency.tpot(whole),
            "e2e": latency.e2e(whole),
            "tokens_per_s": Latency.of(e.tokens_per_s for e in whole),
        },
        tokens={
            "output_tok_s": total(e.completion_tokens for e in whole) if whole else None,
            "input_tok_s": total(e.prompt_tokens for e in whole) if whole else None,
        },
    )


def _of_level(m: Measurement, stretch: Stretch) -> Sample:
    return Sample(
        where="",
        answered=stretch.requests,
        failed=stretch.failed,
        seconds=stretch.seconds,
        latencies={
            "ttft": stretch.ttft,
            "itl": m.gaps if stretch.itl is None else stretch.itl,
            "tpot": stretch.tpot,
            "e2e": stretch.e2e,
            "tokens_per_s": stretch.tokens_per_s,
        },
        tokens={"output_tok_s": stretch.output_tokens, "input_tok_s": stretch.input_tokens},
    )


def _counted(m: Measurement) -> Iterator[Exchange]:
    """Yield the requests that count: all of a run; of a level those that ended in its time, or that failed or hung when
    it was over; of a search for the limit those that ended in the periods that it was held for.
    """
    if m.stretch is None:
        return iter(() if m.limit is not None else m.exchanges)
    late = overdue(m.exchanges, m.stretch.start, m.stretch.end) if m.limit is None else ()
    strict = m.stretch.strict
    times = [(m.stretch.start, m.stretch.end)]
    if m.limit is not None:
        counted = (p.stretch for p in m.limit.periods if p.held != "transition" and p.stretch.level == m.limit.level)
        times = [(stretch.start, stretch.end) for stretch in counted]
    ended = (
        e
        for e in m.exchanges
        if any(start <= e.end <= end and (not strict or _sent_from(e, start)) for start, end in times)
    )
    return chain(ended, late)


def _sent_from(exchange: Exchange, start: float) -> bool:
    return exchange.sent is not None and exchange.sent >= start


def _good(whole: Sequence[Exchange], each: PerRequest, late: float = 0.0) -> int | None:
    """Count the requests that met their limits; None: a duration that is limited is known of no request, or one does
    not tell the tokens that its TPOT needs.

    Args:
        whole: answers that count.
        each: the limits.
        late: seconds by which a request may have been noticed late.
    """
    if not each.asked:
        return None
    if whole and each.ttft is not None and all(e.ttft is None for e in whole):
        return None
    if each.tpot is not None and any(e.completion_tokens is None for e in whole):
        return None
    return sum(is_good(e, _eased(each, late, e) if late else each) for e in whole)


def _eased(each: PerRequest, late: float, exchange: Exchange) -> PerRequest:
    steps = max(1, (exchange.completion_tokens or 1) - 1)  # one late chunk moves TPOT by its share
    whole = late if exchange.scheduled is None else 2 * late
    return PerRequest(
        None if each.ttft is None else each.ttft + whole,
        None if each.tpot is None else each.tpot + late / steps,
        None if each.e2e is None else each.e2e + whole,
    )


# --- parts of a level's time -----------------------------------------------------------------------------------------


def _batches(
    m: Measurement, stretch: Stretch, whole: Sequence[Exchange], each: PerRequest
) -> Mapping[str, Sequence[float]]:
    """Return throughputs of equal parts of a level's time, each at least as long as a request takes.

    A search counts periods that need not follow each other, and a strict stretch counts nothing at its edges.
    """
    longest = max(stretch.e2e.percentile(_LATE) or 0.0, 10 * BIN)
    count = min(_BATCHES, int(stretch.seconds / longest))
    if m.limit is not None or stretch.strict or count < _LEAST_BATCHES:
        return {}
    step = stretch.seconds / count
    edges = [stretch.start + step * part for part in range(count + 1)]
    input_tokens, good = [0.0] * count, [0.0] * count
    for e in whole:
        good[_part(e.end, stretch.start, step, count)] += _good([e], each) or 0
    for e in m.exchanges:
        first = e.end if e.first_content is None else e.first_content
        if e.ok and stretch.start <= first <= stretch.end:
            input_tokens[_part(first, stretch.start, step, count)] += e.prompt_tokens or 0
    return {
        "output_tok_s": [m.produced.between(low, high) / step for low, high in pairwise(edges)],
        "input_tok_s": [tokens / step for tokens in input_tokens],
        "goodput": [requests / step for requests in good],
    }


def _part(moment: float, start: float, step: float, count: int) -> int:
    return min(count - 1, int((moment - start) / step))


# --- repetitions -----------------------------------------------------------------------------------------------------


def _together(samples: Sequence[Sample]) -> Sample:
    """Return the repetitions of a level as one sample."""
    if len(samples) == 1:
        return samples[0]
    failures: Counter[str] = Counter()
    for sample in samples:
        failures.update(sample.failures)
    busy = [sample.busy for sample in samples if sample.busy is not None]
    first = samples[0]
    complete = all(sample.batches for sample in samples)
    return replace(
        first,
        answered=sum(sample.answered for sample in samples),
        failed=sum(sample.failed for sample in samples),
        seconds=sum(sample.seconds for sample in samples),
        latencies={name: merged(sample.latencies[name] for sample in samples) for name in first.latencies},
        tokens={name: total(sample.tokens[name] for sample in samples) for name in first.tokens},
        good=total(sample.good for sample in samples),
        nearly=total(sample.nearly for sample in samples),
        untold=sum(sample.untold for sample in samples),
        batches={
            name: [value for sample in samples for value in sample.batches[name]] for name in first.batches if complete
        },
        lag=merged(sample.lag for sample in samples),
        busy=max(busy, default=None),
        failures=failures,
    )
