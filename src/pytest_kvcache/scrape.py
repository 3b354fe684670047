"""Metrics pages to numbers: fetch, parse, per-series deltas.

The rules: deltas per series first, sums after; a series that falls is a restart, never clamped; a sample that the
profile needs and the page lacks is an error; a page that is refused, cut, or no metrics page is an error that names the
offending line. ``*_created`` samples can never match, because samples are named in full.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .client import Client
from .endpoint import without_userinfo
from .errors import CounterMissing, CounterReset, EndpointError, ProtocolError

Labels = tuple[tuple[str, str], ...]
Series = tuple[str, Labels]

_SAMPLE_START = re.compile(r"[a-zA-Z_:]")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The needed samples of all pages of an endpoint, at one time.

    Attributes:
        at: monotonic seconds, taken when the last page had arrived.
        samples: value by (sample name, sorted label pairs).
        origin: the pages, for messages.
    """

    at: float
    samples: Mapping[Series, float] = field(repr=False)
    origin: str = ""

    def series(self, name: str, labels: Mapping[str, str] | None = None) -> dict[Labels, float]:
        """Return every series of one sample name whose labels include ``labels``."""
        wanted = set((labels or {}).items())
        return {key[1]: value for key, value in self.samples.items() if key[0] == name and wanted <= set(key[1])}

    def has(self, name: str) -> bool:
        """Tell whether any series of that sample name is on the page."""
        return any(key[0] == name for key in self.samples)

    def total(self, name: str) -> float | None:
        """Return the sum over all series of a sample; None when it is absent."""
        values = [value for key, value in self.samples.items() if key[0] == name]
        return sum(values) if values else None

    def label(self, name: str, label: str) -> list[str]:
        """Return the distinct values that ``label`` takes on a sample, in order of appearance."""
        found = (dict(labels).get(label) for key, labels in self.samples if key == name)
        return list(dict.fromkeys(value for value in found if value is not None))


def parse(text: str, names: Iterable[str], origin: str = "the metrics page") -> dict[Series, float]:
    """Return the samples of a Prometheus text page whose names are in ``names``.

    Only the lines that begin with a needed name go through prometheus-client's parser: a whole page of a real engine
    costs it 7 to 15 ms, the scan 0.1 ms.

    Raises:
        ProtocolError: not a metrics page, cut in the middle of a line, a needed line that does not parse, or a needed
            value that is not finite; the line is shown.
    """
    wanted = tuple(names)
    kept: list[str] = []
    lines = text.split("\n")
    if lines[-1].strip():
        raise ProtocolError(f"{origin} is cut off in the middle of a line: {_shown(lines[-1])}")
    samples = 0
    for number, line in enumerate(lines, 1):
        if line.startswith(wanted):
            kept.append(line)
        if not line or line[0] == "#" or line.isspace():
            continue
        samples += 1
        if not _SAMPLE_START.match(line):
            raise ProtocolError(f"{origin}, line {number}: expected a Prometheus sample, got {_shown(line)}")
    if not samples:
        raise ProtocolError(f"{origin} holds no samples ({len(text)} characters); expected Prometheus text")
    return _parse_lines(kept, frozenset(wanted), origin)


def _parse_lines(lines: list[str], names: frozenset[str], origin: str) -> dict[Series, float]:
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[Series, float] = {}
    for line in lines:
        try:
            parsed = [s for family in text_string_to_metric_families(line + "\n") for s in family.samples]
        except (ValueError, IndexError, KeyError) as error:
            raise ProtocolError(f"{origin}: line not understood ({error}): {_shown(line)}") from None
        for sample in parsed:
            if sample.name not in names:
                continue
            if not math.isfinite(sample.value):
                raise ProtocolError(f"{origin}: {sample.name} is {sample.value}, which is no count: {_shown(line)}")
            key = (sample.name, tuple(sorted(sample.labels.items())))
            if key in found:
                raise ProtocolError(f"{origin}: the same series stands twice: {_shown(line)}")
            found[key] = sample.value
    return found


async def fetch(client: Client, names: Iterable[str]) -> Snapshot:
    """Scrape every page of the client's endpoint.

    Raises:
        EndpointError: a page cannot be had (unreachable, 401, 404, ...).
        ProtocolError: a page is no metrics page.
    """
    needed = tuple(names)
    samples: dict[Series, float] = {}
    urls = client.endpoint.metrics_urls
    for url in urls:
        shown = without_userinfo(url)
        page = (("page", shown),) if len(urls) > 1 else ()  # the same series on two pages are two engines
        for (name, labels), value in parse(await fetch_text(client, url), needed, shown).items():
            samples[name, tuple(sorted(labels + page))] = value
    return Snapshot(time.monotonic(), samples, ", ".join(map(without_userinfo, urls)))


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


def delta(before: Snapshot, after: Snapshot, name: str, labels: Mapping[str, str] | None = None) -> dict[Labels, float]:
    """Return how much each series of a counter grew.

    A series absent at the start counts from zero (engines create some lazily).

    Raises:
        CounterMissing: the sample is on neither page.
        CounterReset: a series fell or vanished.
    """
    first, last = before.series(name, labels), after.series(name, labels)
    if not first and not last:
        raise CounterMissing(f"{after.origin} has no {name}; expected a counter of that name")
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


def _shown(line: str, limit: int = 120) -> str:
    return repr(line if len(line) <= limit else line[:limit] + "…")
