"""Measurements by hand, for reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_kvcache.histogram import Histogram
from pytest_kvcache.model import Exchange, Failure, Measurement, ServerFacts, Tokens, Verdict
from pytest_kvcache.report.record import Record, check_record

INF = float("inf")
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
    """The record of a test, its rate made of the counters."""
    query = sum(m.counters.query for m in measurements if m.counters)
    hit = sum(m.counters.hit for m in measurements if m.counters)
    rate = hit / query if query else None
    verdict = Verdict("fail", "hit rate ...", rate, hit, query, source="counters", **more)
    return check_record("test_a.py::test", verdict, [(m, verdict) for m in measurements])


def lines(record: Record) -> list[str]:
    from pytest_kvcache.report.terminal import section

    return section(record).split("\n")
