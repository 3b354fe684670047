"""Each of several levels for a time, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import overload

from ..experiment import Bench
from ..model import Expectation, Level, Measurement
from ..result import Result
from ..workloads.lasting import Lasting
from .timed import Timed, Told


async def measure_steps(
    bench: Bench,
    levels: Sequence[Level],
    seconds: float,
    *,
    repeats: int = 1,
    strict: bool = False,
    told: Told | None = None,
) -> list[Measurement]:
    """Keep each level for a time and measure it; every measurement begins and ends with the server at rest.

    Args:
        bench: where the workload is bound.
        levels: in order.
        seconds: of each.
        repeats: how often each level is measured, all of them in turn: a server that changes meanwhile is seen.
        strict: as for :class:`Timed`.
        told: about the progress.

    Raises:
        WorkloadError: more than one measurement, and the workload cannot be sent once more.
        NotSettled: the engine did not come to rest.
    """
    measured: list[Measurement] = []
    lasting = Lasting(bench.composed)
    for number, level in enumerate(list(levels) * repeats):
        traffic = lasting.again(f"step {number}/") if number else lasting
        pace = replace(bench.plan.pace, concurrency=level.concurrency, rate=level.rate)
        measured.append(await bench.measure(traffic, pace, Timed(level, seconds, strict=strict, progress=told)))
    return measured


class Steps(Sequence[Result]):
    """What came of each level, in the order in which they were measured.

    Args:
        measured: one window for each.
        expectation: that of the test.
    """

    def __init__(self, measured: Sequence[Measurement], expectation: Expectation | None = None) -> None:
        self._results = [Result(measurement, expectation) for measurement in measured]

    @overload
    def __getitem__(self, at: int) -> Result: ...
    @overload
    def __getitem__(self, at: slice) -> list[Result]: ...
    def __getitem__(self, at: int | slice) -> Result | list[Result]:
        return self._results[at]

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)
