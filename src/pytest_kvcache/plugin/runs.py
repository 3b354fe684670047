"""What all ways to send and measure have in common: the endpoint, the plan of a run, the lock around its windows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from ..checks import is_number, is_whole
from ..endpoint import Endpoint
from ..errors import ConfigurationError
from .keys import SETTINGS
from .progress import Progress
from .settings import Settings

if TYPE_CHECKING:
    from ..experiment import Bench, Plan
    from ..model import ResetMode
    from ..pace import Pace
    from ..protocols import Workload
    from ..result import Result
    from .state import TestState


class Runs:
    """Measures workloads for one test.

    Args:
        endpoint: where.
        settings: how, unless a run says otherwise.
        state: of the test; receives every measurement.
        item: whose progress is shown.
    """

    def __init__(self, endpoint: Endpoint, settings: Settings, state: TestState, item: pytest.Item) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._state = state
        self._item = item
        self._progress: Progress | None = None

    async def _measure(
        self,
        kind: str,
        workload: Workload,
        pace: Pace,
        *,
        retries: int,
        reset: ResetMode | None,
        stream: bool,
        settle: float = 0.0,
    ) -> Result:
        from ..result import Result

        plan = self._plan(pace, retries=retries, reset=reset, stream=stream, settle=settle)
        async with self._bench(kind, workload, plan) as bench:
            measurement = await bench.measure(bench.composed, plan.pace)
        return Result(measurement, self._state.expectation)

    def _plan(
        self, pace: Pace, *, retries: int = 0, reset: ResetMode | None, stream: bool, settle: float = 0.0
    ) -> Plan:
        from ..experiment import Plan

        nonce = self._state.next_nonce()
        return Plan(
            nonce=nonce,
            pace=replace(pace, seed=nonce),
            retries=retries,
            reset=reset or self._state.reset or self._settings.reset,
            settle=settle,
            stream=stream,
            counters=self._state.wants_counters,
            tokenizer=self._settings.tokenizer,
            usage_prompt=self._settings.usage_prompt,
            usage_absent=self._settings.usage_absent,
            sample_interval=self._settings.sample_interval,
            processes=self._settings.processes,
            series=self._state.series,
            warm=self._state.warm_at(self._endpoint.base),
            grain=self._state.grain_at(self._endpoint),
        )

    @asynccontextmanager
    async def _bench(
        self, kind: str, workload: Workload, plan: Plan, arguments: Mapping[str, object] | None = None
    ) -> AsyncIterator[Bench]:
        """Hold the endpoint and bind a workload to it; what is measured there becomes part of the test.

        Args:
            kind: ``run``, ``replay``, ``steps``, ...
            workload / plan: what is run, and how.
            arguments: of this kind, as far as they decide what is sent.
        """
        from .. import experiment
        from .comparison import digest_of, is_wanted
        from .lock import aendpoint_lock
        from .resuming import measured_before

        asked = {
            "pace": replace(plan.pace, seed=""),
            "retries": plan.retries,
            "reset": plan.reset,
            "settle": plan.settle,
            "stream": plan.stream,
            **(arguments or {}),
        }
        checked = partial(
            measured_before,
            self._state,
            self._endpoint,
            kind,
            arguments=asked,
            workload=workload,
            settings=self._settings,
        )
        wanted = is_wanted(self._item.config.stash[SETTINGS], self._state.comparison)
        keep = partial(self._state.keep, sent=digest_of(kind, asked, workload) if wanted else None)
        progress = self._progress = Progress.of(self._item.config, self._item.name)
        try:
            async with (
                aendpoint_lock(self._endpoint.base),
                experiment.bench(
                    self._endpoint, workload, plan, progress=progress, keep=keep, checked=checked
                ) as bench,
            ):
                yield bench
        finally:
            if progress is not None:
                progress.close()


def check_sending(what: str, retries: int, reset: str | None, settle: float = 0.0) -> None:
    """Refuse what cannot be asked of a run.

    Raises:
        ConfigurationError: names the call and the argument.
    """
    if not is_number(settle):
        raise ConfigurationError(f"kv.{what}(settle={settle!r}): expected seconds, 0 or more")
    if not is_whole(retries, 0):
        raise ConfigurationError(f"kv.{what}(retries={retries!r}): expected 0 or more")
    if reset not in (None, "never", "auto", "require"):
        raise ConfigurationError(f"kv.{what}(reset={reset!r}): expected 'never', 'auto' or 'require'")
