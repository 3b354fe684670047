"""Histograms of one source to what the engines themselves say about latency, over a window."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from ..errors import CounterMissing, CounterReset, ProtocolError
from ..histogram import Histogram, merged
from ..scrape import Labels, Snapshot
from .counting import Selector
from .reader import Reader

_NOT_THEIRS = ("le", "__name__")


def histograms(reader: Reader, before: Snapshot, after: Snapshot) -> dict[str, Histogram]:
    """Return the observations of a window by our names of the profile's families, those of all engines together.

    Each series is differenced first (one of each set of duplicates, such as tensor-parallel ranks), the engines are
    added up after. Latencies stand beside the hit rate and must not spoil it, so a family that cannot be trusted is
    left out: absent, a bound or a value that is no number, buckets that contradict each other or their count, a sum
    that falls. A family without observations in the window is there, with a count of zero.

    Raises:
        CounterReset: a bucket or a count fell or vanished. That is a restart, and then no counter of the window holds.
    """
    found: dict[str, Histogram] = {}
    for name, family in reader.profile.latency.families().items():
        if not (before.has(f"{family}_bucket") or after.has(f"{family}_bucket")):
            continue
        try:
            whole = merged(_by_series(reader, family, before, after))
        except (CounterMissing, ProtocolError, ValueError):
            continue
        if whole is not None:
            found[name] = whole
    return found


def _by_series(reader: Reader, family: str, before: Snapshot, after: Snapshot) -> Iterator[Histogram]:
    """Yield the histogram of each series. Raises ValueError when one is inconsistent."""

    def grown(kind: str) -> Iterable[tuple[Labels, float]]:
        return reader.grown([Selector(sample=family + kind)], before, after).items()

    buckets: dict[Labels, dict[float, float]] = {}
    for labels, growth in grown("_bucket"):
        reached = buckets.setdefault(_series(labels), {})
        bound = float(dict(labels)["le"]) if "le" in dict(labels) else math.nan
        if math.isnan(bound) or bound in reached:
            raise ValueError(f"{family}: a bucket without a bound of its own")
        reached[bound] = growth
    counts = {_series(labels): growth for labels, growth in grown("_count")}
    try:
        sums = {_series(labels): growth for labels, growth in grown("_sum")}
    except CounterReset:  # with counts that grew: negative observations, of which nothing can be told
        raise ValueError(f"{family}: its sum fell") from None
    for series, reached in buckets.items():
        histogram = Histogram.cumulated(reached, sums.get(series, math.nan))
        if histogram is None or histogram.count != counts.get(series):
            raise ValueError(f"{family}: its buckets contradict each other or their count")
        yield histogram


def _series(labels: Labels) -> Labels:
    return tuple(pair for pair in labels if pair[0] not in _NOT_THEIRS)
