"""What keywords ask for, and what is told of those that ask for nothing."""

from __future__ import annotations

import re
from math import inf, nan

import pytest

from pytest_kvcache.errors import ConfigurationError
from pytest_kvcache.model import Objective, PerRequest
from pytest_kvcache.slo.asked import speed_up

from .made import asked


def test_names_say_the_metric_the_statistic_and_the_side() -> None:
    level = asked(
        ttft_p95=2, itl_mean=0.05, tpot_p50=0.03, e2e_max=30, tokens_per_s_avg=20, tokens_per_s_p5=10,
        tokens_per_s_p10=12, output_tok_s=1000, input_tok_s=5000, error_rate=0.01,
    )  # fmt: skip
    assert level.objectives == (
        Objective("ttft", "p95", 2.0, True, "ttft_p95"),
        Objective("itl", "mean", 0.05, True, "itl_mean"),
        Objective("tpot", "p50", 0.03, True, "tpot_p50"),
        Objective("e2e", "max", 30.0, True, "e2e_max"),
        Objective("tokens_per_s", "mean", 20.0, False, "tokens_per_s_avg"),
        Objective("tokens_per_s", "p5", 10.0, False, "tokens_per_s_p5"),
        Objective("tokens_per_s", "p10", 12.0, False, "tokens_per_s_p10"),
        Objective("output_tok_s", "total", 1000.0, False, "output_tok_s"),
        Objective("input_tok_s", "total", 5000.0, False, "input_tok_s"),
        Objective("error_rate", "total", 0.01, True, "error_rate"),
    )
    assert not level.each.asked


@pytest.mark.parametrize("metric", ["ttft", "itl", "tpot", "e2e"])
@pytest.mark.parametrize("statistic", ["p50", "p95", "p99", "mean", "max"])
def test_every_latency_has_every_statistic(metric: str, statistic: str) -> None:
    (objective,) = asked(**{f"{metric}_{statistic}": 1}).objectives
    assert (objective.metric, objective.statistic, objective.at_most) == (metric, statistic, True)


def test_goodput_and_attainment_count_requests_that_meet_limits_of_their_own() -> None:
    level = asked(goodput=3, attainment=1, ttft=2, tpot=0.05, e2e=60)
    assert level.each == PerRequest(2.0, 0.05, 60.0)
    assert [(o.metric, o.limit, o.at_most) for o in level.objectives] == [
        ("goodput", 3, False),
        ("attainment", 1, False),
    ]


def test_none_is_not_asked() -> None:
    assert [o.name for o in asked(ttft_p50=1, e2e_p99=None, tpot=None).objectives] == ["ttft_p50"]


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({}, "no limit is given; say for example ttft_p95=2.0 (seconds)"),
        ({"ttft_p95": None}, "no limit is given"),
        ({"goodput": 2}, "goodput= counts the requests that meet limits of their own, and none is given: add ttft="),
        ({"attainment": 0.9}, "attainment= counts the requests"),
        ({"ttft": 2}, "ttft= is what each request has to meet; say how many must: attainment=0.95 (share) or goodput="),
        ({"e2e": 2, "ttft_p95": 1}, "such as e2e_p95= or e2e_max="),
        ({"tttft_p95": 1}, "tttft_p95= is no limit of a service level, did you mean ttft_p95=; there are ttft, itl"),
        ({"zzz": 1}, "zzz= is no limit of a service level; there are"),
        ({"itl": 1}, "itl= is no limit"),
        ({"ttft_p95": 0}, "ttft_p95=0 is no limit; expected seconds, above 0, such as 2.0"),
        ({"ttft_p95": -1}, "seconds"),
        ({"ttft_p95": "2s"}, "ttft_p95='2s' is no limit; expected seconds"),
        ({"ttft_p95": True}, "ttft_p95=True is no limit"),
        ({"ttft_p95": nan}, "ttft_p95=nan is no limit"),
        ({"output_tok_s": 10**400}, "output_tok_s=1000"),  # more than a float can be
        ({"ttft_p95": inf}, "ttft_p95=inf is no limit"),
        ({"ttft": 0, "attainment": 1}, "ttft=0 is no limit; expected seconds"),
        ({"tokens_per_s_avg": 0}, "expected tokens per second, above 0"),
        ({"output_tok_s": -5}, "expected tokens per second, above 0"),
        ({"goodput": 0, "ttft": 1}, "expected requests per second, above 0"),
        ({"attainment": 95, "ttft": 1}, "attainment=95 is no limit; expected a share above 0, at most 1, such as 0.95"),
        ({"attainment": 0, "ttft": 1}, "a share above 0"),
        ({"error_rate": 1.01}, "error_rate=1.01 is no limit; expected a share between 0 and 1, such as 0.01"),
        ({"error_rate": -0.1}, "a share between 0 and 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_what_to_write(limits: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        asked(**limits)


def test_no_error_at_all_is_a_limit() -> None:
    assert asked(error_rate=0).objectives[0].limit == 0.0


def test_speed_ups() -> None:
    made = speed_up(2)
    assert (made.of, made.statistic) == ("ttft", "p50")
    assert made.objective == Objective("speedup", "p50", 2.0, False, "speedup_ttft_p50")
    assert speed_up(1.5, "e2e", "p95").objective.name == "speedup_e2e_p95"
    for wrong in (0, -1, nan, 10**400, True, "2"):
        with pytest.raises(ConfigurationError, match=r"is no speed-up; expected cold over warm, such as 2\.0"):
            speed_up(wrong)
    with pytest.raises(ConfigurationError, match="of='itl' is none of ttft, e2e"):
        speed_up(2, "itl")  # type: ignore[arg-type] # what a user may write
    with pytest.raises(ConfigurationError, match="statistic='max' is none of p50, p95, p99, mean"):
        speed_up(2, "ttft", "max")  # type: ignore[arg-type] # what a user may write
