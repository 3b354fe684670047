"""From one snapshot of the counters to another: wait until the engines are at rest, read, and read again."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from . import scrape
from .client import Client
from .engines import Reader
from .engines.counters import check_same_process, in_flight, query_total, recounted, tokens_by_engine
from .engines.histograms import histograms
from .errors import EndpointError, MeasurementError, NotSettled, ProtocolError
from .histogram import Histogram, merged
from .model import Finding, Measurement, Pressure, Tokens
from .pressure import Sampler, pressure
from .reconcile import Sent, corrected, counted_once, in_tokens, too_few
from .scrape import Snapshot, prometheus
from .target import Target, known_defects

SETTLE_SECONDS = 10.0  # vLLM publishes a step's statistics right after the answer; aborts took up to 0.24 s on 0.32
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.5
NOTHING = Sent(0, 0)


@dataclass(slots=True)
class Window:
    """A measured stretch of time on one endpoint.

    ``open`` raises, because nothing was lost yet; ``close`` turns what goes wrong into findings, because the exchanges
    of the window must survive.

    Attributes:
        before / after: snapshots of every source, in the order of the target's readers; empty without counters.
        started / ended: monotonic seconds.
        findings: what went wrong.
        engines / aside: tokens per engine, those that sum and those that are only shown.
        latency: the engines' own histograms.
        pressure: how hard they had to work; None without counters.
    """

    client: Client
    target: Target
    before: tuple[Snapshot, ...] = ()
    after: tuple[Snapshot, ...] = ()
    started: float = 0.0
    ended: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    engines: dict[str, Tokens] = field(default_factory=dict)
    aside: dict[str, Tokens] = field(default_factory=dict)
    latency: dict[str, Histogram] = field(default_factory=dict)
    pressure: Pressure | None = None

    async def open(self, expected: Sent = NOTHING) -> Finding | None:
        """Take the first snapshots once the engines are at rest.

        Args:
            expected: what must have been looked up since the target was inspected: what was sent to warm the cache must
                not be counted late, inside the window.

        Returns:
            Why measuring is pointless: the counters do not show what was sent. None when they do.

        Raises:
            EndpointError, ProtocolError: a source cannot be had or read.
            NotSettled: requests were running for the whole settle time.
        """
        problem = None
        if self.target.readers:
            readers, first = self.target.readers, self.target.first
            low = lookups_in_unit(readers, expected)
            self.before = await settle(self.client, readers, first, low)
            seen = looked_up(readers, first, self.before) + _printed_error(readers, first, self.before)
            problem = too_few(seen, low)
        self.started = time.monotonic()
        return problem

    async def close(
        self, expected: Sent = NOTHING, *, own_traffic: bool = True, sampler: Sampler | None = None
    ) -> None:
        """Take the last snapshots once the engines are at rest and the counters cover what was sent.

        Args:
            expected: what was sent in the window.
            own_traffic: False when that is not known.
            sampler: what it saw during the load becomes part of the pressure.
        """
        self.ended = time.monotonic()
        if not self.before:
            return
        readers = self.target.readers
        try:
            self.after = await settle(self.client, readers, self.before, lookups_in_unit(readers, expected))
            self._count(expected, own_traffic, sampler)
        except MeasurementError as error:
            self.findings.append(Finding(error.code, str(error)))
        except (EndpointError, ProtocolError) as error:
            self.findings.append(Finding("KV117", f"the counters could not be read at the end: {error}"))

    def _count(self, expected: Sent, own_traffic: bool, sampler: Sampler | None) -> None:
        engines: dict[str, Tokens] = {}
        once: dict[str, Tokens] = {}
        parts: dict[str, list[Histogram]] = {}
        for reader, before, after in zip(self.target.readers, self.before, self.after, strict=True):
            found = tokens_by_engine(reader, before, after)
            (self.aside if reader.aside else engines).update(found)
            moved = {tier for tokens in found.values() for tier, hits in tokens.hits.items() if hits}
            self.findings += [defect for tier in sorted(moved) for defect in known_defects(reader, tier)]
            if not reader.aside:
                once.update(recounted(reader, before, after))
                for name, histogram in histograms(reader, before, after).items():
                    parts.setdefault(name, []).append(histogram)
        self.pressure = pressure(self.target.readers, self.before, self.after, sampler)
        self.latency = {name: whole for name, found in parts.items() if (whole := merged(found)) is not None}
        self.engines = self._understood(engines, once, expected, own_traffic)

    def _understood(
        self, engines: dict[str, Tokens], once: dict[str, Tokens], expected: Sent, own_traffic: bool
    ) -> dict[str, Tokens]:
        if self.target.facts.unit == "blocks":
            if not own_traffic:
                self.findings.append(
                    Finding("KV101", "the counters count blocks, and whose prompts they were of is not known here")
                )
                return {}
            converted = in_tokens(engines, self.target.facts.block_size, expected)
            if isinstance(converted, Finding):
                self.findings.append(converted)
                return {}
            return dict(converted)
        counted, finding = (
            corrected(engines, once, expected)
            if own_traffic
            else counted_once(engines, once, repeats=self.target.facts.counted == "lookup")
        )
        if finding is not None:
            self.findings.append(finding)
        return dict(counted)


def looked_up(readers: Sequence[Reader], before: Sequence[Snapshot], after: Sequence[Snapshot]) -> int:
    """Return what the engines that sum looked up between two snapshots, in the unit that they count.

    Raises:
        CounterMissing, CounterReset, ProtocolError: a source cannot be used.
    """
    return sum(query_total(r, b, a) for r, b, a in zip(readers, before, after, strict=True) if not r.aside)


def lookups_in_unit(readers: Sequence[Reader], expected: Sent) -> int:
    """Return the least that the counters must show for what was sent."""
    if any(reader.variant is not None and reader.variant.unit == "blocks" for reader in readers):
        size = next((reader.block_size for reader in readers if reader.block_size), None)
        return sum((length - 1) // size for length in expected.lengths) if size else 0
    return expected.low


async def settle(
    client: Client, readers: Sequence[Reader], since: Sequence[Snapshot], low: int
) -> tuple[Snapshot, ...]:
    """Return snapshots of engines at rest: nothing runs or waits, and two reads agree.

    Args:
        client: open.
        readers: how each source is read.
        since: earlier snapshots of them.
        low: what must have been looked up since then. When the counters stop short of it the last snapshots are
            returned all the same: the shortfall is the caller's finding.

    Raises:
        NotSettled: still moving when the settle time was over.
        EndpointError, ProtocolError, CounterReset, CounterMissing: a source cannot be had or used.
    """
    deadline = time.monotonic() + SETTLE_SECONDS + await _patience(client, readers)
    fresh = await _moments(client, readers)
    previous: Sequence[Snapshot] = ()
    pause = _FIRST_PAUSE
    while True:
        snapshots = await _fetch(client, readers, previous or since)
        busy = 0
        for reader, earlier, snapshot in zip(readers, since, snapshots, strict=True):
            check_same_process(reader, earlier, snapshot)
            busy += in_flight(reader, snapshot) or 0
        error = _printed_error(readers, since, snapshots)
        covered = looked_up(readers, since, snapshots) + error >= low
        new = all(s.taken is None or s.taken > moment for s, moment in zip(snapshots, fresh, strict=True))
        still = bool(previous) and all(map(_agree, readers, previous, snapshots))
        if new and still and not busy and covered:
            return snapshots
        if time.monotonic() > deadline:
            if new and still and not busy:
                return snapshots
            _give_up(snapshots, busy, new)
        if new:
            previous, fresh = snapshots, await _moments(client, readers)  # the same scrape is no second opinion
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _fetch(client: Client, readers: Sequence[Reader], last: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    fetches = (
        scrape.fetch(client, reader.source, reader.profile.samples(), last=earlier)
        for reader, earlier in zip(readers, last, strict=True)
    )
    return tuple(await asyncio.gather(*fetches))


async def _patience(client: Client, readers: Sequence[Reader]) -> float:
    """Return how much longer settling may take where counters come through a Prometheus server.

    One scrape may have begun before, one shows rest, one agrees.

    Raises:
        EndpointError: it scrapes too rarely to see the ends of a window.
    """
    intervals = [
        await prometheus.check_interval(client, reader.source, reader.profile.samples())
        for reader in readers
        if reader.source.kind == "prometheus"
    ]
    return 3 * max(intervals, default=0.0)


async def _moments(client: Client, readers: Sequence[Reader]) -> list[float]:
    """Return, for each source, the moment on its own clock after which its numbers are new."""
    return [
        await prometheus.now(client, reader.source) if reader.source.kind == "prometheus" else 0.0 for reader in readers
    ]


def _printed_error(readers: Sequence[Reader], since: Sequence[Snapshot], snapshots: Sequence[Snapshot]) -> int:
    return sum(
        tokens.query_error
        for reader, before, after in zip(readers, since, snapshots, strict=True)
        if reader.variant is not None and reader.variant.digits is not None
        for tokens in tokens_by_engine(reader, before, after).values()
    )


def _agree(reader: Reader, left: Snapshot, right: Snapshot) -> bool:
    probes = reader.profile.lookups.probe_tokens * (1 + math.ceil(right.at - left.at))  # an engine that asks itself
    return all(
        right.series(name).keys() == left.series(name).keys()
        and 0 <= sum(right.series(name).values()) - sum(left.series(name).values()) <= probes
        for name in {s.sample for s in (reader.variant.selectors() if reader.variant is not None else ())}
    )


def _give_up(snapshots: Sequence[Snapshot], busy: int, new: bool) -> None:
    where = ", ".join(snapshot.origin for snapshot in snapshots)
    if not new:
        state = "no new scrape arrived"
    else:
        state = f"{busy} requests still run or wait" if busy else "the counters still move"
    raise NotSettled(f"{where}: {state} after {SETTLE_SECONDS:g} s; is another client using the server?")


def with_window(measured: Measurement, window: Window) -> Measurement:
    """Return a measurement with what a window saw."""
    return replace(
        measured,
        engines=window.engines,
        aside=window.aside,
        disaggregated=window.target.disaggregated,
        pressure=window.pressure,
        server_latency=window.latency,
        findings=(*window.findings, *measured.findings),
        started=window.started,
        ended=window.ended or max((e.end for e in measured.exchanges), default=window.started),
    )
