"""What several measurements of levels say about thresholds; nothing where too few requests tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_kvcache.limits.asked import of_concurrency
from pytest_kvcache.limits.steps import Steps
from pytest_kvcache.model import Level, Measurement, ServerFacts

from .stretches import stretch

ASKED = of_concurrency(2.0)  # p95: of 20 requests at least


def steps(*levels: tuple[int, list[tuple[int, float]]]) -> Steps:
    """Of each level, the requests of each time and how long all of them waited."""
    facts = ServerFacts("sim", "m")
    blank = Measurement(title="t", facts=facts, engines={})
    return Steps(
        [
            [
                replace(blank, stretch=stretch([seconds] * count, level=Level(concurrency=users)))
                for count, seconds in times
            ]
            for users, times in levels
        ],
        None,
        ASKED,
    )


@pytest.mark.parametrize(
    ("times", "held"),
    [
        ([(20, 1.0)], True),
        ([(19, 1.0)], None),
        ([(5, 3.0)], False),
        ([(20, 1.0), (19, 1.0)], None),
        ([(20, 3.0), (19, 1.0)], False),
        ([(20, 1.0), (40, 1.0)], True),
    ],
)
def test_a_level_held_when_enough_requests_say_so_each_time(times: list[tuple[int, float]], held: bool | None) -> None:
    (step,) = steps((4, times))
    assert step.held is held
    assert [bool(few) for few in step.few] == [count < 20 for count, _ in times]


def test_why_nothing_is_said() -> None:
    (step,) = steps((4, [(7, 1.0)]))
    assert (step.why, step.few) == (("",), ("7 requests, and a verdict needs 20",))


def test_the_best_level_is_below_all_that_say_nothing_or_broke() -> None:
    for between in ((19, 1.0), (40, 3.0)):
        best = steps((8, [(40, 1.0)]), (1, [(40, 1.0)]), (2, [(40, 1.0)]), (4, [between])).best
        assert best is not None
        assert best.level.concurrency == 2
