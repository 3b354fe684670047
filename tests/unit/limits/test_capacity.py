"""The search finds the capacity that is known of a server: closed loops by arithmetic, open ones by M/D/1."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pytest_kvcache.distribution import Latency
from pytest_kvcache.limits.asked import Asked, of_concurrency, of_rate
from pytest_kvcache.limits.controller import Controller
from pytest_kvcache.limits.ladder import Ladder
from pytest_kvcache.model import Level, Limit

from .plant import Plant, Search, closed_capacity, closed_ttft, constant, drawn, wait_at_most

LONG = 3000.0


def search(plant: Plant, ladder: Ladder, asked: Asked, assessment: float = 30.0, duration: float = 300.0) -> Search:
    controller = Controller(ladder, asked, assessment=assessment, duration=duration, began=plant.now)
    return Search(plant, controller, assessment, duration, asked.each)


def counted(limit: Limit) -> int:
    """Return how many levels were assessed or passed, each as often as it was."""
    return sum(period.held != "transition" or bool(period.why) for period in limit.periods)


@pytest.mark.parametrize("users", [1, 2, 20, 31, 60])
def test_the_plant_keeps_its_formula(users: int) -> None:
    plant = Plant(constant(0.1), constant(3.0))
    plant.turn(Level(concurrency=users))
    plant.advance(plant.now + 50)
    assert {round(a.first - a.sent, 9) for a in plant.answers[-users:]} == {round(closed_ttft(users, 0.1, 3.0), 9)}


@pytest.mark.parametrize(("rate", "seconds"), [(5.0, 0.1), (8.0, 0.2), (9.0, 0.5)])
def test_the_plant_waits_as_its_queue_does(rate: float, seconds: float) -> None:
    plant = Plant(constant(0.1), constant(1.0), seed=3)
    plant.turn(Level(rate=rate))
    plant.advance(plant.now + 20_000)
    share = sum(a.first - a.sent - 0.1 <= seconds for a in plant.answers) / len(plant.answers)
    assert share == pytest.approx(wait_at_most(seconds, rate, 0.1), abs=0.01)


@given(
    prefill=st.floats(0.03, 0.5),
    decode=st.floats(0.2, 8.0),
    max_ttft=st.floats(0.3, 5.0),
    start=st.integers(1, 10),
    step=st.integers(1, 6),
    limit=st.integers(20, 1000),
    assessment=st.sampled_from([10.0, 30.0, 60.0]),
    metric=st.sampled_from(["p95", "avg"]),
)
@example(0.1, 3.02, 2.0, 2, 2, 1000, 30.0, "p95")
@settings(max_examples=30)
def test_a_closed_loop_is_found_to_the_step(
    prefill: float, decode: float, max_ttft: float, start: int, step: int, limit: int, assessment: float, metric: str
) -> None:
    room = (max_ttft + decode) / prefill
    assume(0.02 < room % 1 < 0.98)  # else the rounding of sums decides
    assume(abs(prefill - max_ttft) > 1e-3)
    capacity = closed_capacity(max_ttft, prefill, decode) if prefill < max_ttft else 0
    ladder = Ladder.of_concurrency(start, step, limit)
    plant = Plant(constant(prefill), constant(decode))
    asked = of_concurrency(max_ttft, metric)  # type: ignore[arg-type] # one of them
    found = (run := search(plant, ladder, asked, assessment, LONG)).run()
    assert found.converged
    assert run.ended <= LONG
    if capacity < start:
        assert found.level is None
        assert found.breached == ladder[0]
        return
    best = ladder.below(capacity)
    assert found.level == ladder[best]
    assert found.breached == (ladder[best + 1] if best < ladder.top else None)
    assert found.stretch is not None
    assert found.stretch.seconds >= 2 * 0.98 * assessment
    assert found.stretch.ttft.p50 == pytest.approx(closed_ttft(found.level.concurrency or 0, prefill, decode))
    most = math.log(max(1.0, room / start), 4) + 2 * math.log2(max(2.0, 3 * room / step)) + 10
    assert counted(found) <= most


@given(
    prefill=st.floats(0.05, 0.5),
    decode=st.floats(0.2, 5.0),
    max_ttft=st.floats(0.3, 5.0),
    assessment=st.sampled_from([10.0, 30.0]),
    duration=st.floats(1.0, 300.0),
)
@settings(max_examples=30)
def test_however_short_the_time_no_more_is_told_than_held(
    prefill: float, decode: float, max_ttft: float, assessment: float, duration: float
) -> None:
    assume(0.02 < (max_ttft + decode) / prefill % 1 < 0.98)
    plant = Plant(constant(prefill), constant(decode))
    run = search(plant, Ladder.of_concurrency(2, 2, 1000), of_concurrency(max_ttft), assessment, duration)
    found = run.run()
    assert run.ended <= duration + 1e-6
    held = [p for p in found.periods if p.held == "held"]
    if found.level is None:
        assert found.stretch is None
        return
    users = found.level.concurrency or 0
    assert closed_ttft(users, prefill, decode) <= max_ttft
    levels = [p.stretch.level.concurrency or 0 for p in held]
    assert users in levels
    assert users == max(levels) or levels.count(users) >= 2  # one that held twice before one that held once
    assert all(p.stretch.seconds >= 0.98 * assessment for p in held)
    if not found.converged:
        assert "not converged: the time was over before" in found.sentence


def p95_at(users: int, prefill: float, spread: float, decode: float) -> float:
    plant = Plant(drawn(prefill, spread, 4711), constant(decode))
    plant.turn(Level(concurrency=users))
    plant.advance(plant.now + 100)
    begun = len(plant.answers)
    plant.advance(plant.now + 3000 * prefill)
    return Latency.of(a.first - a.sent for a in plant.answers[begun:]).p95 or 0.0


@pytest.mark.parametrize("seed", range(10))
def test_with_prefills_by_chance_the_truth_is_near(seed: int) -> None:
    prefill, spread, decode, max_ttft = 0.05 + 0.01 * seed, 0.9, 1.0 + 0.3 * seed, 1.0 + 0.2 * seed
    plant = Plant(drawn(prefill, spread, seed), constant(decode))
    found = search(plant, Ladder.of_concurrency(2, 2, 1000), of_concurrency(max_ttft), 30.0, 600.0).run()
    assert found.converged
    assert found.level is not None
    assert found.level.concurrency is not None
    assert p95_at(found.level.concurrency, prefill, spread, decode) <= 1.1 * max_ttft
    assert p95_at(found.level.concurrency + 4, prefill, spread, decode) >= 0.9 * max_ttft
    assert counted(found) <= 18


def md1_capacity(max_ttft: float, service: float, attainment: float) -> float:
    low, high = 0.0, 1 / service
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if wait_at_most(max_ttft - service, middle, service) >= attainment else (low, middle)
    return low


@pytest.mark.parametrize("attainment", [0.9, 0.95])
@pytest.mark.parametrize("seed", range(8))
def test_an_open_loop_is_found_near_the_step(seed: int, attainment: float) -> None:
    service = 0.02 + 0.005 * seed
    max_ttft = service * (3 + seed)
    asked = of_rate(max_ttft, attainment=attainment)
    plant = Plant(constant(service), constant(1.0), seed=seed, users=None)
    found = search(plant, Ladder.of_rate(1.0, 0.1, 1000.0), asked, 30.0, 600.0).run()
    truth = md1_capacity(max_ttft, service, attainment)
    assert found.converged
    assert found.level is not None
    # one step, and as much again for arrivals that were by chance more or less dense than they are in the long run
    assert truth / 1.1**2 <= found.level.value <= truth * 1.1**1.5
    assert found.stretch is not None
    assert found.stretch.goodput is not None
    assert attainment * 0.8 * found.level.value <= found.stretch.goodput <= 1.2 * found.level.value
    assert "goodput" in found.sentence
    assert counted(found) <= 16


def test_a_mean_speed_of_requests_is_held_too() -> None:
    # 100 tokens in max(S + D, N S) seconds: at least 20 tok/s allows a cycle of 5 s, so 50 users
    plant = Plant(constant(0.0999), constant(3.0))
    asked = of_concurrency(None, min_tokens_per_req=20.0)
    found = search(plant, Ladder.of_concurrency(2, 2, 1000), asked, 30.0, 600.0).run()
    assert found.level == Level(concurrency=50)


def test_a_service_rate_that_nothing_reaches_is_no_growing_queue() -> None:
    plant = Plant(constant(0.001), constant(0.1), users=None)
    found = search(plant, Ladder.of_rate(1.0, 0.5, 20.0), of_rate(5.0)).run()
    assert found.level == Level(rate=20.0)
    assert found.converged
    assert found.sentence.endswith("; the limit is higher than 20 req/s")
