"""Counters to numbers: one snapshot of what a page, or a Prometheus server that scrapes it, says at one time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..endpoint import MetricsSource
from . import json_page, page, prometheus
from .snapshot import Labels, Series, Snapshot, delta, together

if TYPE_CHECKING:
    from ..client import Client

__all__ = ["Labels", "Series", "Snapshot", "delta", "fetch", "together"]


async def fetch(
    client: Client, source: MetricsSource, names: Iterable[str], *, last: Snapshot | None = None
) -> Snapshot:
    """Return what a source says now.

    Args:
        client: open.
        source: a page, or a Prometheus server.
        names: samples that are needed, as the engine profiles name them.
        last: what the source said before; a page that is drained by reading says nothing when nothing is new.

    Raises:
        EndpointError: it cannot be had (unreachable, 401, 404, redirected to another host, ...).
        ProtocolError: it is not understood.
    """
    if source.kind == "prometheus":
        return await prometheus.fetch(client, source, names)
    if source.json_page:
        return await json_page.fetch(client, source, last)
    return await page.fetch(client, source, names)
