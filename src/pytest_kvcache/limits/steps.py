"""Each of several levels for a time, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

from ..errors import MeasurementError
from ..experiment import Bench
from ..model import Expectation, Level, Measurement, PerRequest, Stretch
from ..result import Result
from ..workloads.lasting import Lasting
from .asked import Asked
from .breach import judge, samples_for
from .repeats import Repeated, repeated
from .timed import NOTHING, Timed, Told


@dataclass(frozen=True)
class Step:
    """One level, measured once or several times.

    Attributes:
        level: what was asked of the client.
        results: one for each time.
        why: what broke the thresholds, each time that it was measured; empty: nothing; None: none were given.
        few: why a time that broke nothing decides nothing: it had too few requests; empty: it had enough.
    """

    level: Level
    results: tuple[Result, ...]
    why: tuple[str, ...] | None = None
    few: tuple[str, ...] = ()

    @property
    def result(self) -> Result:
        """The first measurement."""
        return self.results[0]

    @property
    def stretch(self) -> Stretch:
        """What came out in its time, the first time."""
        return _stretch(self.result)

    @property
    def held(self) -> bool | None:
        """Whether the thresholds held every time; None: none were given, or too few requests tell."""
        if self.why is None:
            return None
        return False if any(self.why) else None if any(self.few) else True

    @cached_property
    def figures(self) -> dict[str, Repeated]:
        """Mean, deviation and interval of every figure over the measurements: ``step.figures["ttft_p95"].mean``."""
        return repeated([_stretch(result) for result in self.results])


class Steps(Sequence[Step]):
    """What came of each level, in the order in which they were asked.

    Args:
        measured: the windows of each level.
        expectation: that of the test.
        asked: the thresholds; None: none.
    """

    def __init__(
        self,
        measured: Sequence[Sequence[Measurement]],
        expectation: Expectation | None = None,
        asked: Asked | None = None,
    ) -> None:
        self._steps = [_step([Result(m, expectation) for m in windows], asked) for windows in measured if windows]

    @property
    def best(self) -> Step | None:
        """The highest level that held its thresholds, as all below it did; None: not even the lowest did for sure."""
        best = None
        for step in sorted(self._steps, key=lambda step: step.level.value):
            if not step.held:
                break
            best = step
        return best

    @overload
    def __getitem__(self, at: int) -> Step: ...
    @overload
    def __getitem__(self, at: slice) -> list[Step]: ...
    def __getitem__(self, at: int | slice) -> Step | list[Step]:
        return self._steps[at]

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps)


async def measure_steps(
    bench: Bench,
    levels: Sequence[Level],
    seconds: float,
    *,
    repeats: int = 1,
    strict: bool = False,
    each: PerRequest = NOTHING,
    stop: Asked | None = None,
    told: Told | None = None,
) -> list[list[Measurement]]:
    """Keep each level for a time and measure it; every measurement begins and ends with the server at rest.

    Args:
        bench: where the workload is bound.
        levels: in order.
        seconds: of each.
        repeats: how often each level is measured, all of them in turn: a server that changes meanwhile is seen.
        strict / each: as for :class:`Timed`.
        stop: no level is measured behind one that does not hold this; None: all are.
        told: about the progress.

    Returns:
        The measurements of each level; none of those that were left out. One whose window could not be opened is the
        last, and has no stretch.

    Raises:
        WorkloadError: more than one measurement, and the workload cannot be sent once more.
        NotSettled: the engine did not come to rest.
    """
    measured: list[list[Measurement]] = [[] for _ in levels]
    lasting, count = Lasting(bench.composed), 0
    if len(levels) * repeats > 1:
        lasting.again("?")  # refuses now what could not be sent a second time
    for lap in range(repeats):
        for at, level in enumerate(levels):
            traffic = lasting.again(f"step {count}/") if count else lasting
            pace = replace(bench.plan.pace, concurrency=level.concurrency, rate=level.rate)
            window = await bench.measure(traffic, pace, Timed(level, seconds, each, strict, told, lap))
            measured[at].append(window)
            count += 1
            if window.stretch is None:  # its window never opened; what another level takes its time for proves nothing
                return measured
            if stop is not None and judge(stop, window.stretch):
                levels = levels[: at + 1]
                break
    return measured


def _step(results: list[Result], asked: Asked | None) -> Step:
    stretches = [_stretch(result) for result in results]
    if asked is None:
        return Step(stretches[0].level, tuple(results))
    why = tuple(judge(asked, stretch) for stretch in stretches)
    return Step(stretches[0].level, tuple(results), why, tuple(_few(asked, stretch) for stretch in stretches))


def _few(asked: Asked, stretch: Stretch) -> str:
    samples = min(samples_for(objective, stretch) for objective in asked.objectives)
    return "" if samples >= asked.needed else f"{samples} requests, and a verdict needs {asked.needed}"


def _stretch(result: Result) -> Stretch:
    if result.stretch is None:
        why = result.verdict.sentence.removeprefix("inconclusive: ")
        raise MeasurementError(f"the level was not measured: {why}")
    return result.stretch
