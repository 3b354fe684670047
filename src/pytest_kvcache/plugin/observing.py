"""Traffic that the test sends itself, measured by counters: blocks of it, whole tests, and single looks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ..endpoint import Endpoint
from ..errors import MeasurementError
from .sync import run_sync

if TYPE_CHECKING:
    from ..model import Measurement
    from ..result import Result
    from ..scrape import Snapshot
    from .state import TestState


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
    from .. import observation
    from .lock import endpoint_lock
    from .resuming import measured_before

    with state.block(), endpoint_lock(endpoint.base):
        checked = partial(measured_before, state, endpoint, title)
        seen = run_sync(observation.observe(endpoint, checked), "async with kv.measure()")
        try:
            yield
        finally:
            state.keep(run_sync(seen.finish(title), "async with kv.measure()"))


@asynccontextmanager
async def aobserved(endpoint: Endpoint, state: TestState) -> AsyncIterator[None]:
    """Do what :func:`observed` does, in an async test."""
    from .. import observation
    from .lock import aendpoint_lock
    from .resuming import measured_before

    with state.block():
        async with aendpoint_lock(endpoint.base):
            seen = await observation.observe(endpoint, partial(measured_before, state, endpoint, "own traffic"))
            try:
                yield
            finally:
                state.keep(await seen.finish())


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
