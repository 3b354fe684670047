"""Limits as people write them, and what they are told when they write something else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pytest_kvcache.errors import ConfigurationError
from pytest_kvcache.regression.asked import Allowed, Asked, allowed, asked
from pytest_kvcache.regression.metrics import METRICS
from pytest_kvcache.slo.asked import KNOWN


def test_nothing_asked_is_the_hit_rate_exactly() -> None:
    assert asked({}) == Asked((Allowed(METRICS["hit_rate"], 0.0, False),))
    assert asked({"ttft_p95": None}) == asked({})


@pytest.mark.parametrize(
    ("name", "value", "amount", "relative"),
    [
        ("hit_rate", -0.02, 0.02, False),
        ("hit_rate", "-0.02", 0.02, False),
        ("hit_rate", 0, 0.0, False),
        ("hit_tokens", "-5%", 0.05, True),
        ("hit_tokens", -100, 100.0, False),
        ("ttft_p95", "+10%", 0.1, True),
        ("ttft_p95", "10 %", 0.1, True),
        ("ttft_p95", "+250%", 2.5, True),
        ("ttft_p95", 0.05, 0.05, False),
        ("output_tok_s", "-5%", 0.05, True),
        ("output_tok_s", -20.5, 20.5, False),
        ("tokens_per_s_p5", "-5%", 0.05, True),
        ("goodput", "-5%", 0.05, True),
        ("error_rate", 0.01, 0.01, False),
        ("attainment", -0.01, 0.01, False),
        ("itl_p99", "0%", 0.0, True),
    ],
)
def test_limits(name: str, value: Any, amount: float, relative: bool) -> None:
    found = allowed(name, value)
    assert (found.metric.name, found.amount, found.relative) == (name, pytest.approx(amount), relative)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("hit_rate", 0.02, "it is worse when it falls, so what may be is written -0.02"),
        ("ttft_p95", "-10%", "it is worse when it rises, so what may be is written +10%"),
        ("output_tok_s", "5%", "it is worse when it falls, so what may be is written -5%"),
        ("hit_rate", "-2%", "may mean two things; say it in points: expected a number such as -0.02 (two points)"),
        ("error_rate", "+1%", "a number such as 0.02 (two points)"),
        ("ttft_p95", "fast", "is no change; expected a part of what it was, such as '+10%', or a number in seconds"),
        ("output_tok_s", "", "such as '-10%', or a number in tok/s"),
        ("ttft_p95", True, "is no change"),
        ("ttft_p95", float("nan"), "is no change"),
        ("ttft_p95", "inf", "is no change"),
        ("ttft_p95", [1], "is no change"),
        ("hit_rate", -2, "hit_rate=-2 allows everything, since it is a share of 0..1; expected a number such as -0.02"),
        ("error_rate", "1", "allows everything, since it is a share of 0..1; expected a number such as 0.02"),
        ("attainment", -1.0, "allows everything"),
        ("output_tok_s", "-100%", "allows everything; expected less than 100 %"),
        ("ttft_95", 1, "ttft_95= is nothing that is compared, did you mean ttft_p95"),
        ("ttft", 1, "is nothing that is compared"),
        ("speedup", 1, "is nothing that is compared"),
    ],
)
def test_what_is_no_limit(name: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        asked({name: value})


def test_what_may_have_changed() -> None:
    assert asked({}, ("engine_version", "model")).allowed == {"engine_version", "model"}
    assert asked({}, "model").allowed == {"model"}
    with pytest.raises(ConfigurationError, match="allow='version' is none of what may change, did you mean engine_ver"):
        asked({}, ["version"])
    with pytest.raises(ConfigurationError, match="allow=5 is none of what may change"):
        asked({}, 5)


def test_the_names_are_those_of_service_levels_and_what_was_reused() -> None:
    assert list(METRICS) == ["hit_rate", "hit_tokens", *KNOWN]
    falling = {name for name, metric in METRICS.items() if not metric.rising}
    speeds = {"tokens_per_s_avg", "tokens_per_s_p5", "tokens_per_s_p10", "output_tok_s", "input_tok_s"}
    assert falling == {"hit_rate", "hit_tokens", "goodput", "attainment", *speeds}


def test_limits_stand_in_one_order_whatever_was_written_first() -> None:
    names = [limit.metric.name for limit in asked({"ttft_p95": 0.1, "hit_rate": 0}).limits]
    assert names == ["hit_rate", "ttft_p95"]
