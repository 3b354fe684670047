"""Measurements to records: every number by hand, and nothing that JSON cannot hold."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_kvcache.histogram import Histogram
from pytest_kvcache.model import Prediction, Pressure, Tokens, Verdict
from pytest_kvcache.report.record import check_record

from .made import CUT, FACTS, GIVEN_UP, INF, LATE, REFUSED, TEN, WHOLE, judged, measured


def test_engines_are_told_each_by_itself() -> None:
    record = judged(
        measured(
            {"1": Tokens(0, {"local": 0}, 0), "0": Tokens(8000, {"local": 6000, "host": 1200}, 8000)},
            aside={"decode": Tokens(8000, {"local": 7984})},
        )
    )
    assert list(record["engines"]) == ["0", "1"]
    assert record["engines"]["0"] == {
        "query_tokens": 8000,
        "hit_tokens": 7200,
        "hit_rate": 0.9,
        "local_hit_tokens": 6000,
        "external_hit_tokens": 1200,
        "tiers": {"local": 6000, "host": 1200},
        "prompt_tokens": 8000,
    }
    assert record["engines"]["1"]["hit_rate"] is None  # 0 of 0 is no rate
    assert (record["aside"]["decode"]["hit_rate"], record["aside"]["decode"]["external_hit_tokens"]) == (0.998, None)
    assert (record["hit_tokens"], record["query_tokens"]) == (7200, 8000)  # without what stands aside


def test_tiers_share_one_denominator() -> None:
    engines = {
        "0": Tokens(6000, {"host": 600, "local": 3000, "storage": 300}),
        "1": Tokens(4000, {"local": 1000}),
    }
    tiers = judged(measured(engines))["tiers"]
    assert list(tiers) == ["local", "host", "storage", "external"]
    assert tiers["local"] == {"hit_tokens": 4000, "hit_rate": 0.4}
    assert tiers["host"] == {"hit_tokens": 600, "hit_rate": 0.06}
    assert tiers["storage"] == {"hit_tokens": 300, "hit_rate": 0.03}
    assert tiers["external"] == {"hit_tokens": 900, "hit_rate": 0.09}


def test_tier_that_nobody_tells_is_no_zero() -> None:
    assert judged(measured({"0": Tokens(10, {"local": 0})}))["tiers"] == {
        "local": {"hit_tokens": 0, "hit_rate": 0.0},
        "external": {"hit_tokens": None, "hit_rate": None},
    }
    assert judged(measured({"0": Tokens(10, {"external": 5})}))["tiers"] == {
        "local": {"hit_tokens": None, "hit_rate": None},
        "external": {"hit_tokens": 5, "hit_rate": 0.5},
    }
    assert judged(measured())["tiers"] == judged(measured())["engines"] == judged(measured())["aside"] == {}


def test_several_runs_are_added_up_and_told_one_by_one() -> None:
    first = measured(
        {"0": Tokens(100, {"local": 50})},
        pressure=Pressure(3, None, 0.5, 4, 9, 10, 1),
        server_latency={"ttft": TEN},
        aside={"t": Tokens(5, {"local": 1})},
    )
    second = measured(
        {"0": Tokens(100, {"local": 0}), "1": Tokens(10, {"local": 10})},
        pressure=Pressure(5, 40, 0.93, 2, None, 20, 0),
        server_latency={"ttft": TEN, "queue": TEN},
        aside={"t": Tokens(5, {"local": 2})},
    )
    record = judged(first, second)
    assert record["engines"]["0"]["query_tokens"] == 200
    assert record["aside"]["t"]["hit_tokens"] == 3
    assert record["pressure"] == {
        "preemptions": 8,
        "evictions": 40,
        "kv_usage_peak": 0.93,
        "running_peak": 4,
        "waiting_peak": 9,
        "samples": 30,
        "missed": 1,
    }
    assert {name: told["count"] for name, told in record["server_latency_s"].items()} == {"ttft": 20, "queue": 10}
    alone = record["runs"][0]
    assert (alone["pressure"]["preemptions"], alone["pressure"]["evictions"]) == (3, None)
    assert alone["server_latency_s"]["ttft"]["count"] == 10


def test_no_pressure_read_is_none_and_nothing_told_stays_none() -> None:
    assert judged(measured())["pressure"] is None
    assert judged(measured(pressure=Pressure()))["pressure"] == {
        **dict.fromkeys(("preemptions", "evictions", "kv_usage_peak", "running_peak", "waiting_peak")),
        "samples": 0,
        "missed": 0,
    }


def test_quantiles_carry_their_bounds_and_no_infinity() -> None:
    record = judged(measured(server_latency={"ttft": TEN, "queue": Histogram((1.0, INF), (0, 0), 0.0)}))
    ttft = record["server_latency_s"]["ttft"]
    assert (ttft["count"], ttft["mean"]) == (10, 0.75)
    assert ttft["p50"] == {"value": pytest.approx(0.4), "low": 0.1, "high": 0.5}
    assert ttft["p95"] == ttft["p99"] == {"value": 1.0, "low": 1.0, "high": None}
    assert record["server_latency_s"]["queue"] == {"count": 0, "mean": None, "p50": None, "p95": None, "p99": None}
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_requests_that_were_lost() -> None:
    record = judged(measured(exchanges=(WHOLE, LATE, CUT, GIVEN_UP, REFUSED), prefill=(WHOLE,)))
    assert record["requests"] == {"total": 5, "failed": 3, "aborted": 3, "prefill": 1}


def test_engine() -> None:
    facts = replace(FACTS, unit="blocks", counted="lookup", unconfirmed=True)
    assert judged(measured(facts=facts))["engine"] == {
        "id": "vllm",
        "variant": "v1",
        "version": "0.32.0",
        "model": "m",
        "block_size": 16,
        "unit": "blocks",
        "counted": "lookup",
        "note": None,
        "unconfirmed": True,
        "simulated": False,
    }
    assert check_record("t", Verdict("inconclusive", "inconclusive"), [])["engine"] is None


def test_interval_and_warm_rate() -> None:
    verdict = Verdict("pass", "hit rate 0.7", 0.7, 7, 10, predicted=0.8, ceiling=0.9)
    fixed = {
        "measured": 0.7,
        "predicted": 0.8,
        "ceiling": 0.9,
        **dict.fromkeys(("target", "target_from", "min", "max", "simulated")),
    }
    assert check_record("t", verdict, [])["hit_rate"] == {**fixed, "low": None, "high": None, "warm": None}
    told = {"low": 0.69, "high": 0.71, "warm": 0.95}
    assert check_record("t", replace(verdict, **told), [])["hit_rate"] == {**fixed, **told}


def test_rate_of_a_cache_of_the_servers_size() -> None:
    verdict = Verdict("pass", "hit rate 0.7", 0.7, target=0.6, target_from="simulated", predicted=0.8, simulated=0.6)
    rates = check_record("t", verdict, [])["hit_rate"]
    assert (rates["target"], rates["target_from"], rates["simulated"]) == (0.6, "simulated", 0.6)
    small, large = (measured(simulated=Prediction(6, 10, (6,), 16, capacity=capacity)) for capacity in (1584, 4000))
    assert judged(small)["simulated_cache"] == {"capacity_tokens": 1584, "block_size": 16}
    assert judged(small, small)["simulated_cache"] == {"capacity_tokens": 1584, "block_size": 16}
    record = judged(small, large)
    assert record["simulated_cache"] is None
    assert [run["simulated_cache"]["capacity_tokens"] for run in record["runs"]] == [1584, 4000]
    assert judged(small, measured())["simulated_cache"] is None
    assert judged(measured())["simulated_cache"] is None


def test_arrival_against_the_schedule() -> None:
    late = [replace(WHOLE, scheduled=sent, sent=sent + 0.25 * number) for number, sent in enumerate((1.0, 2.0, 3.0))]
    arrival = judged(measured(exchanges=(*late, WHOLE, REFUSED)))["arrival_s"]
    assert arrival == {"p50": 0.25, "p95": pytest.approx(0.475), "p99": pytest.approx(0.495), "mean": 0.25, "count": 3}
    assert judged(measured(exchanges=(WHOLE,)))["arrival_s"]["count"] == 0


def test_hostile_names_of_engines_and_tiers_are_written_out() -> None:
    record = judged(measured({"a\x1b[31m": Tokens(1, {"local": 0, "x\x07": 1})}, aside={"b\x00": Tokens(1, {})}))
    assert (list(record["engines"]), list(record["aside"])) == (["a\\x1b[31m"], ["b\\x00"])
    assert list(record["tiers"]) == ["local", "x\\x07", "external"]
    assert list(record["engines"]["a\\x1b[31m"]["tiers"]) == ["local", "x\\x07"]
