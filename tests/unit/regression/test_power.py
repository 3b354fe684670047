"""What a comparison is worth: planted regressions, and sessions against their like. Seeded, with realistic noise."""

from __future__ import annotations

import pytest

from .noise import outcomes


def test_the_same_against_the_same_passes_100_of_100() -> None:
    assert outcomes("same", 100, runs=15, between=0.03) == {"pass": 100}


def test_a_fall_of_3_points_is_caught_always() -> None:
    """Counted figures leave nothing to chance."""
    assert outcomes("points", 100, runs=5, between=0.03, rate=0.67)["fail"] == 100


@pytest.mark.parametrize(("runs", "caught", "missed"), [(8, 88, 8), (10, 92, 8), (15, 94, 6)])
def test_a_rise_of_15_percent_is_caught(runs: int, caught: int, missed: int) -> None:
    """15 % with 10 % allowed: what is not caught is mostly estimated below 10 %."""
    found = outcomes(f"planted {runs}", 100, runs=runs, between=0.04, factor=1.15)
    assert found["fail"] >= caught
    assert found["pass"] <= missed


@pytest.mark.parametrize("runs", [5, 8, 10])
def test_nothing_that_did_not_change_fails_more_often_than_is_said(runs: int) -> None:
    """1 of 100 by the test alone; less, because a change must be beyond what is allowed too."""
    assert outcomes(f"alarm {runs}", 300, runs=runs, between=0.05)["fail"] <= 3


def test_too_few_runs_are_never_a_pass() -> None:
    assert outcomes("few", 50, runs=4, between=0.03) == {"inconclusive": 50}
    assert outcomes("few", 50, runs=4, between=0.03, factor=2.0) == {"inconclusive": 50}
