"""A page of JSON statistics to samples: a list of iterations of which the last holds totals since the start.

TensorRT-LLM's ``GET /metrics`` is such a page, and reading it empties it: a second reader, such as the server's own
Prometheus collector, gets the other half (tensorrt_llm/serve/openai_server.py). Totals lose nothing by that.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..endpoint import MetricsSource, without_userinfo
from ..errors import EndpointError, ProtocolError
from .snapshot import Series, Snapshot

if TYPE_CHECKING:
    from ..client import Client


async def fetch(client: Client, source: MetricsSource, last: Snapshot | None) -> Snapshot:
    """Return the newest totals; those of ``last`` when nothing was computed since.

    Raises:
        EndpointError: a status other than 200.
        ProtocolError: not a JSON list of objects with the numbers that the profile names.
    """
    from ..answers import parse_json

    shown = without_userinfo(source.url)
    page = await client.get(source.url)
    if page.status != 200:
        raise EndpointError(f"{shown} answered {page.status}: {client.explain(page)}; the counters cannot be read")
    entries = parse_json(page)
    if not isinstance(entries, list):
        raise ProtocolError(f"{shown}: expected a JSON list of iteration statistics, got {page.text[:80]!r}")
    samples: dict[Series, float] = {}
    for name, path in source.json_page:
        found = [value for entry in entries if (value := _at(entry, path)) is not None]
        if any(type(value) not in (int, float) or abs(value) >= 1 << 53 for value in found):
            raise ProtocolError(f"{shown}: {path}: expected numbers, got {found[-1]!r}")
        if found:
            samples[name, ()] = float(found[-1])
        elif last is not None and (name, ()) in last.samples:
            samples[name, ()] = last.samples[name, ()]
    return Snapshot(time.monotonic(), samples, shown)


def _at(entry: Any, path: str) -> Any:
    for part in path.split("."):
        entry = entry.get(part) if isinstance(entry, dict) else None
    return entry
