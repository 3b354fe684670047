"""Histograms of a page over a window: recordings of a real vLLM, and pages that must not be believed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_kvcache.endpoint import MetricsSource
from pytest_kvcache.engines.histograms import histograms
from pytest_kvcache.engines.profile import Profile
from pytest_kvcache.engines.reader import Reader
from pytest_kvcache.errors import CounterReset
from pytest_kvcache.histogram import Histogram, Quantile
from pytest_kvcache.scrape import Snapshot
from pytest_kvcache.scrape.page import parse
from pytest_kvcache.scrape.snapshot import spellings

DATA = Path(__file__).parent.parent / "data" / "vllm-0.32.0"
INF = float("inf")
VLLM = {
    "ttft": "vllm:time_to_first_token_seconds",
    "queue": "vllm:request_queue_time_seconds",
    "itl": "vllm:inter_token_latency_seconds",
    "prefill": "vllm:request_prefill_time_seconds",
    "block_lifetime": "vllm:kv_block_lifetime_seconds",
}


def reader(latency: Mapping[str, str], **more: object) -> Reader:
    profile = Profile.model_validate({"id": "x", "title": "X", "latency": latency, **more})
    return Reader(MetricsSource("http://h/metrics"), profile)


def page(text: str, wanted: Reader) -> Snapshot:
    samples, kinds = parse(text, spellings(wanted.profile.samples()), "the page")
    return Snapshot(0.0, samples, "the page", kinds=kinds)


def recorded(before: str, after: str) -> dict[str, Histogram]:
    vllm = reader(VLLM)
    return histograms(vllm, page((DATA / before).read_text(), vllm), page((DATA / after).read_text(), vllm))


def mean_ms(histogram: Histogram) -> float:
    assert histogram.mean is not None
    return histogram.mean * 1000


def test_small_cache_under_pressure() -> None:
    found = recorded("20_small_kv_before.prom", "21_small_kv_after_eviction_and_preemption.prom")
    ttft = found["ttft"]
    # le 0.001 .. 0.5 on the page: 0 9 33 41 50 50 51 51 56 59
    assert ttft.bounds[:10] == (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5)
    assert ttft.counts == (0, 9, 24, 8, 9, 0, 1, 0, 5, 3, *[0] * 13)
    assert mean_ms(ttft) == pytest.approx(2969.592332839966 / 59)
    # rank 29.5, behind the 9 up to 5 ms, among the 24 up to 10 ms; rank 56.05, behind 56, among 3 up to 500 ms
    assert ttft.quantile(0.5) == Quantile(pytest.approx(0.005 + 0.005 * 20.5 / 24), 0.005, 0.01)
    assert ttft.quantile(0.95) == Quantile(pytest.approx(0.25 + 0.25 * 0.05 / 3), 0.25, 0.5)
    assert (found["queue"].count, mean_ms(found["queue"])) == (59, pytest.approx(0.8485650009788515 / 59))
    assert (found["itl"].count, mean_ms(found["itl"])) == (5595, pytest.approx(55332.79924600083 / 5595))


def test_only_the_window_counts() -> None:
    ttft = recorded("02_after_first.prom", "03_after_identical.prom")["ttft"]
    assert ttft.count == 1  # the first request's 216 ms lie before the window
    assert mean_ms(ttft) == pytest.approx(243.38507652282715 - 216.37630462646484)
    assert ttft.quantile(0.5) == Quantile(pytest.approx(0.03), 0.02, 0.04)


def test_engines_of_one_page_are_added_up() -> None:
    found = recorded("40_data_parallel_2_before.prom", "40_data_parallel_2_after.prom")
    # le 0.005 .. 0.25: 0 36 49 55 56 57 59 82 of engine 0, 0 27 50 53 57 61 64 80 of engine 1
    assert found["ttft"].counts[:9] == (0, 0, 36 + 27, 13 + 23, 6 + 3, 1 + 4, 1 + 4, 2 + 3, 23 + 16)
    assert found["ttft"].count == 82 + 80
    assert found["ttft"].sum == pytest.approx(3.9432923793792725 + 3.47050404548645)
    assert (found["prefill"].count, found["prefill"].sum) == (
        162,
        pytest.approx(3.696866938997573 + 3.2523541749999367),
    )
    assert (found["itl"].count, found["itl"].mean) == (0, None)  # every answer was one token
    assert "block_lifetime" not in found  # only with --kv-cache-metrics


def test_family_without_observations_is_there_with_none() -> None:
    found = recorded("03_after_identical.prom", "03_after_identical.prom")
    assert (found["ttft"].count, found["ttft"].mean, found["ttft"].quantile(0.5)) == (0, None, None)


# --- pages that must not be believed ---------------------------------------------------------------------------------

T = reader({"ttft": "t"})


def text(buckets: Mapping[str, object], count: object, total: object, labels: str = "") -> str:
    lines = [f't_bucket{{{labels}le="{bound}"}} {value}' for bound, value in buckets.items()]
    wrapped = f"{{{labels.rstrip(',')}}}"
    return "\n".join([*lines, f"t_count{wrapped} {count}", f"t_sum{wrapped} {total}", ""])


BEFORE = text({"0.1": 1, "1": 2, "+Inf": 2}, 2, 0.5)


def window(after: str, before: str = BEFORE, using: Reader = T) -> dict[str, Histogram]:
    return histograms(using, page(before, using), page(after, using))


def test_by_hand() -> None:
    assert window(text({"0.1": 3, "1": 8, "+Inf": 9}, 9, 6.5)) == {"ttft": Histogram((0.1, 1.0, INF), (2, 4, 1), 6.0)}


@pytest.mark.parametrize(
    "after",
    [
        text({"0.1": 3, "1": 8, "+Inf": 9}, 8, 6.5),
        text({"0.1": 9, "1": 8, "+Inf": 9}, 9, 6.5),
        text({"0.1": 3, "1": 8, "+Inf": 9, "fast": 9}, 9, 6.5),
        text({"0.1": 3, "1": 8, "+Inf": 9, "NaN": 9}, 9, 6.5),
        text({"0.1": 3.5, "1": 8, "+Inf": 9}, 9, 6.5),
        text({"0.1": "NaN", "1": 8, "+Inf": 9}, 9, 6.5),
        text({"0.1": 3, "1": 8, "+Inf": 9}, 9, "NaN"),
        text({"0.1": 3, "1": 8, "+Inf": 9}, 9, 0.25),
    ],
    ids=["count", "falling", "bound", "NaN bound", "half", "NaN bucket", "NaN sum", "sum fell"],
)
def test_family_that_contradicts_itself_is_left_out(after: str) -> None:
    assert window(after) == {}


@pytest.mark.parametrize("missing", ["t_count", "t_sum", 't_bucket{le="+Inf"}'])
def test_incomplete_family_is_left_out(missing: str) -> None:
    whole = text({"0.1": 3, "1": 8, "+Inf": 9}, 9, 6.5)
    incomplete = "\n".join(line for line in whole.split("\n") if not line.startswith(missing))
    assert window(incomplete, before="other 1\n") == {}


@pytest.mark.parametrize(
    "after",
    [
        text({"0.1": 0, "1": 8, "+Inf": 9}, 9, 6.5),
        text({"0.1": 3, "1": 8, "+Inf": 9}, 1, 6.5),
        text({"1": 8, "+Inf": 9}, 9, 6.5),
        "other 1\n",
    ],
    ids=["bucket fell", "count fell", "bucket is gone", "family is gone"],
)
def test_what_falls_or_vanishes_is_a_restart(after: str) -> None:
    with pytest.raises(CounterReset):
        window(after)


def test_bound_that_stands_twice_spoils_the_family() -> None:
    assert window(text({"0.1": 3, "1": 8, "1.0": 8, "+Inf": 9}, 9, 6.5), before="other 1\n") == {}


def test_one_of_two_engines_that_contradicts_itself_spoils_the_family() -> None:
    good = text({"0.1": 3, "1": 8, "+Inf": 9}, 9, 6.5, 'engine="0",')
    bad = text({"0.1": 3, "1": 8, "+Inf": 9}, 7, 6.5, 'engine="1",')
    assert window(good, before="other 1\n")["ttft"].count == 9
    assert window(good + bad, before="other 1\n") == {}


def test_ranks_that_repeat_the_same_observations_count_once() -> None:
    ranked = reader({"ttft": "t"}, duplicate_labels=["tp_rank"])
    both = "".join(text({"0.1": 3, "+Inf": 9}, 9, 6.5, f'tp_rank="{rank}",') for rank in (0, 1))
    assert window(both, "other 1\n", ranked)["ttft"].count == 9
    assert window(both, "other 1\n")["ttft"].count == 18


def test_family_on_neither_page_is_left_out() -> None:
    assert window("other 1\n", "other 1\n") == {}
