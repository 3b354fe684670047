"""How late the loop wakes, in time that passes only when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pytest_kvcache.distribution import Latency
from pytest_kvcache.lag import LagMeter

from .virtual import Now, play


def block(seconds: float) -> None:
    """Keep the loop from its work for so long."""
    loop: Any = asyncio.get_running_loop()
    loop.clock.now += seconds


@contextmanager
def running(interval: float) -> Iterator[LagMeter]:
    meter = LagMeter(interval)
    meter.start()
    try:
        yield meter
    finally:
        meter.stop()


def measured(*steps: Callable[[], None] | float, interval: float = 0.01) -> LagMeter:
    """Wait so many seconds or do something, one step after the other."""

    async def work(_now: Now) -> LagMeter:
        with running(interval) as meter:
            for step in steps:
                if callable(step):
                    step()
                else:
                    await asyncio.sleep(step)
        return meter

    return play(work)


def milliseconds(lag: Latency) -> list[float]:
    return [round(lag.ranked(rank) * 1000, 3) for rank in range(len(lag))]


def test_a_loop_with_nothing_to_do_is_never_late() -> None:
    lag = measured(0.1005).lag
    assert milliseconds(lag) == [0.0] * 10


def test_a_block_makes_every_wake_up_late_that_was_due_in_it() -> None:
    # blocked from 12 to 47 ms: due at 20, 30, 40; the next one 10 ms after that, at 57
    lag = measured(0.012, lambda: block(0.035), 0.0155).lag
    assert milliseconds(lag) == [0.0, 0.0, 7.0, 17.0, 27.0]


def test_a_short_block_between_two_wake_ups_is_none() -> None:
    assert milliseconds(measured(0.012, lambda: block(0.007), 0.006).lag) == [0.0, 0.0]


def test_a_block_that_ends_the_work_counts() -> None:
    assert milliseconds(measured(0.015, lambda: block(0.03)).lag) == [0.0, 5.0, 15.0, 25.0]


def test_nothing_was_due() -> None:
    meter = measured(0.005)
    assert (len(meter.lag), meter.lag.p50) == (0, None)


def test_the_interval() -> None:
    assert milliseconds(measured(0.012, lambda: block(0.1), interval=0.05).lag) == [12.0, 62.0]


def test_it_keeps_no_sample_twice() -> None:
    meter = measured(50.0)
    assert len(meter.lag) >= 4999
    assert len(meter._late) <= 2


def test_an_early_loop_is_not_late() -> None:
    async def work(now: Now) -> Latency:
        with running(0.01) as meter:
            await asyncio.sleep(0.0095)
            assert meter._timer is not None
            meter._timer.cancel()
            meter._wake()  # as by a timer that is early by the resolution of the clock
            await asyncio.sleep(0.0105)
        return meter.lag

    assert milliseconds(play(work)) == [0.0, 0.0]


def test_busy_is_cpu_over_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = iter([5.0, 5.75])
    monkeypatch.setattr("pytest_kvcache.lag.time.process_time", lambda: next(cpu))
    assert measured(3.0).busy == pytest.approx(0.25)


def test_busy_is_not_known_before_the_end_nor_of_no_time() -> None:
    assert LagMeter().busy is None
    assert measured().busy is None


def test_a_real_loop_that_is_kept_busy() -> None:
    async def work() -> LagMeter:
        with running(0.001) as meter:
            await asyncio.sleep(0)
            until = asyncio.get_running_loop().time() + 0.02
            while asyncio.get_running_loop().time() < until:
                pass
            await asyncio.sleep(0)
        return meter

    loop = asyncio.new_event_loop()  # and not asyncio.run, which forgets the loop of other tests
    try:
        meter = loop.run_until_complete(work())
    finally:
        loop.close()
    assert len(meter.lag) >= 19
    assert meter.lag.max is not None
    assert meter.lag.max >= 0.0185
    assert meter.busy is not None
    assert meter.busy > 0
