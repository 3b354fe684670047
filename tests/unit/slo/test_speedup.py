"""Cold over warm by hand, its interval, its ceiling, and runs that cannot be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_kvcache.model import Measurement, Tokens
from pytest_kvcache.slo.asked import speed_up
from pytest_kvcache.slo.speedup import hit_share, judge_speed_up, judge_speed_ups, speed_up_of

from .made import answer, failed, run


def cold(ttfts: Sequence[float] = (), **more: Any) -> Measurement:
    return run([answer(ttft, **more) for ttft in ttfts or [1.0 + at / 64 for at in range(41)]])


def warm(ttfts: Sequence[float] = (), cached: int | None = 90, **more: Any) -> Measurement:
    return run([answer(ttft, cached_tokens=cached, **more) for ttft in ttfts or [0.25 + at / 256 for at in range(41)]])


def test_cold_over_warm_of_the_median() -> None:
    found = speed_up_of(speed_up(3), cold(), warm())
    assert found.reached == "pass"
    assert found.value == pytest.approx((1 + 20 / 64) / (0.25 + 20 / 256))
    assert found.samples == 41
    # ranks 13 and 29 of 41 hold the median with 97.5 %, those of both runs together with 95 %
    assert found.low == pytest.approx((1 + 12 / 64) / (0.25 + 28 / 256))
    assert found.high == pytest.approx((1 + 28 / 64) / (0.25 + 12 / 256))
    assert found.note == "ceiling 1/(1 - 0.900) = 10.00x"


def test_other_statistics_and_end_to_end() -> None:
    slow, fast = cold(step=0.01), warm(step=0.01)
    assert speed_up_of(speed_up(1, "ttft", "mean"), slow, fast).value == pytest.approx(4.0)
    assert speed_up_of(speed_up(1, "ttft", "p95"), slow, fast).value == pytest.approx((1 + 38 / 64) / (0.25 + 38 / 256))
    assert speed_up_of(speed_up(1, "e2e"), slow, fast).value == pytest.approx((1.1 + 20 / 64) / (0.35 + 20 / 256))


def test_a_miss_begins_with_the_metric_and_shows_the_ceiling() -> None:
    found = judge_speed_up(speed_up(5), cold(), warm())
    assert found.attained.reached == "fail"
    assert found.attained.sentence == (
        "speed-up of TTFT p50 4.00x, wanted at least 5.00x (1.312 s cold, 328.1 ms warm, 41 pairs, 95 % between 3.30x"
        " and 4.84x); ceiling 1/(1 - 0.900) = 10.00x"
    )
    (miss,) = found.findings
    assert (miss.code, miss.sentence) == ("KV207", found.attained.sentence)


def test_a_limit_inside_the_interval_is_told() -> None:
    found = judge_speed_up(speed_up(3.9), cold(), warm())
    assert found.attained.reached == "pass"
    assert [finding.code for finding in found.findings] == ["KV327"]
    assert judge_speed_up(speed_up(3.2), cold(), warm()).findings == ()


@pytest.mark.parametrize(
    ("pair", "limit", "why"),
    [
        ((cold([1.0] * 3), warm([0.1] * 2)), 2, "3 requests were sent cold and 2 warm, which are not the same ones"),
        ((run([answer(), failed()]), warm([0.1] * 2)), 2, "1 request failed, so the two runs are not of the same"),
        ((run([]), run([])), 2, "no request has a TTFT in both runs"),
        ((cold([1.0]), warm([0.1])), 2, "1 sample, and p50 needs at least 2"),
        ((cold([1.0] * 30), warm([0.0] * 30)), 2, "the warm run took no time that could be measured"),
    ],
)
def test_runs_that_cannot_be_compared(pair: tuple[Measurement, Measurement], limit: float, why: str) -> None:
    found = judge_speed_up(speed_up(limit), *pair)
    assert found.attained.reached == "inconclusive"
    assert [finding.code for finding in found.findings] == ["KV126"]
    assert why in found.attained.sentence


def test_the_tail_needs_as_many_pairs_as_elsewhere() -> None:
    pair = cold([1.0] * 19), warm([0.1] * 19)
    assert speed_up_of(speed_up(2, statistic="p95"), *pair).reached == "inconclusive"
    assert speed_up_of(speed_up(2, statistic="p50"), *pair).reached == "pass"
    (doubt,) = judge_speed_up(speed_up(2), cold([1.0] * 6), warm([0.1] * 6)).findings
    assert (doubt.sentence, doubt.advice) == (
        "6 pairs do not bound speed-up of TTFT p50 from below", "7 would; send more requests to be sure"
    )  # fmt: skip


def test_a_cold_run_that_hit_the_cache_is_none() -> None:
    for limit in (2, 50):
        found = judge_speed_up(speed_up(limit), cold(cached_tokens=6), warm())
        assert found.attained.reached == "inconclusive"
        assert [finding.code for finding in found.findings] == ["KV128"]
        assert found.attained.sentence == (
            "the cold run found 0.060 of its prompt tokens in the cache, so it was not cold"
        )
    assert speed_up_of(speed_up(2), cold(cached_tokens=5), warm()).reached == "pass"  # the head of a template


def test_what_was_hit_comes_from_the_answers_else_from_the_counters() -> None:
    assert hit_share(warm()) == pytest.approx(0.9)
    untold = replace(warm(cached=None), engines={"0": Tokens(1000, {"local": 400, "external": 100}, 1000)})
    assert hit_share(untold) == pytest.approx(0.5)
    assert hit_share(replace(untold, engines={})) is None
    counted = replace(warm(), engines=untold.engines)
    assert hit_share(counted) == pytest.approx(0.9)
    assert hit_share(replace(counted, disaggregated=True)) == pytest.approx(0.5)  # its replies are of another engine


def test_ceilings() -> None:
    assert speed_up_of(speed_up(2), cold(), replace(warm(cached=None), engines={})).note == (
        "no ceiling is known: nobody tells the hit rate of the warm run"
    )
    assert speed_up_of(speed_up(2), cold(), warm(cached=100)).note == "ceiling none: all was cached"
    assert speed_up_of(speed_up(2), cold(), warm(cached=0)).note == "ceiling 1/(1 - 0.000) = 1.00x"


def test_every_pair_is_judged_and_none_is_none() -> None:
    found = judge_speed_ups(speed_up(5), [(cold(), warm()), (cold(), warm([0.1] * 41))])
    assert [one.attained.reached for one in found] == ["fail", "pass"]
    (nothing,) = judge_speed_ups(speed_up(5), [])
    assert (nothing.attained.reached, nothing.findings[0].code) == ("inconclusive", "KV106")
    assert nothing.findings[0].advice == "call kv.speedup"
