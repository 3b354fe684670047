"""Levels of a load that are asked in odd ways are measured, or refused with a reason; never left out in silence."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_kvcache.errors import ConfigurationError
from pytest_kvcache.model import Level
from pytest_kvcache.plugin.levels import check_times, levels_of
from pytest_kvcache.plugin.runs import check_sending


@pytest.mark.parametrize("levels", [[1, 3], (1, 3), range(1, 4, 2), iter([1, 3]), (n for n in (1, 3))])
def test_all_levels_of_whatever_holds_them(levels: Any) -> None:
    assert levels_of(levels, (), 1.0) == [Level(concurrency=1), Level(concurrency=3)]


def test_rates_may_be_made_once_too() -> None:
    assert levels_of((), (n / 2 for n in (1, 3)), 1.0) == [Level(rate=0.5), Level(rate=1.5)]


@pytest.mark.parametrize(
    ("concurrency", "rate", "duration", "message"),
    [
        ([], [], 1.0, r"kv.steps: give levels"),
        (None, None, 1.0, r"kv.steps: give levels"),
        (iter([]), (), 1.0, r"kv.steps: give levels"),
        ([1], [1.0], 1.0, r"kv.steps: give levels"),
        (5, (), 1.0, r"kv.steps\(concurrency=5\): expected several levels"),
        (True, (), 1.0, r"kv.steps\(concurrency=True\): expected several levels"),
        ((), 2.5, 1.0, r"kv.steps\(rate=2.5\): expected several levels"),
        ([2, 0], (), 1.0, r"kv.steps\(concurrency=\[... 0\]\): expected at least 1"),
        ([True], (), 1.0, r"concurrency=\[... True\]"),
        ([1.5], (), 1.0, r"concurrency=\[... 1.5\]"),
        ("12", (), 1.0, r"concurrency=\[... '1'\]"),
        ((), [0.0], 1.0, r"kv.steps\(rate=\[... 0.0\]\): expected sessions per second, above 0"),
        ((), [math.inf], 1.0, r"rate=\[... inf\]"),
        ((), [math.nan], 1.0, r"rate=\[... nan\]"),
        ([1], (), 0.0, r"kv.steps\(duration=0.0\): expected seconds, above 0"),
        ([1], (), math.inf, r"duration=inf"),
        ([1], (), "60", r"duration='60'"),
    ],
)
def test_no_levels(concurrency: Any, rate: Any, duration: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        levels_of(concurrency, rate, duration)


@pytest.mark.parametrize(
    ("duration", "assessment", "message"),
    [
        (math.inf, 1.0, r"kv.sustain\(duration=inf\): expected seconds, above 0"),
        (1.0, math.nan, r"assessment=nan"),
        (1.0, True, r"assessment=True"),
        (1.0, 2.0, r"kv.sustain\(duration=1, assessment=2\): expected time for one period at least"),
    ],
)
def test_no_times(duration: Any, assessment: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_times("sustain", duration, assessment)


@pytest.mark.parametrize(
    ("retries", "settle", "message"),
    [
        (-1, 0.0, r"kv.steps\(retries=-1\): expected 0 or more"),
        (1.5, 0.0, r"retries=1.5"),
        ("1", 0.0, r"retries='1'"),
        (None, 0.0, r"retries=None"),
        (True, 0.0, r"retries=True"),
        (0, "1", r"kv.steps\(settle='1'\): expected seconds, 0 or more"),
        (0, math.nan, r"settle=nan"),
    ],
)
def test_no_way_to_send(retries: Any, settle: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_sending("steps", retries, None, settle)
