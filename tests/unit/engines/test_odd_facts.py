"""Facts that no server should tell: too long for Python, in other digits, not a number. Unknown, never a traceback."""

from __future__ import annotations

import pytest

from pytest_kvcache.answers import Page, parse_json
from pytest_kvcache.endpoint import MetricsSource
from pytest_kvcache.engines import Reader, shipped
from pytest_kvcache.engines.counters import check_same_process, tokens_by_engine
from pytest_kvcache.errors import CounterReset, ProtocolError
from pytest_kvcache.scrape import Snapshot

LONG = "9" * 5000
BORN = "process_start_time_seconds"


def snapshot(**values: float) -> Snapshot:
    return Snapshot(0.0, {(name, ()): value for name, value in values.items()}, "page")


def test_a_version_too_long_for_python_is_unknown() -> None:
    names = {"vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"}
    variant = shipped().get("vllm").variant(LONG, names)
    assert variant is not None
    assert variant.id == "v1-lookup-preempted"


def test_a_rank_too_long_for_python_is_a_rank() -> None:
    profile = shipped().get("sglang")
    variant = profile.variants[0]
    query = variant.query[0].sample
    samples = {(query, (("mode", "input"), ("tp_rank", rank))): 100.0 for rank in ("0", LONG)}
    reader = Reader(MetricsSource("http://h"), profile, variant)
    after = Snapshot(1.0, samples, "page")
    assert sum(t.query for t in tokens_by_engine(reader, Snapshot(0.0, {}, "page"), after).values()) == 100


def test_a_start_time_that_is_no_number_tells_nothing() -> None:
    reader = Reader(MetricsSource("http://h"), shipped().get("vllm"))
    unknown = snapshot(**{BORN: float("nan")})
    check_same_process(reader, unknown, unknown)
    with pytest.raises(CounterReset):
        check_same_process(reader, snapshot(**{BORN: 1.0}), snapshot(**{BORN: 2.0}))


def test_brackets_without_end_are_no_json() -> None:
    with pytest.raises(ProtocolError, match="expected JSON"):
        parse_json(Page("http://h", 200, "application/json", "[" * 100_000))
