"""May the load generator itself have broken a level of a search? Pure.

Its lag is that of the whole search, most of which is spent around the limit.
"""

from __future__ import annotations

from dataclasses import replace

from ..model import Finding, Measurement
from ..slo import blame
from ..slo.samples import samples_of
from .asked import Asked
from .breach import behind, value_of
from .tried import pooled_at


def clients_own(measured: Measurement, asked: Asked) -> Finding | None:
    """Return that the lowest level that broke may have held with another client, None when it cannot have.

    Args:
        measured: the search.
        asked: what was to be held.
    """
    limit = measured.limit
    stretch = None if limit is None else pooled_at(limit, limit.breached)
    if limit is None or stretch is None:
        return None
    (sample,) = samples_of([replace(measured, limit=replace(limit, level=limit.breached), stretch=stretch)], asked.each)
    found = []
    for objective in asked.objectives:
        value = value_of(objective, stretch)
        if value is not None and not objective.met_by(value):
            found.append(blame.clients_own(objective, value, sample, limit.sentence))
    if not found:  # it failed or hung, or its queue grew
        return blame.too_busy(sample, limit.sentence) if behind(stretch) else None
    return None if None in found else found[0]
