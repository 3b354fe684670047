"""Two snapshots of a source to token counts per engine, and whether its engines are at rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ..errors import CounterMissing, CounterReset
from ..model import Tokens
from ..scrape import Snapshot
from .counting import LOCAL, Selector
from .reader import Reader

_REST = "it is needed to know when the engine is at rest"


def tokens_by_engine(reader: Reader, before: Snapshot, after: Snapshot) -> dict[str, Tokens]:
    """Return what each engine of a source looked up and found between two snapshots, in the unit of the variant.

    Raises:
        CounterMissing: the page lacks the variant's counters.
        CounterReset: a counter fell.
        ProtocolError: a value that is no count.
    """
    variant = reader.variant
    if variant is None:
        return {}
    check_same_process(reader, before, after)
    found = _count(reader, variant.hits, variant.query, before, after)
    if variant.query_instead and not any(tokens.query for tokens in found.values()):
        instead = _count(reader, variant.hits, variant.query_instead, before, after)
        found = instead if any(tokens.query for tokens in instead.values()) else found
    return found


def recounted(reader: Reader, before: Snapshot, after: Snapshot) -> dict[str, Tokens]:
    """Return the same by the variant's second pair of counters, empty when it has none.

    Raises:
        CounterMissing, CounterReset, ProtocolError: as :func:`tokens_by_engine`.
    """
    variant = reader.variant
    if variant is None or variant.recount is None:
        return {}
    found = _count(reader, variant.recount.hits, variant.recount.query, before, after)
    less = reader.by_engine(reader.grown(variant.recount.less, before, after))
    return {name: _less(tokens, round(less.get(name, 0.0))) for name, tokens in found.items()}


def check_same_process(reader: Reader, before: Snapshot, after: Snapshot) -> None:
    """Make sure that no engine restarted, also when its counters have overtaken where they were.

    Raises:
        CounterReset: a start time on the page changed. Pages without one (vLLM in multiprocess mode) tell nothing.
    """
    for name in reader.profile.births():
        last = after.series(name)
        for labels, start in before.series(name).items():
            if (
                math.isfinite(start) and last.get(labels, start) != start
            ):  # NaN is no start time, and differs from itself
                raise CounterReset(
                    f"{name} changed on {after.origin}: the engine restarted in the window, or a load balancer answers"
                    " for several engines (name each engine's own page with --kv-metrics)"
                )


def query_total(reader: Reader, before: Snapshot, after: Snapshot) -> int:
    """Return what was looked up between two snapshots, over all engines of the source.

    Raises:
        CounterMissing, CounterReset, ProtocolError: as :func:`tokens_by_engine`.
    """
    return sum(tokens.query for tokens in tokens_by_engine(reader, before, after).values())


def in_flight(reader: Reader, snapshot: Snapshot) -> int | None:
    """Return how many requests run or wait, None when the engine has no such gauges.

    Raises:
        CounterMissing: the profile names a gauge and the page lacks it.
        ProtocolError: a gauge that is no number.
    """
    total = None
    for selectors in (reader.profile.gauges.running, reader.profile.gauges.waiting):
        if not selectors:
            continue
        values = reader.value(selectors, snapshot)
        if values is None:
            raise CounterMissing(f"{snapshot.origin} has no {selectors[0].sample}; {_REST}")
        total = (total or 0) + round(sum(values.values()))
    return total


def _count(
    reader: Reader, hits: Mapping[str, Iterable[Selector]], query: Iterable[Selector], before: Snapshot, after: Snapshot
) -> dict[str, Tokens]:
    by_tier = {tier: reader.grown(selectors, before, after) for tier, selectors in hits.items()}
    queries = reader.grown(query, before, after)
    prompt = _optional(reader, reader.profile.prompt, before, after)
    names = sorted({reader.engine(labels) for series in (queries, *by_tier.values()) for labels in series})
    digits = reader.variant.digits if reader.variant else None
    query_errors = reader.by_engine({key: _error(key, digits, before, after) for key in queries})
    hit_errors = reader.by_engine(
        {key: _error(key, digits, before, after) for series in by_tier.values() for key in series}
    )
    totals = reader.by_engine(queries)
    tiers = {tier: reader.by_engine(series) for tier, series in by_tier.items()}
    return {
        name: Tokens(
            query=round(totals.get(name, 0.0)),
            hits={tier: round(found.get(name, 0.0)) for tier, found in tiers.items() if found or tier == LOCAL},
            prompt=None if prompt is None else round(prompt.get(name, 0.0)),
            query_error=math.ceil(query_errors.get(name, 0.0)),
            hit_error=math.ceil(hit_errors.get(name, 0.0)),
        )
        for name in names
    }


def _optional(
    reader: Reader, selectors: Iterable[Selector], before: Snapshot, after: Snapshot
) -> dict[str, float] | None:
    there = [selector for selector in selectors if after.has(selector.sample) or before.has(selector.sample)]
    return reader.by_engine(reader.grown(there, before, after)) if there else None


def _error(key: tuple[tuple[str, str], ...], digits: int | None, before: Snapshot, after: Snapshot) -> float:
    """How far the growth of a series may be off because its values were printed with few digits: half a unit each."""
    if digits is None:
        return 0.0
    name = dict(key)["__name__"]
    labels = tuple(pair for pair in key if pair[0] != "__name__")
    values = (page.samples.get((name, labels), 0.0) for page in (before, after))
    return sum(_unit(value, digits) / 2 for value in values)


def _unit(value: float, digits: int) -> float:
    exponent = math.floor(math.log10(value)) + 1 - digits if value >= 1 else 0
    return float(10**exponent) if exponent > 0 else 0.0


def _less(tokens: Tokens, less: int) -> Tokens:
    hits = dict(tokens.hits)
    hits[LOCAL] = hits.get(LOCAL, 0) - less
    return Tokens(tokens.query, hits, tokens.prompt, tokens.query_error, tokens.hit_error)
