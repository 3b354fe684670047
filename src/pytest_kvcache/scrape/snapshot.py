"""Samples at one time, and how much each series grew between two times.

The rules: deltas per series first, sums after; a series that falls is a restart, never clamped; a sample that is needed
and absent is an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import CounterMissing, CounterReset, ProtocolError

_EXACT = 2.0**53  # floats count in ones up to here

Labels = tuple[tuple[str, str], ...]
Series = tuple[str, Labels]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The needed samples of one source, at one time.

    Attributes:
        at: monotonic seconds, taken when the answer had arrived.
        samples: value by (sample name as the profile writes it, sorted label pairs).
        origin: the source, for messages.
        taken: when the numbers themselves were taken, seconds on the source's own clock; tells two reads of the same
            numbers from two scrapes. None: they are made anew for each read.
        kinds: type of a sample's family, ``counter``, ``gauge``, ..., where the page tells.
    """

    at: float
    samples: Mapping[Series, float] = field(repr=False)
    origin: str = ""
    taken: float | None = None
    kinds: Mapping[str, str] = field(default_factory=dict, repr=False)

    def series(self, name: str) -> dict[Labels, float]:
        """Return every series of one sample name."""
        return {key[1]: value for key, value in self.samples.items() if key[0] == name}

    def has(self, name: str) -> bool:
        """Tell whether any series of that sample name is there."""
        return any(key[0] == name for key in self.samples)

    def total(self, name: str) -> float | None:
        """Return the sum over all series of a sample; None when it is absent."""
        values = [value for key, value in self.samples.items() if key[0] == name]
        return math.fsum(values) if values else None

    def label(self, name: str, label: str) -> list[str]:
        """Return the distinct values that ``label`` takes on a sample, in order of appearance."""
        found = (dict(labels).get(label) for key, labels in self.samples if key == name)
        return list(dict.fromkeys(value for value in found if value is not None))

    def names(self) -> dict[str, frozenset[str]]:
        """Return the label names of every sample by its name."""
        found: dict[str, frozenset[str]] = {}
        for name, labels in self.samples:
            found[name] = found.get(name, frozenset()) | {label for label, _ in labels}
        return found


def together(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Return the samples of several sources as one snapshot, with a label ``source`` when there is more than one."""
    if len(snapshots) == 1:
        return snapshots[0]
    samples = {
        (name, tuple(sorted((*labels, ("source", snapshot.origin))))): value
        for snapshot in snapshots
        for (name, labels), value in snapshot.samples.items()
    }
    return Snapshot(max(s.at for s in snapshots), samples, ", ".join(s.origin for s in snapshots))


def spellings(names: Iterable[str], *, renamed: tuple[str, str] | None = None) -> dict[str, str]:
    """Return the profile's name of every spelling that a sample may have on a page.

    Exporters differ: clients without the OpenMetrics suffix leave ``_total`` out, OpenTelemetry and Ray turn ``:`` into
    ``_``, Ray puts ``ray_`` in front, and some servers rename the whole prefix.

    Args:
        names: as the profiles write them.
        renamed: the prefix of these names and what the server writes in its place.
    """
    wanted = set(names)
    found: dict[str, str] = {}
    for name in sorted(wanted):
        found[name] = name
        base = name
        if renamed is not None and name.startswith(renamed[0]):
            base = renamed[1] + name.removeprefix(renamed[0])
        for plain in (base, base.removesuffix("_total")):
            for spelled in (plain, plain.replace(":", "_"), "ray_" + plain.replace(":", "_")):
                if spelled not in wanted:
                    found.setdefault(spelled, name)
    return found


def delta(before: Snapshot, after: Snapshot, name: str) -> dict[Labels, float]:
    """Return how much each series of a counter grew.

    A series absent at the start counts from zero (engines create some lazily).

    Raises:
        CounterMissing: the sample is in neither snapshot, or is a gauge.
        CounterReset: a series fell or vanished.
        ProtocolError: a value that is no count.
    """
    first, last = before.series(name), after.series(name)
    if not first and not last:
        raise CounterMissing(f"{after.origin} has no {name}; expected a counter of that name")
    if after.kinds.get(name) == "gauge":
        raise CounterMissing(f"{name} on {after.origin} is a gauge; expected a counter, as a gauge has no difference")
    for value in (*first.values(), *last.values()):
        if not 0 <= value < _EXACT:  # nor is NaN
            raise ProtocolError(f"{after.origin}: {name} is {value}, which is no count")
    for key, start in first.items():
        end = last.get(key)
        where = "{" + ",".join(f'{label}="{value}"' for label, value in key) + "}"
        if end is None:
            raise CounterReset(f"{name}{where} was {start:.0f} and is gone from the page: the engine restarted")
        if end < start:
            raise CounterReset(
                f"{name}{where} fell from {start:.0f} to {end:.0f}: the engine restarted or its metrics were reset"
            )
    return {key: end - first.get(key, 0.0) for key, end in last.items()}
