"""What changes with the load and with the hit rate: curves whose answer is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from pytest_kvcache.distribution import Latency
from pytest_kvcache.histogram import Histogram
from pytest_kvcache.model import Level, Limit, Measurement, Pressure, ServerFacts, Stretch
from pytest_kvcache.trend import AtRate, against_hit_rate, of_levels


def level(
    value: float,
    output: float = 0.0,
    ttft: float | None = None,
    *,
    pressure: Pressure | None = None,
    requests: int = 100,
    title: str = "w",
    rate: bool = False,
) -> Measurement:
    """Ten seconds at one level."""
    asked = Level(rate=value) if rate else Level(concurrency=int(value))
    samples = Latency() if ttft is None else Latency.of([ttft])
    none = Latency()
    stretch = Stretch(asked, 0.0, 10.0, requests, 0, 10 * output, None, None, samples, none, none, none)
    return Measurement(title, ServerFacts("vllm", "m"), {}, stretch=stretch, pressure=pressure)


PARTS = ("queue", "prefill", "decode")


def seconds(total: float) -> Histogram:
    return Histogram((float("inf"),), (10,), total)


def curve(outputs: Sequence[float], levels: Sequence[float] = (10, 20, 40, 80)) -> list[str]:
    return of_levels(level(at, output) for at, output in zip(levels, outputs, strict=False))


def waits(ttfts: Iterable[float | None], levels: Sequence[float] = (10, 20, 40, 80)) -> list[str]:
    return of_levels(level(at, 0.0, ttft) for at, ttft in zip(levels, ttfts, strict=False))


def test_nothing_is_said_of_one_level_or_of_none() -> None:
    plain = Measurement("w", ServerFacts("vllm", "m"), {}, pressure=Pressure(preemptions=9, kv_usage_peak=1.0))
    assert of_levels([]) == of_levels([plain, plain]) == of_levels([level(10, 100.0, 0.1)]) == []


# --- throughput ------------------------------------------------------------------------------------------------------


def test_throughput_stops_growing_where_no_higher_level_brings_a_tenth_of_the_rise() -> None:
    assert curve([100, 200, 290, 300]) == [
        "output stops growing from concurrency 40 on: 290 tok/s there, 300 tok/s at 80"
    ]
    assert curve([100, 104]) == ["output stops growing from concurrency 10 on: 100 tok/s there, 104 tok/s at 20"]


def test_throughput_that_falls() -> None:
    assert curve([100, 200, 150, 120]) == ["output falls from concurrency 20 on: 200 tok/s there, 120 tok/s at 80"]
    assert curve([100, 200, 185, 181])[0].startswith(
        "output stops growing from concurrency 20 on"
    )  # by a tenth at most


def test_throughput_that_still_grows() -> None:
    assert curve([100, 190, 300, 340]) == [
        "output still grows at the highest level: 300 tok/s at concurrency 40, 340 tok/s at 80"
    ]  # 13 % for twice the load


def test_a_dent_is_no_end_of_growth() -> None:
    assert curve([100, 100, 200, 400])[0].startswith("output still grows")
    assert curve([100, 200, 190, 400])[0].startswith("output still grows")


def test_growth_is_measured_against_that_of_the_level() -> None:
    assert curve([100, 109], [10, 20])[0].startswith("output stops growing")  # 9 % for 100 %
    assert curve([100, 109], [10, 11])[0].startswith("output still grows")  # 9 % for 10 %


def test_no_throughput_is_no_statement() -> None:
    assert curve([0, 0, 0]) == []
    assert curve([0, 100]) == []


# --- TTFT ------------------------------------------------------------------------------------------------------------


def test_ttft_grows_faster_than_the_load() -> None:
    assert waits([0.1, 0.15, 0.45, 2.0]) == [
        "TTFT p50 grows faster than the load from concurrency 20 on: 150 ms at 20, 450 ms at 40, 2000 ms at 80"
    ]
    assert waits([0.1, 0.3]) == [
        "TTFT p50 grows faster than the load from concurrency 10 on: 100 ms at 10, 300 ms at 20"
    ]


@pytest.mark.parametrize(
    "ttfts",
    [
        (0.1, 0.1, 0.1, 0.1),
        (0.1, 0.2, 0.4, 0.8),  # linear
        (0.1, 0.219, 0.4, 0.7),  # by less than a tenth more than linear
        (0.0001, 0.0005, 0.001, 0.0015),  # by less than a millisecond at once
        (0.1, 0.5, 0.2, 0.3),  # it comes back
        (None, None, 0.1, None),
    ],
)
def test_ttft_that_grows_no_faster(ttfts: Sequence[float | None]) -> None:
    assert waits(ttfts) == []


def test_a_level_without_ttft_is_left_out() -> None:
    assert waits([0.1, None, 0.3, 0.9]) == [
        "TTFT p50 grows faster than the load from concurrency 40 on: 300 ms at 40, 900 ms at 80"
    ]


def test_levels_with_few_answers_are_not_compared() -> None:
    few = [level(10, 100.0, 0.1), level(20, 100.0, 0.9, requests=4), level(40, 400.0, 0.2)]
    assert of_levels(few) == ["output still grows at the highest level: 100 tok/s at concurrency 10, 400 tok/s at 40"]
    assert of_levels(few[:2]) == []
    enough = [few[0], level(20, 100.0, 0.9, requests=5)]
    assert len(of_levels(enough)) == 2


def test_the_highest_level_that_is_compared_is_not_called_the_highest() -> None:
    lost = [level(10, 100.0, 0.1), level(20, 200.0, 0.1), level(40, 0.0, None, requests=0)]
    assert of_levels(lost) == ["output still grows up to concurrency 20: 100 tok/s at concurrency 10, 200 tok/s at 20"]


# --- the cache and the queue -----------------------------------------------------------------------------------------


def pressed(*several: Pressure | None) -> list[str]:
    return of_levels(level(10 * 2**n, pressure=pressure) for n, pressure in enumerate(several))


def test_where_preemptions_begin_and_the_cache_is_full() -> None:
    assert pressed(
        Pressure(preemptions=0, kv_usage_peak=0.3),
        Pressure(preemptions=0, kv_usage_peak=0.91),
        Pressure(preemptions=12, kv_usage_peak=1.0),
        Pressure(preemptions=55, kv_usage_peak=1.0),
    ) == [
        "requests are preempted from concurrency 40 on: 12 at 40, 55 at 80",
        "the cache is full from concurrency 20 on: KV usage 91 % at peak",
    ]


def test_how_far_it_stayed_away() -> None:
    quiet = [Pressure(preemptions=0, kv_usage_peak=usage) for usage in (0.1, 0.34, 0.3)]
    assert pressed(*quiet) == ["KV usage peaks at 34 %, at concurrency 20; no preemptions"]
    untold = [Pressure(kv_usage_peak=0.1), Pressure(preemptions=0, kv_usage_peak=0.2)]
    assert pressed(*untold) == ["KV usage peaks at 20 %, at concurrency 20"]  # of one level nobody told preemptions
    assert pressed(None, Pressure()) == []


def test_where_requests_begin_to_wait() -> None:
    assert pressed(Pressure(waiting_peak=0), Pressure(), Pressure(waiting_peak=7), Pressure(waiting_peak=30)) == [
        "requests wait in the server from concurrency 40 on: 7 at peak"
    ]
    assert pressed(Pressure(waiting_peak=0), Pressure(waiting_peak=0)) == []


def test_what_goes_away_at_a_higher_level_is_not_from_there_on() -> None:
    assert pressed(
        Pressure(waiting_peak=3, preemptions=2, kv_usage_peak=0.95),
        Pressure(waiting_peak=0, preemptions=0, kv_usage_peak=0.5),
        Pressure(waiting_peak=1200, preemptions=1, kv_usage_peak=0.93),
    ) == [
        "requests wait in the server at some levels, at peak: 3 at concurrency 10, 1,200 at concurrency 40",
        "requests are preempted at some levels: 2 at concurrency 10, 1 at concurrency 40",
        "the cache is full at concurrency 10: KV usage 95 % at peak",
    ]


def test_what_takes_the_servers_time_where_that_changes() -> None:
    def of(largest: str | None, at: int) -> Measurement:
        told = {} if largest is None else {p: seconds(5.0 if p == largest else 2.0) for p in PARTS}
        return replace(level(at), server_latency=told)

    assert of_levels([of("decode", 10), of(None, 15), of("decode", 20), of("queue", 40), of("queue", 80)]) == [
        "the largest part of the server's time is decode at first, queue from concurrency 40 on"
    ]
    assert of_levels([of("decode", 10), of(None, 20), of("decode", 40)]) == []
    assert of_levels([of("decode", 1), of("prefill", 2), of("queue", 3)]) == [
        "the largest part of the server's time is decode at first, prefill from concurrency 2 on,"
        " queue from concurrency 3 on"
    ]


def test_repetitions_of_a_level_are_added_up_before_their_parts_are_compared() -> None:
    once = {"queue": seconds(1.0), "prefill": seconds(3.0), "decode": seconds(2.0)}
    again = {"queue": seconds(1.0), "prefill": seconds(1.0), "decode": seconds(9.0)}
    mixed = [replace(level(10), server_latency=told) for told in (once, again)]
    other = replace(level(20), server_latency=once)
    assert of_levels([*mixed, other])[1:] == [
        "the largest part of the server's time is decode at first, prefill from concurrency 20 on"
    ]


# --- repetitions, rates, workloads -----------------------------------------------------------------------------------


def test_repetitions_have_mean_and_deviation_and_are_one_level() -> None:
    several = [level(10, output, ttft) for output, ttft in ((100.0, 0.1), (110.0, 0.3))]
    assert of_levels(several) == ["concurrency 10, 2 times: output 105 tok/s ± 7.1 tok/s, TTFT p50 200 ms ± 141 ms"]
    assert of_levels([*several, level(20, 210.0, 0.2)])[1] == (
        "output still grows at the highest level: 105 tok/s at concurrency 10, 210 tok/s at 20"
    )
    assert of_levels([level(10, 100.0, 0.1), level(10, 110.0)]) == [
        "concurrency 10, 2 times: output 105 tok/s ± 7.1 tok/s"
    ]


def test_the_order_in_which_levels_came_does_not_matter() -> None:
    there = [level(at, output) for at, output in ((10, 100.0), (20, 200.0), (40, 210.0))]
    assert of_levels(there) == of_levels(there[::-1])


def test_rates_are_levels_too() -> None:
    assert of_levels([level(0.5, 100.0, rate=True), level(1.0, 101.0, rate=True)]) == [
        "output stops growing from 0.5 req/s on: 100 tok/s there, 101 tok/s at 1"
    ]


def test_workloads_are_told_apart() -> None:
    several = [level(at, output, title=title) for title in ("a", "b") for at, output in ((10, 100.0), (20, 200.0))]
    assert of_levels(several) == [
        f"{title}: output still grows at the highest level: 100 tok/s at concurrency 10, 200 tok/s at 20"
        for title in ("a", "b")
    ]
    assert of_levels([level(10, 100.0), level(20, 200.0, rate=True)]) == []


def test_a_search_is_not_one_of_the_levels() -> None:
    found = level(20, 900.0)
    search = replace(found, limit=Limit(Level(20), None, (), True, found.stretch, "held"))
    assert of_levels([level(10, 100.0), search]) == []


# --- hit rates -------------------------------------------------------------------------------------------------------


def against(*ttfts: float | None, rates: Sequence[float] = (0.0, 0.5, 0.95)) -> list[str]:
    return against_hit_rate(AtRate(rate, ttft) for rate, ttft in zip(rates, ttfts, strict=False))


def test_ttft_falls_as_the_hit_rate_rises() -> None:
    assert against(0.4, 0.2, 0.05) == [
        "TTFT p50 falls as the hit rate rises: 400 ms at 0.000, 50.0 ms at 0.950 (88 % less)"
    ]
    assert against(0.05, 0.4, 0.2, rates=(0.95, 0.0, 0.5)) == against(0.4, 0.2, 0.05)


def test_ttft_that_does_not_fall() -> None:
    assert against(0.4, 0.2, 0.39) == ["TTFT p50 does not fall as the hit rate rises: 400 ms at 0.000, 390 ms at 0.950"]
    assert against(0.4, 0.2, 0.379)[0].startswith("TTFT p50 falls")


def test_ttft_that_falls_and_rises_on_the_way() -> None:
    assert against(0.4, 0.1, 0.2) == [
        "TTFT p50 falls as the hit rate rises: 400 ms at 0.000, 200 ms at 0.950 (50 % less);"
        " but it rises from 100 ms at 0.500 to 200 ms at 0.950"
    ]
    assert "but" not in against(0.4, 0.1, 0.105)[0]


def test_rates_that_hardly_differ_and_single_ones_say_nothing() -> None:
    assert against(0.4, 0.1, rates=(0.5, 0.59)) == against(0.4) == against(None, 0.4, None) == against() == []


def test_throughput_against_the_hit_rate() -> None:
    def told(before: float, after: float) -> list[str]:
        return against_hit_rate([AtRate(0.0, None, before), AtRate(0.5, None), AtRate(0.9, None, after)])

    assert told(100.0, 250.0) == ["output rises with the hit rate: 100 tok/s at 0.000, 250 tok/s at 0.900 (2.50 times)"]
    assert told(100.0, 105.0) == told(100.0, 50.0) == []


def test_the_level_that_holds_against_the_hit_rate() -> None:
    def told(before: float, after: float, high: float = 0.9) -> list[str]:
        return against_hit_rate([AtRate(0.0, None, held=before), AtRate(high, None, held=after)])

    assert told(12, 24) == ["the level that holds rises with the hit rate: 12 at 0.000, 24 at 0.900 (2.00 times)"]
    assert told(12, 12) == told(0, 12) == told(12, 24, high=0.09) == []
