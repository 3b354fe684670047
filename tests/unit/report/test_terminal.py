"""Records to lines: one fact a line, aligned, and no line about nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_kvcache.histogram import Histogram
from pytest_kvcache.model import Prediction, Pressure, Tokens
from pytest_kvcache.report.terminal import table

from .made import FACTS, INF, LATE, REFUSED, TEN, WHOLE, judged, lines, measured

HEAD = ["hit rate ...", "  700 of 1,000 hit, by counters · vllm 0.32.0 block 16"]
TAIL = ["  a title", "  cache: not reset"]
PLAIN = Tokens(1000, {"local": 700})


def between(record: dict[str, object]) -> list[str]:
    """The lines that are neither the head nor the tail of every section."""
    found = lines(record)
    assert found[-len(TAIL) :] == TAIL
    return found[2 : -len(TAIL)]


def mean_of(seconds: float) -> Histogram:
    return Histogram((INF,), (2,), 2 * seconds)


def test_one_engine_one_tier_and_no_pressure_is_one_line() -> None:
    assert lines(judged(measured({"0": PLAIN}))) == HEAD + TAIL


def test_engines_beside_each_other() -> None:
    engines = {"0": Tokens(8000, {"local": 7200}), "10": Tokens(0, {"local": 0})}
    assert between(judged(measured(engines))) == [
        "  engine 0   7,200 of 8,000 hit  0.900",
        "  engine 10      0 of     0 hit      -",
    ]


def test_a_name_without_end_takes_no_more_than_its_column() -> None:
    engines = {"0": Tokens(8, {"local": 7}), "x" * 300: Tokens(0, {"local": 0})}
    assert between(judged(measured(engines)))[1] == f"  engine {'x' * 52}…  0 of 0 hit      -"


def test_engine_that_is_not_summed_says_so() -> None:
    record = judged(measured({"prefill": PLAIN}, aside={"decode": Tokens(1000, {"local": 16})}))
    assert between(record) == [
        "  engine prefill  700 of 1,000 hit  0.700",
        "  aside decode     16 of 1,000 hit  0.016 (not summed)",
    ]
    only = judged(measured(aside={"lmcache": Tokens(1000, {"local": 16})}))
    assert "  aside lmcache  16 of 1,000 hit  0.016 (not summed)" in lines(only)


def test_simulated_only_where_it_says_something() -> None:
    simulated = Prediction(412, 1000, (412,), 16, capacity=1584)
    run = measured({"0": PLAIN}, simulated=simulated)
    said = ["  a cache of 1,584 tokens in blocks of 16 reuses 0.412 (simulated)"]
    assert between(judged(run, simulated=0.412, predicted=0.7)) == said
    assert between(judged(run, simulated=0.412, predicted=0.412, target=0.412, target_from="simulated")) == said
    assert between(judged(run, simulated=0.412, predicted=0.412, target=0.412, target_from="predicted")) == []
    assert between(judged(run, predicted=0.7)) == []
    assert between(judged(measured({"0": PLAIN}), simulated=0.412)) == []  # runs on caches of different sizes


def test_requests_that_were_sent_late() -> None:
    late = [replace(WHOLE, scheduled=1.0, sent=1.0 + delay, chunks=()) for delay in (0.0004, 0.0004, 0.0021)]
    found = between(judged(measured({"0": PLAIN}, exchanges=tuple(replace(e, first_content=None) for e in late))))
    assert found == ["  sent 0.4 ms (p50), 1.9 ms (p95) later than scheduled"]


def test_tiers_only_when_several_moved() -> None:
    engine = Tokens(10000, {"local": 6000, "host": 900, "storage": 0})
    assert between(judged(measured({"0": engine}))) == [
        "  tier local  6,000 of 10,000 hit  0.600",
        "  tier host     900 of 10,000 hit  0.090",
    ]
    connector = judged(measured({"0": Tokens(1000, {"local": 640, "external": 60})}))
    assert between(connector) == [
        "  tier local     640 of 1,000 hit  0.640",
        "  tier external   60 of 1,000 hit  0.060",
    ]
    assert between(judged(measured({"0": Tokens(1000, {"local": 700, "external": 0})}))) == []


def test_server_latency_in_the_order_of_a_request() -> None:
    told = {
        "e2e": mean_of(12.3),
        "ttft": mean_of(0.0404),
        "queue": mean_of(0.000014),
        "prefill": mean_of(0.35),
        "itl": Histogram((INF,), (0,), 0.0),
        "block_lifetime": mean_of(1.075),
        "block_reuse_gap": mean_of(0.021),
    }
    assert between(judged(measured({"0": PLAIN}, server_latency=told))) == [
        "  server: queue 14 µs, prefill 350 ms, TTFT 40.4 ms, E2E 12.3 s (means)",
        "  cached blocks: lifetime 1075 ms, reuse gap 21.0 ms (means)",
    ]


@pytest.mark.parametrize(
    ("pressure", "told"),
    [
        (
            Pressure(8, 40, 0.93, 16, 12, 3000),
            ["KV usage 93 % at peak, 12 waiting at peak, 8 preemptions, 40 evicted (3,000 samples)"],
        ),
        (Pressure(1, None, None, None, None), ["1 preemption"]),
        (
            Pressure(0, None, 0.0, 1, 0, 1, 2),
            ["KV usage 0 % at peak, 0 waiting at peak, 0 preemptions (1 sample, 2 missed)"],
        ),
        (Pressure(missed=4), ["not known (0 samples, 4 missed)"]),
        (Pressure(samples=4), []),
        (None, []),
    ],
)
def test_pressure(pressure: Pressure | None, told: list[str]) -> None:
    record = judged(measured({"0": PLAIN}, pressure=pressure))
    assert between(record) == [f"  pressure: {line}" for line in told]


def test_client_figures_stand_before_those_of_the_server() -> None:
    record = judged(measured({"0": PLAIN}, exchanges=(WHOLE, LATE, REFUSED), server_latency={"ttft": TEN}))
    assert lines(record)[1:4] == [
        "  700 of 1,000 hit, by counters · 3 requests, 2 failed, 1 aborted · vllm 0.32.0 block 16",
        "  TTFT 500 ms/500 ms (p50/p95), 1 tok/s output",
        "  server: TTFT 750 ms (means)",
    ]


def test_interval_and_warm_rate_where_they_say_more() -> None:
    record = judged(measured({"0": PLAIN}), ceiling=0.9)
    ideal = "  an ideal cache reaches 0.900, 0.200 more than was measured"
    record["hit_rate"] |= {"low": 0.69, "high": 0.7101, "warm": 0.95}
    assert between(record) == [
        "  between 0.690 and 0.710, as far as the counters can tell",
        "  0.950 over the requests that had something to hit",
        ideal,
    ]
    record["hit_rate"] |= {"low": 0.7, "high": 0.7, "warm": 0.7}
    assert between(record) == [ideal]


def test_unconfirmed_engine_says_so_everywhere() -> None:
    record = judged(measured({"0": PLAIN}, facts=replace(FACTS, unconfirmed=True)))
    assert lines(record)[1] == "  700 of 1,000 hit, by counters · vllm 0.32.0 block 16 (unconfirmed)"
    assert "vllm 0.32.0 block 16 (unconfirmed)  test_a.py::test" in table([record])[1]


def test_table_is_one_aligned_line_a_test() -> None:
    several = {str(n): PLAIN for n in range(3)}
    busy = judged(measured(several, pressure=Pressure(8), server_latency={"ttft": TEN}), target=0.5)
    header, *rows = table([judged(measured({"0": PLAIN})), busy])
    numbers = ["0.700       -          -         700/1,000", "0.700   0.500          -       2,100/3,000"]
    engine = "             -       -  vllm 0.32.0 block 16  test_a.py::test"
    assert rows == [f"fail        {shown}{engine}" for shown in numbers]
    assert header.startswith("verdict  hit rate  target  predicted  hit/query tokens  TTFT p50/p95  output  engine")
    assert table([]) == []
