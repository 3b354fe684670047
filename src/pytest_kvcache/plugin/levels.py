"""Which levels are asked of a load, and for how long?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from ..checks import is_number, is_whole
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..model import Level
    from ..protocols import Workload

T = TypeVar("T")


def levels_of(concurrency: Iterable[int], rate: Iterable[float], duration: float) -> list[Level]:
    """Return the levels of ``kv.steps``, in the order in which they are given.

    Raises:
        ConfigurationError: they are none, or cannot be kept for the time.
    """
    from ..model import Level

    closed, opened = _several("concurrency", concurrency), _several("rate", rate)
    if bool(closed) == bool(opened):
        raise ConfigurationError("kv.steps: give levels: concurrency=[10, 20, 40], or rate=[1.0, 2.0, 4.0]")
    for level in closed:
        if not is_whole(level, 1):
            raise ConfigurationError(f"kv.steps(concurrency=[... {level!r}]): expected at least 1 session at a time")
    for each in opened:
        if not is_number(each) or not each > 0:
            raise ConfigurationError(f"kv.steps(rate=[... {each!r}]): expected sessions per second, above 0")
    _check_seconds("steps", "duration", duration)
    return [Level(concurrency=level) for level in closed] or [Level(rate=each) for each in opened]


def check_times(what: str, duration: float, assessment: float) -> None:
    """Refuse times that no search can take.

    Raises:
        ConfigurationError: names the call and the argument.
    """
    _check_seconds(what, "duration", duration)
    _check_seconds(what, "assessment", assessment)
    if assessment > duration:
        raise ConfigurationError(
            f"kv.{what}(duration={duration:g}, assessment={assessment:g}): expected time for one period at least"
        )


def check_traffic(what: str, workload: Workload, *, stream: bool, timed: Mapping[str, float | None]) -> None:
    """Refuse a workload that keeps no level, and limits that can never be known.

    Args:
        what: the method that is called.
        workload: that it is given.
        stream: whether event streams are asked for.
        timed: limits of what only a stream tells, by argument.

    Raises:
        ConfigurationError: names the call and what to do.
    """
    if keeps_a_clock(workload):
        raise ConfigurationError(
            f"kv.{what}: this trace keeps a clock of its own, whatever the level; give kv_workload.trace(clock=False),"
            " or send it once with kv.replay"
        )
    asked = [name for name, limit in timed.items() if limit is not None]
    if asked and not stream:
        raise ConfigurationError(
            f"kv.{what}(stream=False, {asked[0]}={timed[asked[0]]!r}): without a stream nobody knows when a token came;"
            f" give {asked[0]}=None and another limit, or leave stream=False out"
        )


def keeps_a_clock(workload: Workload) -> bool:
    """Tell whether a workload says itself when its sessions begin; a limit would make them late."""
    from ..workloads.trace_replay import TraceReplay

    return isinstance(workload, TraceReplay) and workload.clock


def _check_seconds(what: str, name: str, seconds: float) -> None:
    if not is_number(seconds) or not seconds > 0:
        raise ConfigurationError(f"kv.{what}({name}={seconds!r}): expected seconds, above 0")


def _several(name: str, levels: Iterable[T] | None) -> list[T]:
    """Return levels as a list: what can be iterated only once must not be empty at the second time."""
    try:
        return [] if levels is None else list(levels)
    except TypeError:
        raise ConfigurationError(
            f"kv.steps({name}={levels!r}): expected several levels, such as [10, 20, 40]"
        ) from None
