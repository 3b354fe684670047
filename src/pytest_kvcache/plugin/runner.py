"""The objects that fixtures hand out: ``kv`` runs workloads, ``kv_metrics`` reads counters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ..endpoint import Endpoint
from ..errors import ConfigurationError, MeasurementError
from .progress import Progress
from .settings import Settings
from .sync import run_sync

if TYPE_CHECKING:
    from ..model import Measurement, ResetMode
    from ..pace import Arrival
    from ..protocols import Workload
    from ..result import Result
    from ..scrape import Snapshot
    from .probing import AsyncProbes, Probes
    from .state import TestState


class Runner:
    """Runs workloads against the endpoint and measures what the cache reused.

    Every measured run of a test is judged together by its ``hit_rate`` marker when the test body has ended.
    """

    def __init__(self, endpoint: Endpoint, settings: Settings, state: TestState, item: pytest.Item) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._state = state
        self._item = item

    def run(
        self,
        workload: Workload,
        *,
        concurrency: int | None = None,
        rate: float | None = None,
        arrival: Arrival = "poisson",
        ramp: float = 0.0,
        sessions: int | None = None,
        retries: int = 0,
        reset: ResetMode | None = None,
        settle: float = 0.0,
        stream: bool = True,
    ) -> Result:
        """Send a workload and measure it: reset if asked, prefill, snapshot, load, settle, snapshot.

        Args:
            workload: from ``kv_workload``.
            concurrency: sessions going at once, each with one request in flight; a request that belongs to no
                conversation is a session of its own. Default ``--kv-concurrency``; with ``rate``: no limit.
            rate: sessions that begin per second, whether or not the server keeps up (open loop). Latencies then count
                from the moment at which a request was due.
            arrival: ``poisson`` or ``constant`` gaps between them.
            ramp: seconds over which the rate, or without one the concurrency, rises to what was asked.
            sessions: conversations, instead of those that the workload was built with.
            retries: how often a request is tried again that failed for the moment (429, 503, no connection), after the
                time that the server asks for. Retried requests are told, because they find what they computed before.
            reset: empty the cache first: ``never``, ``auto`` or ``require``; default: the test's ``kv_reset`` marker,
                else ``--kv-reset``.
            settle: seconds that a cache may need until what was just computed can be read (hosted ones: up to 30): the
                last prefill request is repeated until it is read from the cache, at most so long.
            stream: ask for event streams; without, there is no time to first token.

        Raises:
            KVCacheError: nothing could be measured; the message says why and what to do.
        """
        started = self.arun(
            workload,
            concurrency=concurrency,
            rate=rate,
            arrival=arrival,
            ramp=ramp,
            sessions=sessions,
            retries=retries,
            reset=reset,
            settle=settle,
            stream=stream,
        )
        return run_sync(started, "await kv.arun(...)")

    async def arun(
        self,
        workload: Workload,
        *,
        concurrency: int | None = None,
        rate: float | None = None,
        arrival: Arrival = "poisson",
        ramp: float = 0.0,
        sessions: int | None = None,
        retries: int = 0,
        reset: ResetMode | None = None,
        settle: float = 0.0,
        stream: bool = True,
    ) -> Result:
        """Do what :meth:`run` does, in an async test."""
        from .. import experiment
        from ..pace import Pace
        from ..result import Result
        from .lock import aendpoint_lock

        self._state.refuse_in_block("kv.run")
        _check_pace(concurrency, rate, arrival, ramp, retries, settle)
        _check_reset(reset)
        nonce = self._state.next_nonce()
        limit = concurrency if concurrency is not None or rate is not None else self._settings.concurrency
        plan = experiment.Plan(
            nonce=nonce,
            pace=Pace(limit, rate, arrival, ramp, nonce),
            retries=retries,
            reset=reset or self._state.reset or self._settings.reset,
            settle=settle,
            stream=stream,
            counters=self._state.wants_counters,
            tokenizer=self._settings.tokenizer,
            usage_prompt=self._settings.usage_prompt,
            usage_absent=self._settings.usage_absent,
            sample_interval=self._settings.sample_interval,
            series=self._state.series,
            warm=self._state.warm_at(self._endpoint.base),
            grain=self._state.grain_at(self._endpoint),
        )
        if sessions is not None:
            workload = _of_sessions(workload, sessions)
        progress = Progress.of(self._item.config, self._item.name)
        try:
            async with aendpoint_lock(self._endpoint.base):
                measurement = await experiment.run(
                    self._endpoint, workload, plan, progress=progress, keep=self._state.measurements.append
                )
        finally:
            if progress is not None:
                progress.close()
        return Result(measurement, self._state.expectation)

    @property
    def probe(self) -> Probes:
        """Find out from outside how the cache behaves: ``kv.probe.granularity()``, ``.isolation()`` and others."""
        from .probing import Probes

        return Probes(self._endpoint, self._settings, self._state)

    @property
    def aprobe(self) -> AsyncProbes:
        """The same in an async test: ``await kv.aprobe.granularity()``."""
        from .probing import AsyncProbes

        return AsyncProbes(self._endpoint, self._settings, self._state)

    def measure(self) -> Measured:
        """Measure traffic of your own: ``with kv.measure() as m: ...`` or ``async with kv.measure() as m: ...``.

        ``m.result`` is there when the block has ended.
        """
        return Measured(self._endpoint, self._state)


def _check_pace(
    concurrency: int | None, rate: float | None, arrival: str, ramp: float, retries: int, settle: float
) -> None:
    if concurrency is not None and concurrency < 1:
        raise ConfigurationError(f"kv.run(concurrency={concurrency}): expected at least 1 session at a time")
    if rate is not None and not 0 < rate < float("inf"):
        raise ConfigurationError(f"kv.run(rate={rate}): expected sessions per second, above 0")
    if arrival not in ("poisson", "constant"):
        raise ConfigurationError(f"kv.run(arrival={arrival!r}): expected 'poisson' or 'constant'")
    for name, seconds in {"ramp": ramp, "settle": settle}.items():
        if not 0 <= seconds < float("inf"):
            raise ConfigurationError(f"kv.run({name}={seconds}): expected seconds, 0 or more")
    if retries < 0:
        raise ConfigurationError(f"kv.run(retries={retries}): expected 0 or more")


def _check_reset(reset: str | None) -> None:
    if reset not in (None, "never", "auto", "require"):
        raise ConfigurationError(f"kv.run(reset={reset!r}): expected 'never', 'auto' or 'require'")


def _of_sessions(workload: Workload, sessions: int) -> Workload:
    from ..workloads.conversation import Conversation

    if not isinstance(workload, Conversation):
        raise ConfigurationError("kv.run(sessions=...): only a conversation has sessions; see kv_workload.conversation")
    return replace(workload, sessions=sessions)


class Measured:
    """A block of traffic that the test sends itself, measured by the server's counters."""

    def __init__(self, endpoint: Endpoint, state: TestState) -> None:
        self._state = state
        self._sync = observed(endpoint, state)
        self._async = aobserved(endpoint, state)
        self._measurement: Measurement | None = None

    @property
    def result(self) -> Result:
        """The measured block.

        Raises:
            MeasurementError: the block has not ended.
        """
        from ..result import Result

        if self._measurement is None:
            raise MeasurementError("kv.measure(): the result is there when the block has ended")
        return Result(self._measurement, self._state.expectation)

    def __enter__(self) -> Measured:
        self._sync.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._sync.__exit__(*error)  # type: ignore[arg-type] # passed through as received
        self._measurement = self._state.measurements[-1]

    async def __aenter__(self) -> Measured:
        await self._async.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._async.__aexit__(*error)  # type: ignore[arg-type] # passed through as received
        self._measurement = self._state.measurements[-1]


