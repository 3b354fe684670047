"""How one source of counters is read: its profile bound to a version, a model and a block size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..endpoint import MetricsSource
from ..errors import ProtocolError
from ..scrape import Labels, Snapshot, delta
from .counting import Selector, Variant
from .profile import Profile

ONLY = "0"  # the name of an engine that carries no label to tell it apart


@dataclass(frozen=True, slots=True)
class Reader:
    """One source with everything that is needed to understand its samples.

    Attributes:
        source: where they come from.
        profile: what wrote them.
        variant: how that counts; None when there are no counters.
        version: of the engine; None when unknown.
        block_size: tokens per block; None when unknown.
        model: keep only series of this model; None: all.
    """

    source: MetricsSource
    profile: Profile
    variant: Variant | None = None
    version: str | None = None
    block_size: int | None = None
    model: str | None = None

    @property
    def aside(self) -> bool:
        """True when what it looks up was looked up elsewhere too, so that it is shown and never summed."""
        return self.profile.kind == "tier" or self.source.role == "decode"

    def grown(self, selectors: Iterable[Selector], before: Snapshot, after: Snapshot) -> dict[Labels, float]:
        """Return how much each selected series grew, one of each set of duplicates kept.

        Raises:
            CounterMissing, CounterReset, ProtocolError: as :func:`~pytest_kvcache.scrape.delta`.
        """
        found: dict[Labels, float] = {}
        for selector in selectors:
            name = selector.sample
            if self.variant is not None and self.variant.lazy and not (before.has(name) or after.has(name)):
                continue
            for labels, growth in delta(before, after, name).items():
                if selector.matches(labels) and self._is_kept(labels):
                    key = tuple(sorted((*labels, ("__name__", name))))
                    found[key] = growth
        return self._without_duplicates(found)

    def value(self, selectors: Iterable[Selector], snapshot: Snapshot) -> dict[str, float] | None:
        """Return a gauge by engine, None when none of its samples is there.

        Raises:
            ProtocolError: it is not a finite number.
        """
        found: dict[Labels, float] = {}
        for selector in selectors:
            for labels, value in snapshot.series(selector.sample).items():
                if selector.matches(labels):
                    if value - value != 0:  # neither infinite nor not a number
                        raise ProtocolError(f"{snapshot.origin}: {selector.sample} is {value}, which is no number")
                    found[tuple(sorted((*labels, ("__name__", selector.sample))))] = value
        return self.by_engine(self._without_duplicates(found)) if found else None

    def by_engine(self, series: dict[Labels, float]) -> dict[str, float]:
        """Return sums by the engine's name: the source's name, then its own labels."""
        sums: dict[str, float] = {}
        for labels, value in series.items():
            name = self.engine(labels)
            sums[name] = sums.get(name, 0.0) + value
        return sums

    def engine(self, labels: Labels) -> str:
        """Return the name of the engine that a series belongs to."""
        known = dict(labels)
        own = [known[label] for label in self.profile.engine_labels if known.get(label)]
        instance = [known["instance"]] if self.source.kind == "prometheus" and known.get("instance") else []
        return " ".join([*filter(None, [self.source.name]), *instance, *own]) or ONLY

    def _is_kept(self, labels: Labels) -> bool:
        label = self.profile.model_label
        return self.model is None or label is None or dict(labels).get(label) in (None, self.model)

    def _without_duplicates(self, series: dict[Labels, float]) -> dict[Labels, float]:
        ranks = set(self.profile.duplicate_labels)
        if not ranks:
            return series
        kept: dict[Labels, tuple[list[tuple[int, str]], Labels]] = {}
        for labels in series:
            rest = tuple(pair for pair in labels if pair[0] not in ranks)
            rank = sorted((_rank(value), label) for label, value in labels if label in ranks)
            if rest not in kept or rank < kept[rest][0]:
                kept[rest] = rank, labels
        return {labels: series[labels] for _, labels in kept.values()}


def _rank(value: str) -> int:
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else -1
