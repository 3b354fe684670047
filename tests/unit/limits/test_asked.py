"""What may be asked, and what cannot."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kvcache.errors import ConfigurationError
from pytest_kvcache.limits.asked import of_concurrency, of_rate
from pytest_kvcache.limits.ladder import Ladder
from pytest_kvcache.model import Objective, PerRequest


def test_a_closed_loop_asks_for_the_time_to_first_token_by_default() -> None:
    assert of_concurrency().objectives == (Objective("ttft", "p95", 2.0, True, "ttft_p95"),)
    assert of_concurrency().needed == 20


@pytest.mark.parametrize(
    ("metric", "statistic", "needed"), [("p95", "p95", 20), ("avg", "mean", 10), ("max", "max", 20)]
)
def test_metrics_of_ttft(metric: Any, statistic: str, needed: int) -> None:
    asked = of_concurrency(0.5, metric)
    assert asked.objectives == (Objective("ttft", statistic, 0.5, True, f"ttft_{statistic}"),)  # type: ignore[arg-type] # one of them
    assert asked.needed == needed


@pytest.mark.parametrize(("metric", "statistic", "needed"), [("avg", "mean", 10), ("p5", "p5", 20), ("p10", "p10", 10)])
def test_metrics_of_tokens(metric: Any, statistic: str, needed: int) -> None:
    asked = of_concurrency(None, min_tokens_per_req=30.0, tokens_per_req_metric=metric)
    assert asked.objectives == (Objective("tokens_per_s", statistic, 30.0, False, f"tokens_per_s_{statistic}"),)  # type: ignore[arg-type] # one of them
    assert asked.needed == needed


def test_the_objective_that_needs_most_requests_decides() -> None:
    assert of_concurrency(2.0, "avg", 30.0, "p5").needed == 20


@pytest.mark.parametrize(
    ("attainment", "needed"), [(0.5, 2), (0.9, 10), (0.95, 20), (0.99, 100), (0.999, 100), (1.0, 20)]
)
def test_an_open_loop_asks_for_a_share(attainment: float, needed: int) -> None:
    asked = of_rate(1.0, 0.05, attainment=attainment)
    assert asked.objectives == (Objective("attainment", "total", attainment, False, "attainment"),)
    assert asked.each == PerRequest(1.0, 0.05, None)
    assert asked.needed == needed


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_ttft": 0.0}, r"kv.sustain\(max_ttft=0.0\): expected seconds, above 0"),
        ({"max_ttft": float("inf")}, r"max_ttft=inf"),
        ({"max_ttft": float("nan")}, r"max_ttft=nan"),
        ({"max_ttft": None}, r"kv.sustain: nothing is asked that could be broken; give max_ttft= \(seconds\)"),
        ({"min_tokens_per_req": -1.0}, r"min_tokens_per_req=-1.0\): expected tokens per second, above 0"),
        ({"ttft_metric": "p99"}, r"ttft_metric='p99'\): expected one of 'p95', 'avg', 'max'"),
        ({"tokens_per_req_metric": "p95"}, r"tokens_per_req_metric='p95'\): expected one of 'avg', 'p5', 'p10'"),
        ({"max_failed": 1.0}, r"max_failed=1.0\): expected a share of the requests"),
        ({"max_failed": -0.1}, r"max_failed=-0.1"),
        ({"max_ttft": "2"}, r"kv.sustain\(max_ttft='2'\): expected seconds, above 0"),
        ({"max_ttft": True}, r"max_ttft=True"),
        ({"max_ttft": -1.0, "what": "steps"}, r"kv.steps\(max_ttft=-1.0\)"),
    ],
)
def test_what_a_closed_loop_cannot_hold(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        of_concurrency(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"kv.sustain_rate: nothing is asked"),
        ({"max_ttft": -1.0}, r"kv.sustain_rate\(max_ttft=-1.0\): expected seconds, above 0"),
        ({"max_tpot": 0.0}, r"max_tpot=0.0"),
        ({"max_e2e": 0.0}, r"max_e2e=0.0"),
        ({"max_ttft": 1.0, "attainment": 0.0}, r"attainment=0.0\): expected a share"),
        (
            {"max_ttft": 1.0, "attainment": 95},
            r"attainment=95\): expected a share of the requests, such as 0.95 for 95 %",
        ),
        ({"max_ttft": 1.0, "max_failed": 2}, r"max_failed=2"),
        ({"max_ttft": 1.0, "attainment": "0.9"}, r"attainment='0.9'\): expected a share"),
        ({"max_ttft": 1.0, "attainment": True}, r"attainment=True"),
    ],
)
def test_what_an_open_loop_cannot_hold(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        of_rate(**given)


def test_rungs_of_concurrency_end_with_the_limit() -> None:
    assert [level.concurrency for level in Ladder.of_concurrency(2, 3, 10).levels] == [2, 5, 8, 10]
    assert [level.concurrency for level in Ladder.of_concurrency(2, 4, 10).levels] == [2, 6, 10]
    assert [level.concurrency for level in Ladder.of_concurrency(7, 1, 7).levels] == [7]


def test_rungs_of_rates_grow_by_the_step() -> None:
    assert [level.rate for level in Ladder.of_rate(1.0, 0.5, 4.0).levels] == [1.0, 1.5, 2.25, 3.375, 4.0]
    assert [level.rate for level in Ladder.of_rate(1.0, 1.0, 4.0).levels] == [1.0, 2.0, 4.0]
    assert [level.rate for level in Ladder.of_rate(3.0, 1.0, 3.0).levels] == [3.0]


def test_a_rung_by_its_value() -> None:
    ladder = Ladder.of_concurrency(2, 3, 10)
    assert [ladder.below(value) for value in (1, 2, 4.9, 5, 9.9, 10, 99)] == [0, 0, 0, 1, 2, 3, 3]
    assert ladder.top == 3
    assert ladder[1].concurrency == 5


@pytest.mark.parametrize(
    ("start", "step", "limit", "message"),
    [
        (0, 2, 10, r"kv.sustain\(start=0, step=2\): expected at least 1 session at a time and steps of 1 or more"),
        (2, 0, 10, r"step=0"),
        (20, 2, 10, r"kv.sustain\(start=20, limit=10\): expected a limit that is not below the start"),
        (2.5, 2, 10, r"kv.sustain\(start=2.5, step=2, limit=10\): expected whole numbers of sessions"),
        (True, 2, 10, r"start=True"),
        (2, 2.0, 10, r"step=2.0"),
        (2, 2, "10", r"limit='10'"),
        (1, 1, 1_000_000, "more than 100,000 levels from start to limit; take a larger step"),
    ],
)
def test_no_levels_of_concurrency(start: int, step: int, limit: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Ladder.of_concurrency(start, step, limit)


@pytest.mark.parametrize(
    ("start", "step", "limit", "message"),
    [
        (0.0, 0.1, 10.0, r"kv.sustain_rate\(start=0.0, step=0.1\): expected sessions per second, above 0"),
        (1.0, 0.0, 10.0, r"step=0.0"),
        (1.0, float("nan"), 10.0, r"step=nan"),
        (1.0, 0.1, 0.5, r"kv.sustain_rate\(start=1.0, limit=0.5\): expected a limit"),
        (1.0, 0.1, float("inf"), r"limit=inf"),
        ("1", 0.1, 10.0, r"kv.sustain_rate\(start='1', step=0.1, limit=10.0\): expected numbers"),
        (1.0, True, 10.0, r"step=True"),
        (1.0, 1e-9, 10.0, "more than 100,000 levels"),
    ],
)
def test_no_levels_of_rate(start: float, step: float, limit: float, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Ladder.of_rate(start, step, limit)
