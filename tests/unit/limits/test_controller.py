"""The search finds the capacity that is known of a server, and says how sure it is."""

from __future__ import annotations

from pytest_kvcache.limits import asked
from pytest_kvcache.limits.controller import Controller
from pytest_kvcache.limits.ladder import Ladder

from .plant import Plant, Search, closed_capacity, constant


def test_a_known_capacity_is_found_to_the_step() -> None:
    plant = Plant(constant(0.1), constant(3.02))
    controller = Controller(
        Ladder.of_concurrency(2, 2, 1000), asked.of_concurrency(2.0), assessment=30, duration=300, began=plant.now
    )
    found = Search(plant, controller, 30, 300).run()
    assert closed_capacity(2.0, 0.1, 3.02) == 50
    assert found.level is not None
    assert found.level.concurrency == 50
    assert found.breached is not None
    assert found.breached.concurrency == 52
    assert found.converged
    assert found.stretch is not None
    assert found.stretch.seconds >= 60
