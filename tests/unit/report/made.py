"""Measurements by hand, for reports."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

from pytest_kvcache.capacity.curve import Curve
from pytest_kvcache.distribution import Latency
from pytest_kvcache.histogram import Histogram
from pytest_kvcache.model import (
    Attained,
    Exchange,
    Failure,
    Level,
    Limit,
    Measurement,
    Objective,
    Period,
    PerRequest,
    Regression,
    ServerFacts,
    Stretch,
    Tokens,
    Verdict,
)
from pytest_kvcache.model.objective import Reached
from pytest_kvcache.regression.values import Entry, Group
from pytest_kvcache.report.record import Record, check_record
from pytest_kvcache.rows import Row
from pytest_kvcache.traces import Trace

INF = float("inf")
ASKED = ((Objective("ttft", "p95", 2.0, True, "ttft_p95"),), PerRequest(tpot=0.1))
FACTS = ServerFacts("vllm", "m", variant="v1", version="0.32.0", block_size=16)
TEN = Histogram((0.1, 0.5, 1.0, INF), (2, 4, 3, 1), 7.5)
WHOLE = Exchange("load", 0.0, 3.0, sent=1.0, first_content=1.5, chunks=(1.5, 2.0), completion_tokens=2)
LATE = Exchange("load", 0.0, 9.0, sent=1.0, failure=Failure("timeout", "no answer"))
CUT = Exchange("load", 0.0, 9.0, sent=1.0, status=200, failure=Failure("cut", "half"))
GIVEN_UP = replace(WHOLE, finish_reason="abort")
REFUSED = Exchange("load", 0.0, 9.0, failure=Failure("connect", "refused"))


def measured(engines: dict[str, Tokens] | None = None, **more: Any) -> Measurement:
    facts = more.pop("facts", FACTS)
    return Measurement("a title", facts, engines or {}, cache_state="not reset", **more)


def judged(*measurements: Measurement, **more: Any) -> Record:
    """The record of a test, its rate made of the counters; what is said of the test is said of each of its runs."""
    query = sum(m.counters.query for m in measurements if m.counters)
    hit = sum(m.counters.hit for m in measurements if m.counters)
    rate = hit / query if query else None
    nodeid, sweep, entry = more.pop("nodeid", "test_a.py::test"), more.pop("sweep", None), more.pop("entry", None)
    verdict = Verdict(more.pop("status", "fail"), "hit rate ...", rate, hit, query, source="counters", **more)
    return check_record(nodeid, verdict, [(m, verdict) for m in measurements], sweep=sweep, entry=entry)


def lines(record: Record) -> list[str]:
    from pytest_kvcache.report.terminal import section

    return section(record).split("\n")


def samples(*values: float) -> Latency:
    return Latency.of(values)


def stretch(level: Level, **more: Any) -> Stretch:
    """Ten seconds, two answers and a failure."""
    told: dict[str, Any] = {
        "start": 100.0,
        "end": 110.0,
        "requests": 2,
        "failed": 1,
        "output_tokens": 1000.0,
        "input_tokens": 400,
        "hit_tokens": 100,
        "ttft": samples(0.1, 0.3),
        "tpot": samples(0.02),
        "e2e": samples(1.0, 3.0),
        "tokens_per_s": samples(10.0, 30.0),
    }
    return Stretch(level, **(told | more))


def at(concurrency: int, run: Measurement | None = None, **more: Any) -> Measurement:
    """A run at one level."""
    return replace(run or measured({"0": Tokens(1000, {"local": 700})}), stretch=stretch(Level(concurrency), **more))


def search(*periods: Period, held: int | None = 12, breached: int | None = 14, **more: Any) -> Measurement:
    """A search for the limit."""
    level = None if held is None else Level(held)
    beyond = None if breached is None else Level(breached)
    kept = None if level is None else stretch(level, output_tokens=4800.0, requests=60)
    limit = Limit(level, beyond, periods, more.pop("converged", True), kept, "concurrency 12 held ...", *ASKED)
    return replace(measured({"0": Tokens(1000, {"local": 700})}), stretch=kept, limit=limit, **more)


ENTRY = Entry(
    {
        "engine": "vllm",
        "variant": "v1",
        "engine_version": "0.32.0",
        "model": "m",
        "block_size": 16,
        "simulated": False,
        "counted": "tokens by counters",
        "workload": "a title",
        "sent": "0123456789ab",
    },
    [Group("", 2, {"hit_rate": [0.7, None]})],
)


def regressed(name: str = "ttft_p95", verdict: Reached = "fail", where: str = "", **more: Any) -> Regression:
    """What became of a comparison of TTFT."""
    figures = {"baseline": 0.12, "measured": 0.138, "change": 0.15, "low": 0.11, "high": 0.19, "p": 0.004}
    told = {"allowed": 0.1, "relative": True, "n": 5, "n_baseline": 6, "sentence": "TTFT p95 rose from ...", **figures}
    return Regression(name, where, verdict, **(told | more))


def reached(name: str = "ttft_p95", verdict: Reached = "pass", value: float | None = 1.31, note: str = "") -> Attained:
    """What became of a limit of TTFT."""
    objective = Objective("ttft", "p95", 2.0, True, name)
    return Attained(objective, verdict, value, 1.2, 1.4, 812, f"{name}: 1.310 s, wanted at most 2.000 s", note)


def swept(rounds: int = 3, sessions: int = 60, *, sampled: bool = False) -> Curve:
    """The curve of sessions that take turns: each asks for the same 8 blocks of 16 tokens in each round."""
    rows = [
        Row(1, 128, array("q", range(8 * session, 8 * session + 8)), session=str(session))
        for _ in range(rounds)
        for session in range(sessions)
    ]
    trace = Trace.of(rows, block_size=16, bytes_per_token=1024.0, ids="prefix", name="turns")
    return trace.sweep(sample=0.5) if sampled else trace.sweep()
