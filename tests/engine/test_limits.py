"""Steps and searches against a simulated engine whose capacity follows from its service times.

The engine computes prompts one after the other, S seconds each, and decodes all requests at once, D seconds each. In a
closed loop of N users the prompts of all others stand before one's own as soon as N * S > S + D, so

    requests per second = min(N / (S + D), 1 / S)        TTFT = max(S, N * S - D)

and the highest N with a TTFT of at most T is floor((T + D) / S). In an open loop with constant gaps of g seconds the
k-th request waits k * (S - g) where that is above 0.

Service times are long, so that a machine with much other work to do changes nothing: what is late by less than half of
one is still told apart. Nearly all of it is waiting, so all searches are made at once, each on an engine of its own.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TypeVar

import pytest

from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.experiment import Plan, bench
from pytest_kvcache.limits.asked import of_concurrency, of_rate
from pytest_kvcache.limits.controller import Controller
from pytest_kvcache.limits.ladder import Ladder
from pytest_kvcache.limits.searching import Searching
from pytest_kvcache.limits.steps import measure_steps
from pytest_kvcache.model import Level, Measurement, PerRequest
from pytest_kvcache.pace import Pace
from pytest_kvcache.simulate.process import SimProcess
from pytest_kvcache.stretch import is_good
from pytest_kvcache.workloads import SharedPrefix
from pytest_kvcache.workloads.lasting import Lasting

LENGTH, BLOCK = 1024, 16
SERVICE = 0.1
OUTPUT, DECODE = 11, 0.04
D = (OUTPUT - 1) * DECODE
SHARES = (0.0, 0.5, 0.9)
SOUGHT = ((1, 8, 2), (2, 11, 7))  # seed, users that the engine carries, users at the beginning

LEVELS = [Level(concurrency=users) for users in (1, 3, 8)]

T = TypeVar("T")
each_share = pytest.mark.parametrize("share", SHARES, ids=lambda share: f"{share:.0%} cached")


def cached_of(share: float) -> int:
    """Return how many tokens of a prompt are cached: whole blocks."""
    return int(LENGTH * share) // BLOCK * BLOCK


@dataclass(frozen=True)
class Engine:
    """A running engine on which a prompt of this cached share takes :data:`SERVICE` seconds."""

    url: str
    share: float

    @property
    def workload(self) -> SharedPrefix:
        return SharedPrefix(50, LENGTH, prefix_len=cached_of(self.share), prefixes=2, output_len=OUTPUT, align=None)


def on_engines(shares: Iterable[float], use: Callable[[int, Engine], Awaitable[T]]) -> list[T]:
    """Return what comes of using an engine for each share, all at once; ``use`` is told the number of its engine."""
    with ExitStack() as stack:
        engines = []
        for share in shares:
            arguments = ("--prefill-rate", f"{(LENGTH - cached_of(share)) / SERVICE}", "--decode-time", f"{DECODE}")
            process = stack.enter_context(SimProcess(*arguments, "--batch-slots", "512"))
            engines.append(Engine(process.url, share))

        async def all_of_them() -> list[T]:
            return list(await asyncio.gather(*(use(number, engine) for number, engine in enumerate(engines))))

        return asyncio.run(all_of_them())


def plan(seed: int, pace: Pace) -> Plan:
    return Plan(nonce=f"limits {seed}", pace=replace(pace, seed=f"limits {seed}"), sample_interval=0.0)


async def search(engine: Engine, seed: int, users: int, start: int) -> Measurement:
    ttft = (users + 0.5) * SERVICE - D  # half a service time from the level below and above
    assert math.floor((ttft + D) / SERVICE) == users
    ladder, asked, pace = Ladder.of_concurrency(start, 1, 40), of_concurrency(ttft, "avg"), Pace(start)
    async with bench(Endpoint(engine.url), engine.workload, plan(seed, pace)) as made:
        controller = Controller(ladder, asked, assessment=1.5, duration=60.0)
        return await made.measure(Lasting(made.composed), pace, Searching(controller, 1.5, 60.0, asked.each))


@pytest.fixture(scope="module")
def searched() -> dict[tuple[float, int], Measurement]:
    """What each search found, by share and seed."""
    cases = [(share, *sought) for share in SHARES for sought in SOUGHT]
    found = on_engines([case[0] for case in cases], lambda number, engine: search(engine, *cases[number][1:]))
    return {case[:2]: measured for case, measured in zip(cases, found, strict=True)}


@each_share
@pytest.mark.parametrize(("seed", "users"), [sought[:2] for sought in SOUGHT])
def test_a_search_finds_the_capacity_within_one_step(
    searched: dict[tuple[float, int], Measurement], share: float, seed: int, users: int
) -> None:
    measured = searched[share, seed]
    limit = measured.limit
    assert limit is not None
    assert limit.level is not None
    assert limit.level.concurrency is not None
    assert abs(limit.level.concurrency - users) <= 1, limit.sentence
    assert limit.converged, limit.sentence
    held = [p for p in limit.periods if p.held == "held" and p.stretch.level == limit.level]
    assert len(held) >= 2  # never by one lucky period, and never an average over the ramp
    assert limit.stretch is not None
    assert limit.stretch.requests == sum(p.stretch.requests for p in held)
    assert measured.stretch == limit.stretch
    # all that was sent is accounted for, whatever level it was at
    sent = len(measured.exchanges)
    assert measured.counters is not None
    assert measured.prediction is not None
    assert (measured.counters.query, measured.counters.hit) == (sent * LENGTH, sent * cached_of(share))
    assert measured.prediction.hit_tokens == measured.counters.hit


@pytest.fixture(scope="module")
def climbed() -> dict[float, list[list[Measurement]]]:
    """What was measured at each level, by share."""

    async def climb(_number: int, engine: Engine) -> list[list[Measurement]]:
        async with bench(Endpoint(engine.url), engine.workload, plan(3, Pace())) as made:
            return await measure_steps(made, LEVELS, 2.5)

    return dict(zip(SHARES, on_engines(SHARES, climb), strict=True))


@each_share
def test_steps_give_the_known_throughput(climbed: dict[float, list[list[Measurement]]], share: float) -> None:
    for (measurement,), level in zip(climbed[share], LEVELS, strict=True):
        stretch, users = measurement.stretch, level.value
        assert stretch is not None
        known = min(users / (SERVICE + D), 1 / SERVICE) * OUTPUT
        assert stretch.output_tok_s == pytest.approx(known, rel=0.2), level
        assert stretch.ttft.p50 == pytest.approx(max(SERVICE, users * SERVICE - D), abs=0.06)
        assert stretch.hit_rate == pytest.approx(share, abs=0.01)
        assert measurement.prediction is not None
        assert measurement.counters is not None
        assert measurement.prediction.hit_tokens == measurement.counters.hit
        assert not measurement.findings


def test_goodput_is_what_was_asked_for_until_the_queue_grows() -> None:
    each = PerRequest(ttft=0.475)
    with SimProcess("--prefill-rate", f"{LENGTH / SERVICE}", "--decode-time", "0", "--batch-slots", "512") as process:
        levels = [Level(rate=5.0), Level(rate=20.0)]
        shape = SharedPrefix(requests=50, input_len=LENGTH, prefix_len=0, output_len=2, align=None)

        async def measured() -> list[list[Measurement]]:
            pace = Pace(None, 5.0, "constant")
            async with bench(Endpoint(process.url), shape, plan(4, pace)) as made:
                return await measure_steps(made, levels, 2.0, each=each)

        (below,), (above,) = asyncio.run(measured())
    assert below.stretch is not None
    assert below.stretch.goodput == pytest.approx(5, abs=0.5)
    # every further request waits 50 ms longer: 100, 150, 200, ... 450 are good, and then none is
    assert 6 <= sum(is_good(e, each) for e in above.exchanges) <= 9
    assert above.stretch is not None
    assert above.stretch.requests == pytest.approx(20, abs=3)  # it does its 10 a second all the same


def test_a_rate_is_found_that_the_engine_can_do() -> None:
    with SimProcess("--prefill-rate", f"{LENGTH / 0.05}", "--decode-time", "0", "--batch-slots", "512") as process:
        ladder, asked = Ladder.of_rate(4.0, 0.25, 100.0), of_rate(max_ttft=0.5, attainment=0.9)
        shape = SharedPrefix(requests=50, input_len=LENGTH, prefix_len=0, output_len=2, align=None)
        pace = Pace(None, 4.0, "constant")

        async def searched() -> Measurement:
            async with bench(Endpoint(process.url), shape, plan(5, pace)) as made:
                controller = Controller(ladder, asked, assessment=3.0, duration=90.0)
                searching = Searching(controller, 3.0, 90.0, asked.each)
                return await made.measure(Lasting(made.composed), pace, searching)

        limit = asyncio.run(searched()).limit
    assert limit is not None
    assert limit.level is not None
    assert limit.level.rate is not None
    assert 20 / 1.25 / 1.25 <= limit.level.rate <= 20 * 1.25, limit.sentence  # within one step of 20 a second
