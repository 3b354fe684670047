"""Counters out of a Prometheus server that scrapes the engines: raw samples, of one scrape per target.

``increase()`` and ``rate()`` extrapolate to the edges of their range and are never asked for. A range selector in an
instant query gives the samples as they were scraped, each with the time of its scrape, and beside them the target's
``up`` with the same time: Prometheus stores a scrape in one step. So exactly one scrape of every target is taken, and a
series that it did not bring is left out, as it would be missing from the page itself.

What ``Snapshot.taken`` guarantees: **every number was asked of its engine at ``taken`` or later**, on the server's
clock. It is the start of the oldest of the scrapes taken, one per target; Prometheus rounds that down to a millisecond
and never up. Hence:

- ``taken > t`` for a ``t = await now(...)``: everything in the snapshot was read after ``now`` was called, so that it
  shows at least what an engine's page would have shown then.
- Two snapshots with the same ``taken`` may be the same scrapes read twice. A later ``taken`` tells that one target, the
  one that was the oldest, has been scraped again. That all of them have been is certain only when it exceeds what
  ``now`` said after the earlier snapshot.

Of the HTTP API only ``/api/v1/query`` is needed, so servers that speak the same API do too. ``/api/v1/targets`` is
asked for messages and for the interval of a target that was scraped once so far. Measured with Prometheus 2.42.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..endpoint import MetricsSource
from ..errors import EndpointError, ProtocolError
from .prometheus_api import Labels, Row, Server, written
from .snapshot import Series, Snapshot, spellings

if TYPE_CHECKING:
    from ..client import Client

MAX_INTERVAL = 30.0  # seconds between two scrapes
_HISTORY = "5m"  # as long as Prometheus takes a sample for current
_GAPS = 5  # the interval may have been changed: the last ones count
_ABANDONED = 3  # intervals without a scrape: a job that left the configuration keeps its last `up` for 5 minutes
_SLACK = 1.0  # seconds asked for beyond the scrape that is wanted
_MAX_QUERY = 6000  # characters, as written in the URL: proxies take 8 KiB of request line


@dataclass(frozen=True, slots=True)
class _Reading:
    """One scrape of every target that counts.

    Attributes:
        scrapes: when it began, by the labels of the target's ``up``, which every sample of the target carries too.
        samples: what these scrapes brought.
    """

    scrapes: Mapping[Labels, float]
    samples: Mapping[Series, float] = field(repr=False)


async def fetch(client: Client, source: MetricsSource, names: Iterable[str]) -> Snapshot:
    """Return the newest scrape of every target; ``job``, ``instance`` and all other labels are kept.

    Targets that count are those that ``source.match`` selects; without matchers, those that have any of the samples.
    ``Snapshot.kinds`` stays empty, as the server would have to be asked for each name.

    Raises:
        EndpointError: unreachable, refused, no such target, or the last scrape of one failed.
        ProtocolError: not an answer of Prometheus' HTTP API.
    """
    server = Server(client, source)
    reading = await _read(server, source, names)
    return Snapshot(time.monotonic(), reading.samples, server.shown, min(reading.scrapes.values()))


async def now(client: Client, source: MetricsSource) -> float:
    """Return the server's time, seconds, on the clock that stamps its scrapes.

    Raises:
        EndpointError: unreachable or refused.
        ProtocolError: not an answer of Prometheus' HTTP API.
    """
    return await Server(client, source).now()


async def scrape_interval(client: Client, source: MetricsSource, names: Iterable[str] = ()) -> float:
    """Return the seconds between two scrapes of one target; the longest, where targets differ.

    Args:
        client: open.
        source: a Prometheus server.
        names: without matchers, the targets that have any of these samples count; none given: all targets.

    Raises:
        EndpointError: as :func:`fetch`, or a target was scraped once so far and its interval is listed nowhere.
        ProtocolError: as :func:`fetch`.
    """
    return (await _slowest(Server(client, source), source, names))[0]


async def check_interval(client: Client, source: MetricsSource, names: Iterable[str] = ()) -> float:
    """Return :func:`scrape_interval` when the ends of a window can be seen with it.

    Raises:
        EndpointError: it is longer than ``MAX_INTERVAL``; or as :func:`scrape_interval`.
        ProtocolError: as :func:`fetch`.
    """
    server = Server(client, source)
    seconds, target = await _slowest(server, source, names)
    if seconds > MAX_INTERVAL:
        raise EndpointError(
            f"{server.shown} scrapes every {seconds:.3g} s ({written(target)}): the ends of a measured window cannot be"
            f" seen closely enough; at most {MAX_INTERVAL:g} s, or name the engine's own page with --kv-metrics"
        )
    return seconds


async def _slowest(server: Server, source: MetricsSource, names: Iterable[str]) -> tuple[float, Labels]:
    counting = (await _read(server, source, names)).scrapes
    rows = await server.rows(f"{_selector(['up'], source.match)}[{_HISTORY}]", "matrix")
    found: dict[Labels, float | None] = dict.fromkeys(counting)
    found.update((row.labels, _spacing(row)) for row in rows if row.labels in counting)
    if None in found.values():
        listed = {entry.labels: entry.interval for entry in await server.listed()}
        found = {target: seconds or listed.get(target) for target, seconds in found.items()}
    longest = (0.0, frozenset[tuple[str, str]]())
    for target, seconds in found.items():
        if seconds is None:
            raise EndpointError(
                f"{server.shown} has scraped {written(target)} once so far and does not list how often it does;"
                " try again after its next scrape"
            )
        longest = max(longest, (seconds, target), key=lambda pair: pair[0])
    return longest


def _spacing(row: Row) -> float | None:
    starts = [at for at, _ in row.values][-_GAPS - 1 :]
    return median(after - before for before, after in pairwise(starts)) if starts[1:] else None


# --- one scrape per target -------------------------------------------------------------------------------------------


async def _read(server: Server, source: MetricsSource, names: Iterable[str]) -> _Reading:
    at = await server.now()
    # The samples of a target that left a job are in a range for a while yet; an instant vector knows that it is gone.
    alive = await server.rows(f"timestamp({_selector(['up'], source.match)})", "vector", at)
    if not alive:
        what = (
            f" that matches {{{source.match}}} (matchers select by the labels of `up`)" if source.match else " so far"
        )
        raise EndpointError(f"{server.shown} has scraped no target{what}; it knows {await server.known()}")
    oldest = min(alive, key=lambda row: row.value[1])
    age = at - oldest.value[1]
    if age > _ABANDONED * MAX_INTERVAL:
        raise EndpointError(
            f"{server.shown} has not scraped {written(oldest.labels)} for {age:.0f} s; expected a scrape every"
            f" {MAX_INTERVAL:g} s at most; if it is no longer a target, leave it out with matchers"
        )
    wanted = spellings(names, renamed=source.renamed)
    reach = age + _SLACK
    queries = [f"{selector}[{math.ceil(reach * 1000)}ms]" for selector in _selectors(wanted, source.match)]
    answers = [await server.rows(query, "matrix", at) for query in queries]
    ups = _ups(answers)
    for row in alive:
        if len(ups.get(row.labels, ())) < len(answers):
            raise ProtocolError(f"{server.shown} shows no `up` of {written(row.labels)} beside its samples")
    scrapes = {row.labels: min(map(max, ups[row.labels])) for row in alive}
    owned = list(_owned((row for rows in answers for row in rows if row.name in wanted), ups, server))
    holders = {target for target, _ in owned} & scrapes.keys()
    counting = {t: start for t, start in scrapes.items() if source.match or not holders or t in holders}
    down = [target for target, start in counting.items() if not ups[target][0].get(start)]
    if down:
        raise EndpointError(
            f"{server.shown} could not scrape {' and '.join(map(written, down))} the last time (`up` is 0): is the"
            f" engine up? It knows {await server.known()}"
        )
    return _Reading(counting, _samples(owned, counting, wanted, server))


def _ups(answers: list[list[Row]]) -> dict[Labels, list[dict[float, float]]]:
    """Return every target's ``up`` by the start of the scrape, once per answer.

    Several answers may show different scrapes: one that began before their common time may have ended between them. The
    newest that all of them show is the one to take.
    """
    found: dict[Labels, list[dict[float, float]]] = {}
    for rows in answers:
        for row in rows:
            if row.name == "up" and row.values:
                found.setdefault(row.labels, []).append(dict(row.values))
    return found


def _owned(
    rows: Iterable[Row], ups: Mapping[Labels, list[dict[float, float]]], server: Server
) -> Iterator[tuple[Labels, Row]]:
    """Give every series its target: the one whose labels it carries, and of several the most particular."""
    targets = sorted(ups, key=len, reverse=True)
    for row in rows:
        labels = row.labels
        target = next((target for target in targets if target <= labels), None)
        if target is None or not any(at in starts for at, _ in row.values for starts in ups[target]):
            what = "the labels of no target" if target is None else "timestamps of its own, not its scrapes'"
            raise EndpointError(
                f"{server.shown}: {row.name}{{{written(labels)}}} carries {what} (by honor_labels, honor_timestamps or"
                " a push gateway?), so when it was read cannot be told; select others with matchers, or name the"
                " engine's own page with --kv-metrics"
            )
        yield target, row


def _samples(
    owned: list[tuple[Labels, Row]], scrapes: Mapping[Labels, float], names: Mapping[str, str], server: Server
) -> dict[Series, float]:
    """Return what the scrapes brought; a target's exact spelling of a name wins over its others."""
    brought = [(target, row, dict(row.values).get(scrapes[target])) for target, row in owned if target in scrapes]
    exact = {(target, row.name) for target, row, value in brought if value is not None}
    found: dict[Series, float] = {}
    for target, row, value in brought:
        name = names[row.name]
        if value is None or (row.name != name and (target, name) in exact):
            continue
        key = (name, tuple(sorted(row.labels)))
        if key in found:
            raise ProtocolError(f"{server.shown}: the same series stands twice: {row.name}{{{written(row.labels)}}}")
        found[key] = value
    return found


def _selectors(names: Iterable[str], match: str) -> Iterator[str]:
    """Return selectors of all the names that each fit a URL; ``up`` in each tells which scrape its answer shows."""
    chosen = ["up"]
    for name in names:
        if len(chosen) > 1 and len(quote(_selector([*chosen, name], match))) > _MAX_QUERY:
            yield _selector(chosen, match)
            chosen = ["up"]
        chosen.append(name)
    yield _selector(chosen, match)


def _selector(names: list[str], match: str) -> str:
    pattern = json.dumps("|".join(map(re.escape, names)))  # PromQL escapes strings as JSON does
    return f"{{__name__=~{pattern}{',' if match else ''}{match}}}"
