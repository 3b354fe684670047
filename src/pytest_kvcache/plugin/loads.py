"""Load in tests: ``kv.steps`` keeps levels for a time, ``kv.sustain`` looks for the highest that holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import ConfigurationError
from .runs import Runs, check_sending
from .sync import run_sync

if TYPE_CHECKING:
    from ..limits.steps import Steps
    from ..model import Level, ResetMode
    from ..protocols import Workload
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
        reset: ResetMode | None = None,
        stream: bool = True,
    ) -> Steps:
        """Do what :meth:`steps` does, in an async test."""
        from ..limits.steps import Steps, measure_steps
        from ..pace import Pace

        self._state.refuse_in_block("kv.steps")
        check_sending("steps", retries, reset)
        levels = _levels(concurrency, rate, duration)
        plan = self._plan(Pace(), reset=reset, stream=stream)
        async with self._bench(workload, plan) as bench:
            measured = await measure_steps(bench, levels, duration, repeats=1 + retries, strict=strict)
        return Steps(measured, self._state.expectation)

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
        from ..workloads.checks import is_whole

        self._state.refuse_in_block("kv.speedup")
        check_sending("speedup", 0, reset, settle)
        if not is_whole(concurrency, 1):
            raise ConfigurationError(f"kv.speedup(concurrency={concurrency!r}): expected at least 1 session at a time")
        plan = self._plan(Pace(concurrency), reset=reset, stream=True, settle=settle)
        async with self._bench(workload, plan) as bench:
            pair = await measure_speedup(bench, plan.pace)
        self._state.speedups.append(pair)
        return speedup_of(pair, self._state.expectation)


def _levels(concurrency: Sequence[int], rate: Sequence[float], duration: float) -> list[Level]:
    from ..model import Level
    from ..workloads.checks import is_number, is_whole

    if bool(concurrency) == bool(rate):
        raise ConfigurationError("kv.steps: give levels: concurrency=[10, 20, 40], or rate=[1.0, 2.0, 4.0]")
    for level in concurrency:
        if not is_whole(level, 1):
            raise ConfigurationError(f"kv.steps(concurrency=[... {level!r}]): expected at least 1 session at a time")
    for each in rate:
        if not is_number(each) or not 0 < each < float("inf"):
            raise ConfigurationError(f"kv.steps(rate=[... {each!r}]): expected sessions per second, above 0")
    if not is_number(duration) or not 0 < duration < float("inf"):
        raise ConfigurationError(f"kv.steps(duration={duration!r}): expected seconds, above 0")
    return [Level(concurrency=level) for level in concurrency] or [Level(rate=each) for each in rate]
