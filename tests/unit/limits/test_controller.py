"""Where the search goes, step by step, on servers that do what servers do; and what it says in the end."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.limits.asked import Asked, of_concurrency, of_rate
from pytest_kvcache.limits.breach import Stalled
from pytest_kvcache.limits.controller import Action, Controller, Move
from pytest_kvcache.limits.ladder import Ladder
from pytest_kvcache.model import Level

from .plant import Plant, Search, constant
from .stretches import stretch

P95 = of_concurrency(2.0)
BEGAN = 1000.0


class Script:
    """Periods told by hand, one after the other, with a transition of 5 s after every change."""

    def __init__(self, ladder: Ladder, asked: Asked = P95, duration: float = 3000.0) -> None:
        self.controller = Controller(ladder, asked, assessment=30.0, duration=duration, began=BEGAN)
        self.now = BEGAN

    def tell(
        self,
        ttft: float,
        requests: int = 100,
        seconds: float = 30.0,
        *,
        stalled: Stalled = Stalled(),  # noqa: B008 - frozen
        failed: int = 0,
    ) -> tuple[Action, float]:
        level = self.controller.level
        told = stretch(
            [ttft] * requests,
            level=level,
            start=self.now,
            seconds=seconds,
            output_tokens=100 * seconds,
            failed=failed,
        )
        move = self.controller.next(told, stalled)
        assert move.level == self.controller.level
        self.now += seconds if move.action != "on" else 0.0
        if move.action == "change":
            self.controller.passed(stretch(level=move.level, start=self.now, seconds=5.0))
            self.now += 5.0
        return move.action, move.level.value


def users(start: int = 10, step: int = 10, limit: int = 100) -> Ladder:
    return Ladder.of_concurrency(start, step, limit)


def test_the_whole_way() -> None:
    script = Script(users())
    assert script.controller.level == Level(concurrency=10)
    assert script.tell(1.6) == ("change", 20)  # at most 10 * 2 / 1.6 = 12.5, so the next one
    assert script.tell(1.2) == ("change", 30)
    assert script.tell(1.0, seconds=10.0) == ("change", 60)  # half of the limit: seen in a third of the period
    assert script.tell(3.0) == ("change", 40)  # the line from 1.0 to 3.0 reaches 2.0 at 45
    assert script.tell(1.4) == ("change", 50)
    assert script.tell(1.9) == ("again", 50)
    assert script.tell(1.9) == ("change", 60)
    assert script.tell(2.5) == ("done", 60)
    found = script.controller.finish()
    assert (found.asked, found.each) == (P95.objectives, P95.each)
    assert (found.level, found.breached, found.converged) == (Level(concurrency=50), Level(concurrency=60), True)


def test_a_period_goes_on_until_it_is_whole_and_has_enough_requests() -> None:
    script = Script(users())
    assert script.tell(1.5, 100, 29.0) == ("on", 10)
    assert script.tell(1.5, 19, 30.0) == ("on", 10)
    assert script.tell(1.5, 19, 300.0) == ("on", 10)
    assert script.tell(1.5, 20, 310.0) == ("change", 20)


def test_answers_whose_beginning_was_before_the_period_do_not_count() -> None:
    controller = Controller(users(), P95, assessment=30.0, duration=900.0)
    few = stretch([1.8] * 19, requests=50, level=controller.level, seconds=30.0)
    assert controller.next(few).action == "on"
    assert controller.next(replace(few, end=few.end + 90.0)).action == "on"
    assert controller.next(stretch([1.8] * 20, requests=50, level=controller.level, seconds=33.0)).action == "change"


def test_what_is_never_known_is_not_waited_for() -> None:
    controller = Controller(users(), P95, assessment=30.0, duration=900.0)
    assert controller.next(stretch(requests=50, level=controller.level, seconds=58.0)).action == "on"
    assert controller.next(stretch(requests=50, level=controller.level, seconds=60.0)).action == "again"
    assert controller.periods[-1].why == "TTFT p95 is not known"


def test_timers_are_not_exact() -> None:
    script = Script(users())
    assert script.tell(1.5, 100, 29.39) == ("on", 10)
    assert script.tell(1.5, 100, 29.41) == ("change", 20)


def test_a_server_that_answers_nothing_is_given_two_assessments() -> None:
    script = Script(users())
    assert script.tell(0.0, 0, 58.0) == ("on", 10)
    assert script.tell(0.0, 0, 60.0) == ("again", 10)
    assert script.tell(0.0, 0, 60.0) == ("done", 10)
    found = script.controller.finish()
    assert (found.level, found.converged) == (None, True)
    assert found.sentence == "no level held; concurrency 10 did not hold in 2 of 2 periods: no request ended in 60 s"


def test_what_is_lost_is_over() -> None:
    script = Script(users())
    script.tell(1.5)
    assert script.tell(9.0, 50, 6.0) == ("again", 20)
    assert script.tell(1.9, 50, 3.0, stalled=Stalled(2, 40.0)) == ("change", 10)


def test_the_lowest_level_is_given_a_second_period_and_may_hold() -> None:
    script = Script(users())
    assert script.tell(2.1) == ("again", 10)
    assert script.tell(1.9) == ("change", 20)  # open: 3 of 4 samples are 2.1 or 1.9, so what is above decides
    assert script.tell(9.0) == ("again", 20)
    assert script.tell(9.0) == ("change", 10)
    assert script.tell(1.9) == ("done", 10)
    found = script.controller.finish()
    assert found.level is None
    assert found.sentence == "no level held; concurrency 10 did not hold in 1 of 3 periods: TTFT p95 2.1 s above 2 s"


def test_a_confirmation_that_breaks_moves_it_down() -> None:
    script = Script(users())
    for _ in range(2):
        assert script.tell(1.8)[0] == "change"
    assert script.tell(2.5) == ("again", 30)
    assert script.tell(2.5) == ("change", 20)
    assert script.tell(2.6) == ("change", 10)
    assert script.tell(1.8) == ("done", 10)
    found = script.controller.finish()
    assert (found.level, found.breached, found.converged) == (Level(concurrency=10), Level(concurrency=20), True)
    assert "concurrency 20 did not hold in 1 of 2 periods: TTFT p95 2.6 s above 2 s" in found.sentence


def test_a_breach_by_chance_does_not_lock_the_level() -> None:
    script = Script(users())
    assert script.tell(1.8) == ("change", 20)
    assert script.tell(2.5) == ("again", 20)
    assert script.tell(1.8) == ("change", 30)  # open: the search goes on above
    assert script.tell(1.9) == ("change", 40)
    assert script.tell(2.5) == ("again", 40)
    assert script.tell(2.5) == ("change", 30)
    assert script.tell(1.9) == ("done", 30)
    assert script.controller.finish().level == Level(concurrency=30)


def test_the_top_is_held_for_two_whole_periods() -> None:
    script = Script(users(limit=30))
    assert script.tell(0.1, seconds=10.0) == ("change", 30)
    assert script.tell(0.1, seconds=10.0) == ("on", 30)
    assert script.tell(0.1) == ("again", 30)
    assert script.tell(0.1) == ("done", 30)
    found = script.controller.finish()
    assert (found.level, found.breached, found.converged) == (Level(concurrency=30), None, True)
    assert found.sentence == (
        "concurrency 30 held over 2 periods (60 s, 200 requests): TTFT p95 0.1 s, wanted at most 2 s"
        " (95 % CI 0.1 s to 0.1 s); the limit is higher than concurrency 30"
    )


def test_after_an_overload_an_open_loop_is_drained() -> None:
    controller = Controller(Ladder.of_rate(1.0, 0.5, 9.0), of_rate(2.0), assessment=30.0, duration=900.0, began=BEGAN)
    assert controller.next(stretch([1.5] * 40, level=controller.level, start=BEGAN, seconds=30.0, good=40)) == Move(
        "change", Level(rate=1.5), drain=False
    )
    for action, drain in (("again", False), ("change", True)):
        move = controller.next(stretch([9.0] * 40, level=controller.level, start=BEGAN, seconds=30.0, good=0))
        assert (move.action, move.drain) == (action, drain)
    assert controller.level == Level(rate=1.0)


@pytest.mark.parametrize(("rate", "waits"), [(0.05, True), (0.15, True), (0.16, False)])
def test_a_period_in_which_nothing_was_due_breaks_nothing(rate: float, waits: bool) -> None:
    ladder = Ladder.of_rate(rate, 0.5, 2.0)
    controller = Controller(ladder, of_rate(2.0), assessment=30.0, duration=900.0, began=BEGAN)
    nothing = stretch(level=controller.level, start=BEGAN, seconds=60.0, good=0)  # 9 arrivals on average may be none
    assert (controller.next(nothing).action == "on") is waits
    assert controller.next(nothing, Stalled(1, 60.0)).action != "on"


def test_a_closed_loop_needs_no_draining() -> None:
    script = Script(users())
    script.tell(1.8)
    for ttft in (9.0, 9.0):
        move = script.controller.next(stretch([ttft] * 40, level=script.controller.level, start=script.now))
    assert (move.action, move.drain) == ("change", False)


def test_requests_without_an_answer_are_waited_for() -> None:
    script = Script(users())
    script.tell(1.8)
    assert script.tell(1.8, stalled=Stalled(1, 60.0)) == ("again", 20)
    move = script.controller.next(
        stretch([1.8] * 40, level=script.controller.level, start=script.now), Stalled(1, 90.0)
    )
    assert (move.action, move.drain) == ("change", True)


@pytest.mark.parametrize(
    ("duration", "then"),
    [
        # 35 s are over; one period (29.4 s are enough) of 20 and one of 10, each after 5 s, take 34.4 + 35 s
        (104.5, ("change", 20)),
        (104.3, ("again", 10)),
        (64.5, ("again", 10)),
        (64.3, ("done", 10)),
    ],
)
def test_when_time_gets_short_what_held_is_confirmed_first(duration: float, then: tuple[Action, int]) -> None:
    script = Script(users(), duration=duration)
    script.controller.passed(stretch(level=script.controller.level, start=BEGAN, seconds=5.0))
    script.now += 5.0
    assert script.tell(1.8) == then


def test_the_time_counts_from_the_first_stretch() -> None:
    controller = Controller(users(), P95, assessment=30.0, duration=69.3)
    controller.passed(stretch(level=controller.level, start=BEGAN, seconds=10.0))
    assert controller.next(stretch([1.8] * 40, level=controller.level, start=BEGAN + 10, seconds=30.0)).action == "done"
    controller = Controller(users(), P95, assessment=30.0, duration=69.3)
    assert (
        controller.next(stretch([1.8] * 40, level=controller.level, start=BEGAN + 10, seconds=30.0)).action == "again"
    )


def test_time_over_says_what_was_left_to_try() -> None:
    script = Script(users(limit=30), duration=100.0)
    assert script.tell(1.8) == ("change", 20)
    assert script.tell(1.9) == ("again", 20)
    assert script.tell(1.9) == ("done", 20)
    found = script.controller.finish()
    assert (found.level, found.converged) == (Level(concurrency=20), False)
    assert found.sentence.endswith("; not converged: the time was over before concurrency 30 was assessed")


def test_one_period_is_no_confirmation() -> None:
    script = Script(users(), duration=45.0)
    assert script.tell(1.8) == ("done", 10)
    found = script.controller.finish()
    assert (found.level, found.converged) == (Level(concurrency=10), False)
    assert found.sentence.startswith("concurrency 10 held over 1 period only (30 s, 100 requests): TTFT p95 1.8 s")


def test_a_higher_level_that_was_not_confirmed_is_told_and_not_reported() -> None:
    script = Script(users(), duration=131.0)
    script.tell(1.8)  # 30 s
    script.tell(1.9)  # 65 s
    assert script.controller.level == Level(concurrency=20)
    script.tell(1.9)  # 95 s: confirmed
    assert script.controller.level == Level(concurrency=30)
    assert script.tell(1.9) == ("done", 30)
    found = script.controller.finish()
    assert found.level == Level(concurrency=20)
    assert "concurrency 30 held in 1 of 1 periods and was not confirmed" in found.sentence


def test_nothing_was_assessed() -> None:
    script = Script(users())
    assert script.controller.finish().sentence == "no level was assessed"
    script.tell(1.5, 7, 34.0)
    found = script.controller.finish()
    assert (found.level, found.converged, found.stretch, found.periods) == (None, False, None, ())
    assert found.sentence == "no level was assessed (its period had 7 requests in 34 s, and a verdict needs 20)"


def test_levels_that_were_only_passed_are_not_reported() -> None:
    script = Script(users())
    script.tell(0.1, seconds=10.0)
    found = script.controller.finish()
    assert (found.level, found.breached, found.converged) == (None, None, False)
    assert found.sentence == (
        "no level was assessed for a whole period; concurrency 10 was passed after 10 s and not assessed for a whole"
        " period; not converged: the time was over before concurrency 40 was assessed"
    )
    assert next((p.held, p.why) for p in found.periods) == ("transition", "passed: the limit is far above")


def test_periods_that_held_alone_may_not_hold_together() -> None:
    controller = Controller(Ladder.of_rate(10.0, 1.0, 10.0), of_rate(2.0), assessment=30.0, duration=900.0)
    slow = stretch([1.5] * 240, level=controller.level, good=240)  # 67 of 300 may be missing, 103 of 600
    assert controller.next(slow).action == "again"
    assert controller.next(slow).action == "done"
    found = controller.finish()
    assert (found.level, found.converged, [p.held for p in found.periods]) == (None, True, ["held", "held"])
    assert found.sentence == (
        "no level held; 10 req/s did not hold over 2 periods together: 8 of 10 req/s ended: the queue grows"
    )


def test_every_period_is_told_in_order() -> None:
    script = Script(users())
    script.tell(1.8)
    script.tell(3.0)
    told = [(p.stretch.level.concurrency, p.held) for p in script.controller.periods]
    assert told == [(10, "held"), (20, "transition"), (20, "breached")]


@pytest.mark.parametrize("knee", [10, 33, 50])
def test_a_throughput_that_collapses_is_a_limit(knee: int) -> None:
    # beyond the knee answers are preempted, so that one of them ends in a second however many there are
    plant = Plant(constant(0.001), lambda flying, _: 2.0 if flying <= knee else float(flying))
    controller = Controller(Ladder.of_concurrency(2, 2, 300), P95, assessment=30.0, duration=9000.0, began=plant.now)
    found = Search(plant, controller, 30.0, 9000.0).run()
    assert found.level == Level(concurrency=knee // 2 * 2)
    assert "throughput fell from" in found.sentence


@pytest.mark.parametrize("knee", [10, 33])
def test_a_server_that_fails_beyond_a_load(knee: int) -> None:
    plant = Plant(constant(0.01), constant(2.0), fails=lambda flying, _: 0.01 if flying > knee else None)
    controller = Controller(Ladder.of_concurrency(2, 2, 300), P95, assessment=30.0, duration=900.0, began=plant.now)
    found = Search(plant, controller, 30.0, 900.0).run()
    assert found.level == Level(concurrency=knee // 2 * 2)
    assert "requests failed, more than 1 %" in found.sentence


def test_requests_without_an_answer_are_a_limit() -> None:
    # beyond 5 they get none until the client gives up
    plant = Plant(constant(0.1), constant(2.0), fails=lambda flying, _: 200.0 if flying > 5 else None)
    controller = Controller(Ladder.of_concurrency(2, 2, 300), P95, assessment=30.0, duration=3000.0, began=plant.now)
    found = Search(plant, controller, 30.0, 3000.0).run()
    assert found.level == Level(concurrency=4)
    assert found.converged
    assert "without an answer for" in found.sentence


def test_a_server_that_hangs_for_ever_ends_the_search() -> None:
    plant = Plant(constant(0.1), lambda flying, _: 2.0 if flying <= 5 else math.inf)
    controller = Controller(Ladder.of_concurrency(4, 2, 300), P95, assessment=30.0, duration=300.0, began=plant.now)
    found = (run := Search(plant, controller, 30.0, 300.0)).run()
    assert run.ended <= 300.0 + 1e-6
    assert found.level is None
    assert found.breached == Level(concurrency=16)
    assert "concurrency 4 was passed after" in found.sentence
    assert "requests without an answer for" in found.sentence


@given(at=st.floats(0.0, 400.0), seconds=st.floats(1.0, 20.0), prefill=st.floats(0.05, 0.2), decode=st.floats(1.0, 4.0))
@settings(max_examples=10)
def test_one_event_costs_a_step_at_most(at: float, seconds: float, prefill: float, decode: float) -> None:
    room = (2.0 + decode) / prefill
    # while something else keeps the server busy every prefill takes ten times as long
    plant = Plant(lambda _, now: prefill * (10 if BEGAN + at <= now < BEGAN + at + seconds else 1), constant(decode))
    ladder = Ladder.of_concurrency(2, 2, 1000)
    controller = Controller(ladder, P95, assessment=30.0, duration=5000.0, began=plant.now)
    found = Search(plant, controller, 30.0, 5000.0).run()
    assert found.converged
    assert found.level is not None
    best = ladder.below(room)
    assert ladder.levels.index(found.level) in (best - 1, best)
