"""What is said of a run: every figure by hand, nothing about what nobody told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_kvcache.bottleneck import largest, statements
from pytest_kvcache.distribution import Latency
from pytest_kvcache.histogram import Histogram
from pytest_kvcache.model import ClientLoad, Exchange, Failure, Measurement, Pressure, ServerFacts

INF = float("inf")


def spent(seconds: float, count: int = 10) -> Histogram:
    """``count`` observations of so many seconds together."""
    return Histogram((INF,), (count,), seconds)


def answer(ttft: float, scheduled: float | None = None) -> Exchange:
    """An answer of two tokens, its first so many seconds after it was sent."""
    began = 1.0 if scheduled is None else scheduled
    return Exchange(
        "load", 0.0, began + ttft + 1, scheduled=scheduled, sent=1.0, first_content=began + ttft, completion_tokens=2
    )


def failed(kind: str, status: int | None = None) -> Exchange:
    return Exchange("load", 0.0, 2.0, sent=1.0, status=status, failure=Failure(kind, "SECRET of the server"))


def said(ttfts: tuple[float, ...] = (), **more: Any) -> list[str]:
    exchanges = more.pop("exchanges", tuple(map(answer, ttfts)))
    return statements(Measurement("t", ServerFacts("vllm", "m"), {}, exchanges=exchanges, **more))


def test_nothing_known_is_nothing_said() -> None:
    assert said() == said((0.1,)) == []
    assert said((0.1,), pressure=Pressure(), client=ClientLoad(Latency(), Latency(), None)) == []
    empty = {name: spent(0.0, 0) for name in ("queue", "prefill", "decode", "ttft", "e2e")}
    assert said((0.1,), server_latency=empty) == []


# --- the server's time -----------------------------------------------------------------------------------------------


def test_what_takes_most_of_the_servers_time() -> None:
    told = {"queue": spent(0.5), "prefill": spent(1.5), "decode": spent(8.0)}
    assert said(server_latency=told)[0] == (
        "decode takes most of the server's time: 80 % (800 ms a request); prefill 15 % (150 ms), queue 5 % (50.0 ms)"
    )


def test_no_part_takes_most_when_none_takes_half() -> None:
    told = {"queue": spent(3.0), "prefill": spent(4.0), "decode": spent(3.0)}
    assert said(server_latency=told)[0].startswith("prefill takes the largest part of the server's time: 40 %")
    half = {"queue": spent(2.0), "prefill": spent(5.0), "decode": spent(3.0)}
    assert "largest part" in said(server_latency=half)[0]


def test_sums_are_compared_and_not_means() -> None:
    # one request in ten is decoded at all, for long: per request it is the slowest, of all time it is not
    told = {"queue": spent(0.0), "prefill": spent(9.0), "decode": spent(2.0, 1)}
    assert said(server_latency=told)[0] == (
        "prefill takes most of the server's time: 82 % (900 ms a request); decode 18 % (2000 ms), queue 0 % (0.0 ms)"
    )


def test_a_part_that_is_not_told_is_a_difference_of_the_same_requests() -> None:
    told = {"queue": spent(1.0), "ttft": spent(4.0), "e2e": spent(10.0)}
    assert said(server_latency=told)[0] == (
        "decode takes most of the server's time: 60 % (600 ms a request); prefill 30 % (300 ms), queue 10 % (100 ms);"
        " not told by the engine: prefill = TTFT - queue, decode = E2E - TTFT"
    )
    assert not any("time:" in line for line in said(server_latency={**told, "e2e": spent(10.0, 9)}))
    assert not any("time:" in line for line in said(server_latency={**told, "e2e": spent(3.0)}))  # a contradiction


def test_the_largest_part_by_itself() -> None:
    assert largest({"queue": spent(3.0), "prefill": spent(4.0), "decode": spent(3.0)}) == "prefill"
    assert largest({"queue": spent(1.0), "ttft": spent(4.0), "e2e": spent(10.0)}) == "decode"
    assert largest({"queue": spent(1.0), "prefill": spent(4.0)}) is None
    assert largest({part: spent(0.0) for part in ("queue", "prefill", "decode")}) is None


@pytest.mark.parametrize("missing", ["queue", "prefill", "decode"])
def test_without_one_of_the_parts_none_takes_most(missing: str) -> None:
    told = {"queue": spent(1.0), "prefill": spent(2.0), "decode": spent(3.0)}
    del told[missing]
    assert not any("server's time" in line for line in said(server_latency=told))
    assert not any("server's time" in line for line in said(server_latency={**told, missing: spent(0.0, 0)}))


# --- waiting ---------------------------------------------------------------------------------------------------------


def test_requests_waited_in_the_server() -> None:
    told = {"queue": spent(1.8), "ttft": spent(4.2)}
    assert said(server_latency=told, pressure=Pressure(waiting_peak=12)) == [
        "requests waited in the server: 12 waiting at peak, 180 ms in the queue on average, 43 % of TTFT"
    ]


def test_a_queue_alone_tells_and_a_sample_alone_tells() -> None:
    told = {"queue": spent(0.5), "ttft": spent(10.0)}
    assert said(server_latency=told) == ["requests waited in the server: 50.0 ms in the queue on average, 5 % of TTFT"]
    assert said(pressure=Pressure(waiting_peak=3)) == ["requests waited in the server: 3 waiting at peak"]


def test_they_hardly_waited() -> None:
    told = {"queue": spent(0.00014), "ttft": spent(0.4)}
    assert said(server_latency=told, pressure=Pressure(waiting_peak=0)) == [
        "requests hardly waited in the server: 0 waiting at peak, 14 µs in the queue on average, < 1 % of TTFT"
    ]
    assert said(server_latency=told) == [
        "requests hardly waited in the server: 14 µs in the queue on average, < 1 % of TTFT"
    ]
    assert said(pressure=Pressure(waiting_peak=0)) == ["requests hardly waited in the server: 0 waiting at peak"]


def test_the_clients_ttft_stands_in_where_the_engine_tells_none() -> None:
    assert said((0.2, 0.4), server_latency={"queue": spent(0.9)}) == [
        "requests waited in the server: 90.0 ms in the queue on average, 30 % of TTFT"
    ]
    assert said(server_latency={"queue": spent(0.9)}) == []  # against what?


# --- the cache -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pressure", "told"),
    [
        (Pressure(preemptions=12, kv_usage_peak=0.98), "filled the cache: KV usage 98 % at peak, 12 preemptions"),
        (Pressure(preemptions=1), "filled the cache: 1 preemption"),
        (Pressure(kv_usage_peak=0.9), "filled the cache: KV usage 90 % at peak"),
        (Pressure(kv_usage_peak=0.89), "left room in the cache: KV usage 89 % at peak"),
        (
            Pressure(preemptions=0, kv_usage_peak=0.34, evictions=40),
            "left room in the cache: KV usage 34 % at peak, 0 preemptions, 40 evicted",
        ),
    ],
)
def test_pressure_on_the_cache(pressure: Pressure, told: str) -> None:
    assert said(pressure=pressure) == [f"running requests {told}"]


def test_evictions_alone_do_not_tell_whether_running_requests_filled_it() -> None:
    assert said(pressure=Pressure(evictions=40)) == []


# --- the way and the client ------------------------------------------------------------------------------------------


def test_time_between_engine_and_client() -> None:
    told = {"ttft": spent(0.6, 2)}
    assert said((0.3, 0.5), server_latency=told) == [
        "25 % of TTFT lie between engine and client: 400 ms on average as the client saw it, 300 ms as the engine did"
    ]
    assert said((0.3, 0.35), server_latency=told) == []  # less than a tenth
    assert said((0.9,), server_latency=told) == []  # other requests
    assert said((0.0019,), server_latency={"ttft": spent(0.001, 1)}) == []  # less than a millisecond
    due = (answer(0.3, scheduled=0.5), answer(0.5, scheduled=0.5))
    assert said(exchanges=due, server_latency=told) == []  # another clock


def test_the_client_kept_up() -> None:
    client = ClientLoad(Latency.of([0.0, 0.001, 0.002]), Latency.of([0.0, 0.004]), 0.43)
    assert said((0.1,), client=client) == [
        "the client kept up: event loop late by 1.0 ms p50, 2.0 ms p99, 2.0 ms max; queueing 2.0 ms p50, 3.8 ms p95;"
        " its share of TTFT at most 2 %; CPU 43 % busy"
    ]


def test_the_client_may_have_been_the_bottleneck() -> None:
    late = ClientLoad(Latency.of([0.01]), Latency(), None, processes=4)
    assert said((0.0625,), client=late) == [
        "the client may have been the bottleneck (4 processes): event loop late by 10.0 ms p50, 10.0 ms p99,"
        " 10.0 ms max; its share of TTFT at most 16 %"
    ]
    later = ClientLoad(Latency.of([0.5]), Latency(), None)
    assert said((0.1,), client=later)[0].endswith("its share of TTFT at most 100 %")
    busy = ClientLoad(Latency(), Latency(), 0.9)
    assert said((0.1,), client=busy) == ["the client may have been the bottleneck: CPU 90 % busy"]
    assert said((0.1,), client=replace(busy, busy=0.89)) == ["the client kept up: CPU 89 % busy"]
    assert said(client=late) == [
        "the client, without a TTFT to hold it against (4 processes): event loop late by 10.0 ms p50,"
        " 10.0 ms p99, 10.0 ms max"
    ]


def test_the_queue_of_the_client_is_part_of_what_an_open_loop_measures() -> None:
    client = ClientLoad(Latency.of([0.001]), Latency.of([0.02]), None)
    (closed,) = said((0.1,), client=client)
    (opened,) = said(exchanges=(answer(0.125, scheduled=0.9),), client=client)
    assert closed.startswith("the client kept up")
    assert "at most 1 %" in closed
    assert opened.startswith("the client may have been the bottleneck")
    assert "at most 17 %" in opened  # rounded up


# --- errors ----------------------------------------------------------------------------------------------------------


def test_errors_by_class_without_what_the_server_said() -> None:
    exchanges = (
        answer(0.1),
        failed("timeout"),
        failed("http", 429),
        failed("http", 429),
        failed("http", 503),
        failed("connect"),
        failed("cut"),
        failed("server"),
        failed("protocol"),
        failed("http"),
    )
    assert said(exchanges=exchanges) == [
        "9 of 10 requests failed: 2 HTTP 429, 1 timeout, 1 HTTP 503, 1 no connection, 1 cut off,"
        " 1 error inside an answer, 1 answer not understood, 1 HTTP error"
    ]


def test_the_order_is_that_of_a_request_the_server_first() -> None:
    client = ClientLoad(Latency.of([0.001]), Latency(), None)
    told = {"queue": spent(1.0, 1), "prefill": spent(1.0, 1), "decode": spent(1.0, 1), "ttft": spent(2.0, 1)}
    found = said(
        exchanges=(answer(5.0), failed("cut")), server_latency=told, pressure=Pressure(preemptions=0), client=client
    )
    assert [line.split()[0] for line in found] == ["queue", "requests", "running", "60", "the", "1"]