@contextmanager
def observed(endpoint: Endpoint, state: TestState, title: str = "own traffic") -> Iterator[None]:
    """Measure everything between entering and leaving by counters, and add the measurement to the test's."""
    from .. import experiment
    from .lock import endpoint_lock

    with state.block(), endpoint_lock(endpoint.base):
        observation = run_sync(experiment.observe(endpoint), "async with kv.measure()")
        try:
            yield
        finally:
            state.measurements.append(run_sync(observation.finish(title), "async with kv.measure()"))


@asynccontextmanager
async def aobserved(endpoint: Endpoint, state: TestState) -> AsyncIterator[None]:
    """Do what :func:`observed` does, in an async test."""
    from .. import experiment
    from .lock import aendpoint_lock

    with state.block():
        async with aendpoint_lock(endpoint.base):
            observation = await experiment.observe(endpoint)
            try:
                yield
            finally:
                state.measurements.append(await observation.finish())


class Sampler:
    """Reads the server's counters at a moment of the test's choosing."""

    def __init__(self, endpoint: Endpoint, state: TestState) -> None:
        self._endpoint = endpoint
        self._state = state

    def snapshot(self) -> Snapshot:
        """Return the samples that the engine's profile reads, now.

        Raises:
            KVCacheError: the page cannot be had or read.
        """
        return run_sync(self.asnapshot(), "await kv_metrics.asnapshot()")

    async def asnapshot(self) -> Snapshot:
        """Do what :meth:`snapshot` does, in an async test."""
        from ..client import Client
        from ..scrape import together
        from ..target import inspect

        async with Client(self._endpoint) as client:
            target = await inspect(client)
            return together(target.first)

    def window(self) -> Measured:
        """Return a measured block, as ``kv.measure()`` does."""
        return Measured(self._endpoint, self._state)
