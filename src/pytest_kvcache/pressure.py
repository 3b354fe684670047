"""How hard the engines had to work: gauges sampled during the load, counters of pressure over the window."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from . import scrape
from .engines.counting import Selector
from .engines.reader import Reader
from .engines.rules import Events
from .errors import CounterMissing, ProtocolError
from .model import Pressure
from .scrape import Snapshot

if TYPE_CHECKING:
    from .client import Client

_Number = TypeVar("_Number", int, float)
SCRAPE_SECONDS = 5.0  # a page that takes longer is a missed sample; the end of the load waits no longer for it


class Sampler:
    """Scrapes the gauges while a load runs, in the run's own event loop: ``async with Sampler(...) as sampler``.

    One sample is taken as the load begins, one every ``interval`` seconds, and one when it is over. Nothing that goes
    wrong with a scrape ends the load: the sample is missed, never zero. A block that is left by an error or a
    cancellation takes no last sample. No task outlives the block.

    Left alone are engines whose tokens are not summed either (:attr:`Reader.aside`), those without gauges, and pages of
    statistics that are drained by reading, because the counters need what is on them.

    Args:
        client: open, for as long as the block.
        readers: the sources.
        interval: seconds between two samples; None or 0: off.

    Attributes:
        kv_usage_peak: highest share of the cache in use, 0..1, of the fullest engine; None when none tells.
        running_peak / waiting_peak: most requests at one time over all engines that tell; None when none does.
        samples / missed: scrapes that were had, and that failed. One sample is one scrape of every source.
    """

    def __init__(self, client: Client, readers: Iterable[Reader], interval: float | None) -> None:
        self._client = client
        self._readers = (
            [r for r in readers if not r.aside and not r.profile.json_page and _names(r)] if interval else []
        )
        self._interval = interval or 0.0
        self._over = asyncio.Event()
        self._broken = False
        self._task: asyncio.Task[None] | None = None
        self.kv_usage_peak: float | None = None
        self.running_peak: int | None = None
        self.waiting_peak: int | None = None
        self.samples = 0
        self.missed = 0

    async def __aenter__(self) -> Sampler:
        if self._readers:
            self._task = asyncio.ensure_future(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._task is None:
            return
        self._broken = kind is not None
        self._over.set()  # also when broken: before Python 3.12 wait_for may swallow a cancellation
        if self._broken:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        else:
            await self._task

    async def _watch(self) -> None:
        await self._sample()
        last = False
        while not last:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._over.wait(), self._interval)
            if self._broken:
                return
            last = self._over.is_set()
            await self._sample()

    async def _sample(self) -> None:
        try:
            pages = await asyncio.wait_for(self._scrape(), SCRAPE_SECONDS)
            running = _total(pages, lambda reader: reader.profile.gauges.running)
            waiting = _total(pages, lambda reader: reader.profile.gauges.waiting)
            usage = _fullest(pages)
        except Exception:  # whatever it is, the load goes on
            self.missed += 1
            return
        self.samples += 1
        self.running_peak = _peak(self.running_peak, running)
        self.waiting_peak = _peak(self.waiting_peak, waiting)
        self.kv_usage_peak = _peak(self.kv_usage_peak, usage)

    async def _scrape(self) -> list[tuple[Reader, Snapshot]]:
        fetches = (scrape.fetch(self._client, r.source, _names(r)) for r in self._readers)
        pages: list[tuple[Reader, Snapshot]] = []
        for reader, page in zip(self._readers, await asyncio.gather(*fetches, return_exceptions=True), strict=True):
            if isinstance(page, BaseException):  # only now, when no other fetch is left behind
                raise page
            pages.append((reader, page))
        return pages


def pressure(
    readers: Sequence[Reader], befores: Sequence[Snapshot], afters: Sequence[Snapshot], sampler: Sampler | None = None
) -> Pressure:
    """Return the pressure of a window.

    Args:
        readers: the sources; those whose tokens are not summed are left alone.
        befores / afters: their snapshots, in the same order.
        sampler: None when nothing was sampled.

    Raises:
        CounterReset: a counter fell: the engine restarted, and no other counter of the window holds either.
    """
    windows = [w for w in zip(readers, befores, afters, strict=True) if not w[0].aside]
    return Pressure(
        preemptions=_grown(windows, lambda events: events.preemptions),
        evictions=_grown(windows, lambda events: events.evictions),
        kv_usage_peak=sampler.kv_usage_peak if sampler else None,
        running_peak=sampler.running_peak if sampler else None,
        waiting_peak=sampler.waiting_peak if sampler else None,
        samples=sampler.samples if sampler else 0,
        missed=sampler.missed if sampler else 0,
    )


def _grown(
    windows: Iterable[tuple[Reader, Snapshot, Snapshot]], which: Callable[[Events], Sequence[Selector]]
) -> int | None:
    """Return how much a counter of pressure grew over the engines that have it; None when none has."""
    total: float | None = None
    for reader, before, after in windows:
        there = [s for s in which(reader.profile.events) if before.has(s.sample) or after.has(s.sample)]
        try:
            series = reader.grown(there, before, after)
        except (CounterMissing, ProtocolError):  # a gauge of that name has no difference; a value that is no count
            continue
        if there:
            total = (total or 0.0) + sum(series.values())
    return None if total is None else round(total)


def _names(reader: Reader) -> list[str]:
    gauges = reader.profile.gauges
    return [selector.sample for selector in (*gauges.running, *gauges.waiting, *gauges.kv_usage)]


def _total(pages: Iterable[tuple[Reader, Snapshot]], which: Callable[[Reader], Sequence[Selector]]) -> int | None:
    values = [reader.value(which(reader), snapshot) for reader, snapshot in pages]
    told = [sum(by_engine.values()) for by_engine in values if by_engine is not None]
    return round(sum(told)) if told else None


def _fullest(pages: Iterable[tuple[Reader, Snapshot]]) -> float | None:
    # Every series by itself: a share of one engine that is told twice (by ranks, by processes) must not add up.
    shares = [
        value
        for reader, snapshot in pages
        for selector in reader.profile.gauges.kv_usage
        for labels, value in snapshot.series(selector.sample).items()
        if selector.matches(labels)
    ]
    if not all(math.isfinite(share) for share in shares):
        raise ProtocolError("the cache usage is no number")
    return max(shares, default=None)


def _peak(before: _Number | None, now: _Number | None) -> _Number | None:
    return now if before is None or (now is not None and now > before) else before
