"""The rates of a sweep: decimal numbers as they are meant, both ends, nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_kvcache
from pytest_kvcache.errors import ConfigurationError
from pytest_kvcache.workloads.rates import rates


def test_from_nothing_to_all_in_steps_of_five_percent() -> None:
    assert [str(rate) for rate in rates()] == [
        "0.0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3", "0.35", "0.4", "0.45", "0.5", "0.55", "0.6", "0.65", "0.7",
        "0.75", "0.8", "0.85", "0.9", "0.95", "1.0",
    ]  # fmt: skip
    assert pytest_kvcache.rates is rates


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((0.0, 1.0, 0.25), [0.0, 0.25, 0.5, 0.75, 1.0]),
        ((0, 1, 1), [0.0, 1.0]),
        ((0.1, 0.4, 0.1), [0.1, 0.2, 0.3, 0.4]),
        ((0.5, 0.5, 0.2), [0.5]),
        ((0.0, 1.0, 1 / 3), [0.0, 1 / 3, 2 / 3, 1.0]),
        ((0.9, 0.96, 0.02), [0.9, 0.92, 0.94, 0.96]),
        ((0.0, 0.002, 1e-3), [0.0, 0.001, 0.002]),
    ],
)
def test_ends_and_steps(arguments: tuple[float, float, float], found: list[float]) -> None:
    assert rates(*arguments) == found
    assert all(type(rate) is float for rate in rates(*arguments))


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 1000))
def test_every_rate_is_the_float_of_its_decimal(low: int, steps: int, thousandths: int) -> None:
    steps = min(steps, (1000 - low) // thousandths)
    high = low + steps * thousandths
    found = rates(low / 1000, high / 1000, thousandths / 1000)
    assert found == [(low + number * thousandths) / 1000 for number in range(steps + 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"low": -0.1}, r"rates\(low=-0.1\): expected a ratio between 0 and 1"),
        ({"high": 100}, r"rates\(high=100\): expected a ratio between 0 and 1"),
        ({"step": 5}, r"rates\(step=5\): expected a ratio between 0 and 1"),
        ({"step": 0}, r"rates\(step=0\): expected a ratio above 0"),
        ({"step": float("nan")}, r"rates\(step=nan\): expected a ratio between 0 and 1"),
        ({"low": True}, r"rates\(low=True\): expected a ratio between 0 and 1"),
        ({"low": "0"}, r"rates\(low='0'\): expected a ratio between 0 and 1"),
        ({"low": 0.6, "high": 0.5}, "low is above high"),
        ({"step": 0.3}, "0.3 does not lead from 0.0 to 1.0"),
        ({"high": 0.2, "step": 0.5}, "0.5 does not lead from 0.0 to 0.2"),
        ({"step": 0.0001}, "10,001 rates, expected at most 1,001"),
        ({"step": 1 / 1001}, "1,002 rates, expected at most 1,001"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        rates(**arguments)


def test_the_most_that_is_allowed() -> None:
    assert len(rates(step=0.001)) == 1001
