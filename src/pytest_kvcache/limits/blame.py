"""May the load generator itself have broken a level of a search? Pure.

Its lag is that of the whole search, most of which is spent around the limit.
"""

from __future__ import annotations

from dataclasses import replace

from ..model import Finding, Measurement, PerRequest
from ..slo import blame
from ..slo.samples import sample_of
from .breach import behind, value_of
from .tried import pooled_at


def clients_own(measured: Measurement) -> Finding | None:
    """Return that the lowest level of a search that broke may have held with another client, None when it cannot."""
    limit = measured.limit
    stretch = None if limit is None else pooled_at(limit, limit.breached)
    if limit is None or stretch is None:
        return None
    broken = replace(measured, limit=replace(limit, level=limit.breached), stretch=stretch)
    sample = sample_of(broken, limit.each or PerRequest())
    found = []
    for objective in limit.asked:
        value = value_of(objective, stretch)
        if value is not None and not objective.met_by(value):
            found.append(blame.clients_own(objective, value, sample, limit.sentence))
    if not found:  # it failed or hung, or its queue grew
        return blame.too_busy(sample, limit.sentence) if behind(stretch) else None
    return None if None in found else found[0]
