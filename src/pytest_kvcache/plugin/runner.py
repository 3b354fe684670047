"""The object of the fixture ``kv``: it runs workloads and replays traces."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..checks import is_number, is_whole
from ..errors import ConfigurationError
from .levels import keeps_a_clock
from .loads import Loads
from .observing import Measured
from .runs import check_sending
from .sync import run_sync

if TYPE_CHECKING:
    from ..model import ResetMode
    from ..pace import Arrival
    from ..protocols import Workload
    from ..result import Result
    from ..traces import Trace
    from ..workloads.wording import Send
    from .probing import AsyncProbes, Probes


class Runner(Loads):
    """Runs workloads against the endpoint and measures what the cache reused.

    Every measured run of a test is judged together by its ``hit_rate`` marker when the test body has ended.
    """

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
                conversation is a session of its own. Default ``--kv-concurrency``; with ``rate`` or a trace's clock: no
                limit.
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
                last prefill request is repeated until it is read from the cache, at most so long. What warms nothing
                first is not waited for: between the turns of a conversation ``think_time`` is.
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
        from ..pace import Pace

        self._state.refuse_in_block("kv.run")
        _check_pace(concurrency, rate, arrival, ramp)
        check_sending("run", retries, reset, settle)
        limit = concurrency
        if limit is None and rate is None and not keeps_a_clock(workload):
            limit = self._settings.concurrency
        if sessions is not None:
            workload = _of_sessions(workload, sessions)
        pace = Pace(limit, rate, arrival, ramp)
        return await self._measure("run", workload, pace, retries=retries, reset=reset, settle=settle, stream=stream)

    def replay(
        self,
        trace: Trace,
        *,
        speed: float = 1.0,
        users: int | None = None,
        concurrency: int | None = None,
        max_span: float = 86_400.0,
        output_len: int | None = None,
        send: Send = "auto",
        seed: int | None = None,
        retries: int = 0,
        reset: ResetMode | None = None,
        stream: bool = True,
    ) -> Result:
        """Send the requests of a trace when it says, as long as it says, sharing what it says, and measure them.

        What is sent is chosen on the trace: ``trace.first(200)``, ``.between(0, 600)``, ``.sampled(0.1)``,
        ``.scaled(16)``. ``result.arrival`` tells how well the schedule was kept.

        Args:
            trace: from ``kv_trace``.
            speed: so many times faster than it was recorded.
            users: leave the trace's clock out: so many sessions at once, each request after the answer to the one
                before it; with 1 all requests follow one another in the order of the trace.
            concurrency: sessions going at once at most; who finds no place is sent later than it is due. None: no
                limit.
            max_span: seconds that the replay may take, a day: a clock in the wrong unit makes it 1,000 times as long.
            output_len: generated tokens of each request; None: as the trace says, and 1 where it says 0 or nothing.
            send: as for ``kv_workload.shared_prefix``.
            seed: makes these prompts the same in every run of every test.
            retries / reset / stream: as for :meth:`run`.

        Raises:
            KVCacheError: it would take too long, contradicts itself, or nothing could be measured; the message says
                why and what to do.
        """
        started = self.areplay(
            trace,
            speed=speed,
            users=users,
            concurrency=concurrency,
            max_span=max_span,
            output_len=output_len,
            send=send,
            seed=seed,
            retries=retries,
            reset=reset,
            stream=stream,
        )
        return run_sync(started, "await kv.areplay(...)")

    async def areplay(
        self,
        trace: Trace,
        *,
        speed: float = 1.0,
        users: int | None = None,
        concurrency: int | None = None,
        max_span: float = 86_400.0,
        output_len: int | None = None,
        send: Send = "auto",
        seed: int | None = None,
        retries: int = 0,
        reset: ResetMode | None = None,
        stream: bool = True,
    ) -> Result:
        """Do what :meth:`replay` does, in an async test."""
        from .replaying import replayed

        self._state.refuse_in_block("kv.replay")
        check_sending("replay", retries, reset)
        workload, pace = replayed(
            trace,
            speed=speed,
            users=users,
            concurrency=concurrency,
            max_span=max_span,
            output_len=output_len,
            send=send,
            seed=seed,
        )
        return await self._measure("replay", workload, pace, retries=retries, reset=reset, stream=stream)

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

    @staticmethod
    def rates(low: float = 0.0, high: float = 1.0, step: float = 0.05) -> list[float]:
        """Return hit rates from ``low`` to ``high``, both included; for parametrised tests: ``pytest_kvcache.rates``.

        Raises:
            ConfigurationError: these are no rates.
        """
        from ..workloads.rates import rates

        return rates(low, high, step)

    def measure(self) -> Measured:
        """Measure traffic of your own: ``with kv.measure() as m: ...`` or ``async with kv.measure() as m: ...``.

        ``m.result`` is there when the block has ended.
        """
        return Measured(self._endpoint, self._state)


def _check_pace(concurrency: int | None, rate: float | None, arrival: str, ramp: float) -> None:
    if concurrency is not None and not is_whole(concurrency, 1):
        raise ConfigurationError(f"kv.run(concurrency={concurrency!r}): expected at least 1 session at a time")
    if rate is not None and not (is_number(rate) and rate > 0):
        raise ConfigurationError(f"kv.run(rate={rate!r}): expected sessions per second, above 0")
    if arrival not in ("poisson", "constant"):
        raise ConfigurationError(f"kv.run(arrival={arrival!r}): expected 'poisson' or 'constant'")
    if not is_number(ramp):
        raise ConfigurationError(f"kv.run(ramp={ramp!r}): expected seconds, 0 or more")


def _of_sessions(workload: Workload, sessions: int) -> Workload:
    from ..workloads.conversation import Conversation

    if not isinstance(workload, Conversation):
        raise ConfigurationError("kv.run(sessions=...): only a conversation has sessions; see kv_workload.conversation")
    return replace(workload, sessions=sessions)
