"""JUnit properties of loads: under names that stay, and none of the user's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_kvcache.model import Attained, Level, Objective, Tokens
from pytest_kvcache.model.objective import Metric, Reached, Statistic
from pytest_kvcache.report.junit import is_ours, properties
from pytest_kvcache.slo.asked import service_level, speed_up

from .made import at, judged, measured, reached, regressed, search, stretch

PLAIN = {"0": Tokens(1000, {"local": 700})}
ORDINARY = [
    "verdict", "hit_rate", "target", "predicted", "simulated", "hit_tokens", "query_tokens", "engine", "findings",
    "saved_tokens",
]  # fmt: skip


def attained(metric: Metric, statistic: Statistic, name: str, value: float | None, verdict: Reached) -> Attained:
    return Attained(Objective(metric, statistic, 1.0, True, name), verdict, value)


def test_a_test_without_load_has_the_ordinary_ones() -> None:
    assert [name for name, _ in properties(judged(measured(PLAIN)))] == [f"kv_{name}" for name in ORDINARY]


def test_objectives_have_their_values() -> None:
    several = (
        attained("ttft", "p95", "ttft_p95", 1.3100000001, "pass"),
        attained("tokens_per_s", "mean", "tokens_per_s_avg", None, "inconclusive"),
        attained("output_tok_s", "total", "output_tok_s", 1234567.8, "pass"),
    )
    found = dict(properties(judged(measured(PLAIN), objectives=several)))
    assert {name: value for name, value in found.items() if name.removeprefix("kv_") not in ORDINARY} == {
        "kv_slo": "inconclusive",
        "kv_ttft_p95": "1.31",
        "kv_tokens_per_s_avg": "",
        "kv_output_tok_s": "1.23457e+06",
    }


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        (("pass", "pass"), "pass"),
        (("pass", "inconclusive"), "inconclusive"),
        (("inconclusive", "fail", "pass"), "fail"),
    ],
)
def test_the_worst_stands_for_all(verdicts: tuple[Reached, ...], worst: str) -> None:
    several = tuple(reached(verdict=verdict) for verdict in verdicts)
    assert dict(properties(judged(measured(PLAIN), objectives=several)))["kv_slo"] == worst


def test_a_level_and_a_limit() -> None:
    def told(record: object) -> dict[str, str]:
        return {n: v for n, v in properties(record) if n.removeprefix("kv_") not in ORDINARY}  # type: ignore[arg-type] # a record

    assert told(judged(at(8))) == {"kv_output_tok_s": "100", "kv_level": "concurrency 8"}
    rate = replace(measured(PLAIN), stretch=stretch(Level(rate=2.5)))
    assert told(judged(rate)) == {"kv_output_tok_s": "100", "kv_level": "2.5 req/s"}
    assert told(judged(search())) == {"kv_output_tok_s": "480", "kv_limit": "12"}
    assert told(judged(search(held=None))) == {"kv_limit": ""}


def test_several_levels_each_have_their_own() -> None:
    found = dict(properties(judged(at(8), at(16), objectives=(reached(),))))
    assert (found["kv_slo"], found["kv_1_slo"], found["kv_2_ttft_p95"]) == ("pass", "pass", "1.31")
    assert (found["kv_1_level"], found["kv_2_level"]) == ("concurrency 8", "concurrency 16")
    assert found["kv_2_output_tok_s"] == "100"
    assert not {"kv_level", "kv_output_tok_s", "kv_limit"} & found.keys()
    assert all(map(is_ours, found))


def test_every_limit_that_a_marker_knows_is_ours() -> None:
    names = {
        f"{metric}_{statistic}"
        for metric in ("ttft", "itl", "tpot", "e2e")
        for statistic in ("p50", "p95", "p99", "mean", "max")
    } | {"tokens_per_s_avg", "tokens_per_s_p5", "tokens_per_s_p10", "output_tok_s", "input_tok_s", "error_rate"}
    asked = service_level({**dict.fromkeys(names, 0.5), "ttft": 1.0, "goodput": 1.0, "attainment": 0.5})
    known = {objective.name for objective in asked.objectives}
    assert names | {"goodput", "attainment"} == known
    known |= {speed_up(2.0, of, statistic).objective.name for of in ("ttft", "e2e") for statistic in ("p50", "mean")}
    for name in known:
        assert is_ours(f"kv_{name}")
        assert is_ours(f"kv_12_{name}")


@pytest.mark.parametrize("name", ["kv_mine", "kv_ttft_mine", "ttft_p95", "kv_sweep", "kv_1_engine", "kv_p95", "kv_"])
def test_names_that_are_not_ours(name: str) -> None:
    assert not is_ours(name)


def test_an_objective_under_another_name_is_not_written() -> None:
    other = attained("ttft", "p95", "mine", 1.0, "pass")
    found = dict(properties(judged(measured(PLAIN), objectives=(other,))))
    assert "kv_mine" not in found
    assert found["kv_slo"] == "pass"


def test_the_worst_comparison_is_told_and_replaced_when_a_test_runs_again() -> None:
    verdicts: tuple[tuple[Reached, ...], ...] = (("pass", "inconclusive"), ("inconclusive", "fail"), ("pass",))
    for each in verdicts:
        told = properties(judged(measured(PLAIN), regressions=tuple(regressed(verdict=verdict) for verdict in each)))
        assert dict(told)["kv_regression"] == each[-1]
    assert "kv_regression" not in dict(properties(judged(measured(PLAIN))))
    assert is_ours("kv_regression")
