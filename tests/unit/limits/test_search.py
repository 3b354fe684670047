"""Which rung is worth trying next, given what was tried."""

from __future__ import annotations

from pytest_kvcache.limits.asked import of_concurrency
from pytest_kvcache.limits.ladder import Ladder
from pytest_kvcache.limits.search import Search

from .stretches import stretch


def search(**tried: float) -> Search:
    """One period of each rung, ``r10=0.2``: with this TTFT, as fast as it has users."""
    found = Search(Ladder.of_concurrency(1, 1, 100), of_concurrency(2.0))
    for name, ttft in tried.items():
        tell(found, int(name[1:]), ttft)
    return found


def tell(found: Search, rung: int, ttft: float, tokens: float | None = None) -> None:
    level = found.ladder[rung]
    told = 30 * level.value if tokens is None else tokens
    found.add(rung, stretch([ttft] * 400, level=level, output_tokens=told))


def test_an_aim_that_left_most_of_the_gap_is_followed_by_its_middle() -> None:
    found = search(r10=0.2, r50=6.0)
    assert found.wanted(50) == 22  # 10 + 0.9 / 2.9 * 40
    tell(found, 22, 0.2)
    assert found.wanted(22) == 36
    tell(found, 36, 0.2)
    assert found.wanted(36) == 40  # 36 + 0.9 / 2.9 * 14: the gap was halved


def test_a_period_outside_of_the_gap_says_nothing_about_the_aim() -> None:
    found = search(r10=0.2, r50=6.0, r22=0.2)
    assert found.wanted(22) == 36
    tell(found, 22, 0.2)
    assert found.wanted(22) == 36
    tell(found, 10, 0.2)
    assert found.wanted(10) == 36


def test_neighbours_are_settled_where_the_load_is() -> None:
    found = search(r10=1.8, r11=2.2)
    assert found.wanted(11) == 11
    assert found.wanted(10) == 10
    assert found.wanted(50) == 10
    tell(found, 11, 2.2)
    assert found.wanted(11) == 10
    assert not found.converged
    tell(found, 10, 1.8)
    assert found.wanted(10) is None
    assert found.converged
    assert (found.found, found.broken) == (10, 11)


def test_confirmed_is_reported_before_higher() -> None:
    found = search(r10=1.5)
    tell(found, 10, 1.5)
    tell(found, 12, 1.5)
    assert (found.found, found.floor, found.broken) == (10, 12, None)
    tell(found, 12, 1.5)
    assert found.found == 12


def test_without_a_confirmed_one_the_highest_that_held() -> None:
    found = search(r10=1.5, r12=1.5)
    assert found.found == 12


def test_what_broke_once_and_held_once_does_not_hold_yet() -> None:
    found = search(r10=1.5)
    tell(found, 10, 1.5)
    tell(found, 11, 2.5)
    tell(found, 11, 1.5)
    assert found.verdict(11) == "open"
    assert (found.found, found.floor, found.ceiling, found.broken) == (10, 11, None, 11)


def test_throughput_is_measured_by_lower_levels_that_never_broke() -> None:
    found = search(r10=1.5)
    tell(found, 20, 2.5, tokens=90_000.0)
    tell(found, 15, 1.5, tokens=300.0)
    assert found.verdict(15) == "held"  # 11 tok/s at rung 10; the 3000 tok/s above it say nothing
    tell(found, 18, 1.5, tokens=100.0)
    assert found.why(18) == "throughput fell from 11 to 3 tok/s"
    tell(found, 8, 2.5, tokens=90_000.0)
    assert found.verdict(15) == "held"


def test_a_level_is_passed_once_and_only_when_something_is_left_above() -> None:
    found = search(r50=6.0)
    ample = stretch([0.2] * 400, level=found.ladder[10], seconds=10.0)
    assert not found.passes(49, ample, 30.0)
    assert found.passes(48, ample, 30.0)
    assert found.verdict(48) == "passed"
    assert (found.floor, found.found, found.broken) == (48, None, 50)
    assert not found.passes(48, ample, 30.0)
    assert not search().passes(99, ample, 30.0)
    assert search().passes(98, ample, 30.0)
    assert not search().passes(10, stretch([1.5] * 400, seconds=10.0), 30.0)


def test_the_lowest_rung_breaks_twice() -> None:
    found = search(r0=2.5)
    assert found.wanted(0) == 0
    assert (found.converged, found.found, found.broken) == (True, None, 0)
    tell(found, 0, 2.5)
    assert found.wanted(0) is None
