"""Load in tests: ``kv.steps`` keeps levels for a time, ``kv.sustain`` looks for the highest that holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..checks import is_whole
from ..errors import ConfigurationError
from .levels import check_times, check_traffic, levels_of
from .runs import Runs, check_sending
from .sync import run_sync

if TYPE_CHECKING:
    from ..limits.asked import Asked, TokensMetric, TtftMetric
    from ..limits.ladder import Ladder
    from ..limits.steps import Steps
    from ..model import ResetMode
    from ..pace import Arrival, Pace
    from ..protocols import Workload
    from ..result import Result
    from ..speedup import SpeedUp


class Loads(Runs):
    """Measures what an endpoint does under more and more load."""

    def steps(
        self,
        workload: Workload,
        concurrency: Sequence[int] = (),
        *,
        rate: Sequence[float] = (),
        duration: float = 60.0,
        retries: int = 0,
        strict: bool = False,
        max_ttft: float | None = None,
        ttft_metric: TtftMetric = "p95",
        min_tokens_per_req: float | None = None,
        tokens_per_req_metric: TokensMetric = "avg",
        stop_early: bool = False,
        reset: ResetMode | None = None,
        stream: bool = True,
    ) -> Steps:
        """Keep each of several levels for a time, and tell what came out in it.

        The workload is sent once more, with new rests, until the time is over; its prefixes are warmed once. Between
        two levels the server comes to rest.

        Args:
            workload: from ``kv_workload``.
            concurrency: levels of a closed loop: sessions going at once.
            rate: instead: levels of an open loop, sessions that begin per second.
            duration: seconds of each level. Requests begin in this time and are waited for.
            retries: measure each level so many times more, for a mean and a deviation.
            strict: count only requests that began and ended in the time; else tokens count when they came out.
            max_ttft / ttft_metric / min_tokens_per_req / tokens_per_req_metric: thresholds, as of :meth:`sustain`;
                they are told (``step.held``, ``steps.best``) and fail nothing.
            stop_early: measure no level behind one that broke them.
            reset / stream: as for :meth:`~pytest_kvcache.Runner.run`.

        Raises:
            KVCacheError: nothing could be measured; the message says why and what to do.
        """
        started = self.asteps(
            workload,
            concurrency,
            rate=rate,
            duration=duration,
            retries=retries,
            strict=strict,
            max_ttft=max_ttft,
            ttft_metric=ttft_metric,
            min_tokens_per_req=min_tokens_per_req,
            tokens_per_req_metric=tokens_per_req_metric,
            stop_early=stop_early,
            reset=reset,
            stream=stream,
        )
        return run_sync(started, "await kv.asteps(...)")

    async def asteps(
        self,
        workload: Workload,
        concurrency: Sequence[int] = (),
        *,
        rate: Sequence[float] = (),
        duration: float = 60.0,
        retries: int = 0,
        strict: bool = False,
        max_ttft: float | None = None,
        ttft_metric: TtftMetric = "p95",
        min_tokens_per_req: float | None = None,
        tokens_per_req_metric: TokensMetric = "avg",
        stop_early: bool = False,
        reset: ResetMode | None = None,
        stream: bool = True,
    ) -> Steps:
        """Do what :meth:`steps` does, in an async test."""
        from ..limits.asked import of_concurrency
        from ..limits.steps import Steps, measure_steps
        from ..pace import Pace

        self._state.refuse_in_block("kv.steps")
        check_sending("steps", retries, reset)
        check_traffic("steps", workload, stream=stream, timed={"max_ttft": max_ttft})
        levels = levels_of(concurrency, rate, duration)
        asked = None
        if max_ttft is not None or min_tokens_per_req is not None:
            asked = of_concurrency(max_ttft, ttft_metric, min_tokens_per_req, tokens_per_req_metric, what="steps")
        elif stop_early:
            raise ConfigurationError("kv.steps(stop_early=True): at what? Give max_ttft= or min_tokens_per_req=")
        how = {"repeats": 1 + retries, "strict": strict, "asked": asked, "stop_early": stop_early}
        plan = self._plan(Pace(), reset=reset, stream=stream)
        arguments = {"levels": levels, "duration": duration, **how}
        async with self._bench("steps", workload, plan, arguments) as bench:
            progress = self._progress.load if self._progress is not None else None
            measured = await measure_steps(
                bench,
                levels,
                duration,
                repeats=1 + retries,
                strict=strict,
                stop=asked if stop_early else None,
                told=progress,
            )
        return Steps(measured, self._state.expectation, asked)

    def sustain(
        self,
        workload: Workload,
        max_ttft: float | None = 2.0,
        *,
        ttft_metric: TtftMetric = "p95",
        min_tokens_per_req: float | None = None,
        tokens_per_req_metric: TokensMetric = "avg",
        duration: float = 300.0,
        assessment: float = 30.0,
        start: int = 2,
        step: int = 2,
        limit: int = 1000,
        reset: ResetMode | None = None,
        stream: bool = True,
    ) -> Result:
        """Look for the highest concurrency that holds a service level over whole assessment periods.

        The load goes on while its concurrency is turned up, faster while there is headroom, and down after a breach or
        when throughput collapses. ``result.limit`` tells where the limit lies and how sure that is, ``result.stretch``
        what came out there.

        Args:
            workload: from ``kv_workload``; it is sent again, with new rests, as long as the search lasts.
            max_ttft: seconds until the first token; None: any.
            ttft_metric: of the requests of a period: ``p95``, ``avg`` or ``max``.
            min_tokens_per_req: tokens per second that a request has to get; None: any.
            tokens_per_req_metric: of the requests of a period: ``avg``, ``p5`` or ``p10``.
            duration: seconds of the whole search at most.
            assessment: seconds of a period. A level counts from when every request that was in flight at its beginning
                has ended.
            start / step / limit: sessions going at once: the lowest, the difference of two levels, and the highest.
            reset / stream: as for :meth:`~pytest_kvcache.Runner.run`.

        Raises:
            KVCacheError: nothing could be measured; the message says why and what to do.
        """
        started = self.asustain(
            workload,
            max_ttft,
            ttft_metric=ttft_metric,
            min_tokens_per_req=min_tokens_per_req,
            tokens_per_req_metric=tokens_per_req_metric,
            duration=duration,
            assessment=assessment,
            start=start,
            step=step,
            limit=limit,
            reset=reset,
            stream=stream,
        )
        return run_sync(started, "await kv.asustain(...)")

    async def asustain(
        self,
        workload: Workload,
        max_ttft: float | None = 2.0,
        *,
        ttft_metric: TtftMetric = "p95",
        min_tokens_per_req: float | None = None,
        tokens_per_req_metric: TokensMetric = "avg",
        duration: float = 300.0,
        assessment: float = 30.0,
        start: int = 2,
        step: int = 2,
        limit: int = 1000,
        reset: ResetMode | None = None,
        stream: bool = True,
    ) -> Result:
        """Do what :meth:`sustain` does, in an async test."""
        from ..limits.asked import of_concurrency
        from ..limits.ladder import Ladder
        from ..pace import Pace

        check_traffic("sustain", workload, stream=stream, timed={"max_ttft": max_ttft})
        ladder = Ladder.of_concurrency(start, step, limit)
        asked = of_concurrency(max_ttft, ttft_metric, min_tokens_per_req, tokens_per_req_metric)
        pace = Pace(ladder[0].concurrency)
        what = "sustain"
        return await self._search(what, workload, pace, ladder, asked, duration, assessment, reset=reset, stream=stream)

    def sustain_rate(
        self,
        workload: Workload,
        max_ttft: float | None = None,
        *,
        max_tpot: float | None = None,
        max_e2e: float | None = None,
        attainment: float = 0.95,
        duration: float = 300.0,
        assessment: float = 30.0,
        start: float = 1.0,
        step: float = 0.1,
        limit: float = 1000.0,
        arrival: Arrival = "poisson",
        reset: ResetMode | None = None,
        stream: bool = True,
    ) -> Result:
        """Look for the highest request rate at which enough requests meet every limit: the goodput of the endpoint.

        As :meth:`sustain`, in an open loop: sessions begin when they are due, whether or not the server keeps up, and
        latencies count from then.

        Args:
            workload: from ``kv_workload``.
            max_ttft / max_tpot / max_e2e: seconds, of every request; None: any.
            attainment: share of the requests that has to meet all of them.
            duration / assessment: as of :meth:`sustain`.
            start / step / limit: sessions per second: the lowest rate, by which part each level is above the one below,
                and the highest.
            arrival: ``poisson`` or ``constant`` gaps between sessions.
            reset / stream: as for :meth:`~pytest_kvcache.Runner.run`.

        Raises:
            KVCacheError: nothing could be measured; the message says why and what to do.
        """
        started = self.asustain_rate(
            workload,
            max_ttft,
            max_tpot=max_tpot,
            max_e2e=max_e2e,
            attainment=attainment,
            duration=duration,
            assessment=assessment,
            start=start,
            step=step,
            limit=limit,
            arrival=arrival,
            reset=reset,
            stream=stream,
        )
        return run_sync(started, "await kv.asustain_rate(...)")

    async def asustain_rate(
        self,
        workload: Workload,
        max_ttft: float | None = None,
        *,
        max_tpot: float | None = None,
        max_e2e: float | None = None,
        attainment: float = 0.95,
        duration: float = 300.0,
        assessment: float = 30.0,
        start: float = 1.0,
        step: float = 0.1,
        limit: float = 1000.0,
        arrival: Arrival = "poisson",
        reset: ResetMode | None = None,
        stream: bool = True,
    ) -> Result:
        """Do what :meth:`sustain_rate` does, in an async test."""
        from ..limits.asked import of_rate
        from ..limits.ladder import Ladder
        from ..pace import Pace

        timed = {"max_ttft": max_ttft, "max_tpot": max_tpot}
        check_traffic("sustain_rate", workload, stream=stream, timed=timed)
        ladder, asked = Ladder.of_rate(start, step, limit), of_rate(max_ttft, max_tpot, max_e2e, attainment)
        if arrival not in ("poisson", "constant"):
            raise ConfigurationError(f"kv.sustain_rate(arrival={arrival!r}): expected 'poisson' or 'constant'")
        pace = Pace(None, ladder[0].rate, arrival)
        what = "sustain_rate"
        return await self._search(what, workload, pace, ladder, asked, duration, assessment, reset=reset, stream=stream)

    async def _search(
        self,
        what: str,
        workload: Workload,
        pace: Pace,
        ladder: Ladder,
        asked: Asked,
        duration: float,
        assessment: float,
        *,
        reset: ResetMode | None,
        stream: bool,
    ) -> Result:
        from ..limits.controller import Controller
        from ..limits.searching import Searching
        from ..result import Result
        from ..workloads.lasting import Lasting

        self._state.refuse_in_block(f"kv.{what}")
        check_sending(what, 0, reset)
        check_times(what, duration, assessment)
        plan = self._plan(pace, reset=reset, stream=stream)
        arguments = {"ladder": ladder, "asked": asked, "duration": duration, "assessment": assessment}
        async with self._bench(what, workload, plan, arguments) as bench:
            controller = Controller(ladder, asked, assessment=assessment, duration=duration)
            progress = self._progress.load if self._progress is not None else None
            searching = Searching(controller, assessment, duration, asked.each, progress)
            measured = await bench.measure(Lasting(bench.composed), plan.pace, searching)
        return Result(measured, self._state.expectation)

    def speedup(
        self,
        workload: Workload,
        *,
        concurrency: int = 1,
        reset: ResetMode | None = None,
        settle: float = 0.0,
    ) -> SpeedUp:
        """Measure the same prompts cold and warm. The test's ``kv_speedup`` marker judges the two.

        Cold, each has a cache of its own: by a salt where the engine has one; elsewhere its prompts have the same
        lengths and share nothing. What the test's other markers judge is the warm run.

        Args:
            workload: from ``kv_workload``.
            concurrency: sessions going at once; with 1 nobody waits for anybody else's prefill.
            reset / settle: as for :meth:`~pytest_kvcache.Runner.run`.

        Raises:
            KVCacheError: nothing could be measured; the message says why and what to do.
        """
        started = self.aspeedup(workload, concurrency=concurrency, reset=reset, settle=settle)
        return run_sync(started, "await kv.aspeedup(...)")

    async def aspeedup(
        self,
        workload: Workload,
        *,
        concurrency: int = 1,
        reset: ResetMode | None = None,
        settle: float = 0.0,
    ) -> SpeedUp:
        """Do what :meth:`speedup` does, in an async test."""
        from ..pace import Pace
        from ..speedup import measure_speedup, speedup_of

        self._state.refuse_in_block("kv.speedup")
        check_sending("speedup", 0, reset, settle)
        if not is_whole(concurrency, 1):
            raise ConfigurationError(f"kv.speedup(concurrency={concurrency!r}): expected at least 1 session at a time")
        plan = self._plan(Pace(concurrency), reset=reset, stream=True, settle=settle)
        async with self._bench("speedup", workload, plan) as bench:
            pair = await measure_speedup(bench, plan.pace)
        self._state.speedups.append(pair)
        return speedup_of(pair, self._state.expectation)
