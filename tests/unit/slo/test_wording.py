"""Figures with the right unit, and as many digits as tell them apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.figures import plural
from pytest_kvcache.model import Objective
from pytest_kvcache.model.objective import UNITS, Metric
from pytest_kvcache.slo import wording

TTFT = Objective("ttft", "p95", 2.0, at_most=True, name="ttft_p95")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (2.31, "2.310 s"), (61.5, "61.500 s"), (1.0, "1.000 s"), (0.9996, "999.6 ms"), (0.25, "250.0 ms"),
        (0.0452, "45.20 ms"), (0.001, "1.00 ms"), (0.00085, "850.00 µs"), (1e-9, "0.00 µs"), (0.0, "0.000 s"),
        (0.99999, "1.000 s"), (0.099999, "100.0 ms"), (0.000999999, "1.00 ms"),
    ],
)  # fmt: skip
def test_durations(seconds: float, shown: str) -> None:
    assert wording.duration(seconds) == shown


@pytest.mark.parametrize(
    ("metric", "value", "shown"),
    [
        ("output_tok_s", 1234.56, "1,234.6 tok/s"),
        ("output_tok_s", 99.999, "100.0 tok/s"),
        ("tokens_per_s", 42.0, "42.00 tok/s"),
        ("goodput", 0.5, "0.50 req/s"),
        ("attainment", 0.95, "0.9500"),
        ("error_rate", 0.0, "0.0000"),
        ("speedup", 3.456, "3.46x"),
        ("itl", 0.02, "20.00 ms"),
    ],
)
def test_every_metric_has_its_unit(metric: Metric, value: float, shown: str) -> None:
    assert wording.figure(Objective(metric, "total", 1.0, True, metric), value) == shown


def test_titles() -> None:
    assert set(wording.TITLES) == set(UNITS)
    assert wording.title(TTFT) == "TTFT p95"
    assert wording.title(Objective("goodput", "total", 1.0, False, "goodput")) == "goodput"
    assert wording.title(Objective("speedup", "p50", 2.0, False, "speedup_e2e_p50")) == "speed-up of E2E p50"


def test_a_miss_by_little_shows_it() -> None:
    assert wording.told(TTFT, 2.31) == ("2.310 s", "2.000 s")
    assert wording.told(TTFT, 2.0004) == ("2.0004 s", "2.0000 s")
    assert wording.told(TTFT, 2.0) == ("2.000 s", "2.000 s")


@pytest.mark.parametrize(
    ("metric", "limit", "value", "shown"),
    [
        ("output_tok_s", 100.0, 99.998, ("99.998 tok/s", "100.000 tok/s")),
        ("ttft", 0.1, 0.09999999, ("99.99999 ms", "100.00000 ms")),
        ("ttft", 1.0, 0.99999, ("0.99999 s", "1.00000 s")),
        ("itl", 0.001, 0.0009999999, ("0.9999999 ms", "1.0000000 ms")),
    ],
)
def test_no_unit_and_no_number_of_digits_hides_on_which_side_it_is(
    metric: Metric, limit: float, value: float, shown: tuple[str, str]
) -> None:
    assert wording.told(Objective(metric, "total", limit, at_most=True, name=metric), value) == shown


@given(st.floats(0.001, 1000), st.floats(1e-6, 1e-3))
def test_a_value_beside_its_limit_never_looks_like_it(limit: float, more: float) -> None:
    objective = Objective("ttft", "p95", limit, at_most=True, name="ttft_p95")
    shown, wanted = wording.told(objective, limit * (1 + more))
    assert shown != wanted


def test_intervals_and_whole_sentences() -> None:
    assert wording.between(TTFT, (2.21, 2.43)) == "between 2.210 s and 2.430 s"
    assert wording.between(TTFT, (2.21, None)) == "at least 2.210 s"
    assert wording.between(TTFT, (None, 2.43)) == "at most 2.430 s"
    assert wording.between(TTFT, (None, None)) == ""
    assert wording.between(TTFT, (0.0, 0.5)) == "between 0.000 s and 500.0 ms"
    assert wording.sentence(TTFT, 2.31, (2.21, 2.43), "812 requests", "at concurrency 4") == (
        "TTFT p95 2.310 s at concurrency 4, wanted at most 2.000 s (812 requests, 95 % between 2.210 s and 2.430 s)"
    )
    assert wording.sentence(TTFT, 1.5, (None, None), "1 request") == (
        "TTFT p95 1.500 s, wanted at most 2.000 s (1 request)"
    )
    assert [plural(count, "gap") for count in (0, 1, 1234)] == ["0 gaps", "1 gap", "1,234 gaps"]
