"""A metrics page to samples: Prometheus text or OpenMetrics, however the exporter spells its names.

A page that is refused, cut, or no metrics page is an error that names the offending line. ``*_created`` samples can
never match, because samples are named in full; exemplars and timestamps are not values.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..endpoint import MetricsSource, without_userinfo
from ..errors import EndpointError, ProtocolError
from .snapshot import Series, Snapshot, spellings

if TYPE_CHECKING:
    from ..client import Client

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{(?:[^"{}]|"(?:\\.|[^"\\])*")*\})?\s+(\S+)')
_TYPE = re.compile(r"#\s*TYPE\s+(\S+)\s+(\S+)")


async def fetch(client: Client, source: MetricsSource, names: Iterable[str]) -> Snapshot:
    """Scrape one page. Raises as :func:`pytest_kvcache.scrape.fetch`."""
    shown = without_userinfo(source.url)
    text = await fetch_text(client, source.url)
    samples, kinds = parse(text, spellings(names, renamed=source.renamed), shown)
    return Snapshot(time.monotonic(), samples, shown, kinds=kinds)


async def fetch_text(client: Client, url: str) -> str:
    """Return the text of one metrics page.

    Raises:
        EndpointError: unreachable or a status other than 200.
        ProtocolError: an HTML page.
    """
    page = await client.get(url)
    shown = without_userinfo(url)
    if page.status != 200:
        hint = "name the page with --kv-metrics" if page.status == 404 else "the counters cannot be read"
        raise EndpointError(f"{shown} answered {page.status}: {client.explain(page)}; {hint}")
    if page.content_type == "text/html":
        raise ProtocolError(
            f"{shown}: expected Prometheus text, got {client.explain(page)}; name the page with --kv-metrics"
        )
    return page.text


def parse(
    text: str, names: Mapping[str, str], origin: str = "the metrics page"
) -> tuple[dict[Series, float], dict[str, str]]:
    """Return the needed samples of a page, and the types of their families.

    Only the needed lines go through prometheus-client's parser: a whole page of a real engine costs it 7 to 15 ms.

    Args:
        text: Prometheus text format 0.0.4 or OpenMetrics 1.0.
        names: the profile's name of every spelling, see :func:`~pytest_kvcache.scrape.snapshot.spellings`.
        origin: for messages.

    Raises:
        ProtocolError: not a metrics page, cut in the middle of a line, or a needed line that does not parse; the line
            is shown.
    """
    lines = text.split("\n")
    if lines[-1].strip():
        raise ProtocolError(f"{origin} is cut off in the middle of a line: {shortened(lines[-1])}")
    needed: list[tuple[str, str]] = []
    types: dict[str, str] = {}
    samples = 0
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            declared = _TYPE.match(line)
            if declared:
                types[declared[1]] = declared[2]
            continue
        if not line or line.isspace():
            continue
        samples += 1
        name = _NAME.match(line)
        if name is None:
            raise ProtocolError(f"{origin}, line {number}: expected a Prometheus sample, got {shortened(line)}")
        if name[0] in names:
            needed.append((name[0], line))
    if not samples:
        raise ProtocolError(f"{origin} holds no samples ({len(text)} characters); expected Prometheus text")
    exact = {name for name, _ in needed if names[name] == name}
    kept = [(name, line) for name, line in needed if names[name] == name or names[name] not in exact]
    return _parsed(kept, names, origin), _kinds({name for name, _ in kept}, names, types)


def _kinds(found: set[str], names: Mapping[str, str], types: Mapping[str, str]) -> dict[str, str]:
    kinds = {}
    for name in found:
        kind = types.get(name) or types.get(name.removesuffix("_total"))
        if kind is not None:
            kinds[names[name]] = kind
    return kinds


def _parsed(lines: list[tuple[str, str]], names: Mapping[str, str], origin: str) -> dict[Series, float]:
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[Series, float] = {}
    for name, line in lines:
        parts = _SAMPLE.match(line)
        if parts is None:
            raise ProtocolError(f"{origin}: line not understood: {shortened(line)}")
        bare = f"{name}{parts[2] or ''} {parts[3]}\n"  # without timestamp and exemplar
        try:
            parsed = [s for family in text_string_to_metric_families(bare) for s in family.samples]
        except (ValueError, IndexError, KeyError) as error:
            raise ProtocolError(f"{origin}: line not understood ({error}): {shortened(line)}") from None
        for sample in parsed:
            key = (names[name], tuple(sorted(sample.labels.items())))
            if key in found:
                raise ProtocolError(f"{origin}: the same series stands twice: {shortened(line)}")
            found[key] = sample.value
    return found


def shortened(line: str, limit: int = 120) -> str:
    """Return a line for a message."""
    return repr(line if len(line) <= limit else line[:limit] + "…")
