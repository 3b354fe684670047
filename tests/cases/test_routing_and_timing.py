"""Reuse that is there and not found: read too soon (X09), or on another engine (X11)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from pytest_kvcache.judge import judge
from pytest_kvcache.model import Exchange, Expectation, Measurement, Prediction, ServerFacts, Tokens

from .conftest import Measure, shared

Start = Callable[..., str]


# --- a hosted cache that needs a while (X09) -------------------------------------------------------------------------

# One prompt of 1000 tokens twice, blocks of 16: floor(999/16)*16 = 992 of the second.
TWICE = "requests=1, input_len=1000, prefix_len=999"


def test_x09_with_settle_the_prompt_is_read_from_the_cache(measure: Measure, start_sim: Start) -> None:
    url = start_sim("--fault", "readable_after=3")
    outcome = measure(url, shared("target=0.992, tol=0.0", TWICE, ", settle=4"))
    assert (outcome.verdict, outcome.tokens) == ("pass", (992, 1000))


@pytest.mark.parametrize(("settle", "least"), [(0, 0.0), (1, 1.0)])
def test_x09_without_it_the_gap_is_told(measure: Measure, start_sim: Start, settle: int, least: float) -> None:
    url = start_sim("--fault", "readable_after=30")  # as long as hosted caches were seen to take
    outcome = measure(url, shared("target=0.992", TWICE, f", settle={settle}"))
    assert (outcome.verdict, outcome.tokens) == ("fail", (0, 1000))
    told = re.search(r"sent (\d+\.\d) s after the first answer; .*settle=30", outcome.finding("KV312"))
    assert told is not None
    assert least <= float(told[1]) < 30
    assert outcome.finding("KV312") in outcome.output  # not only in the document


def exchange(sent: float, end: float, cached: int | None) -> Exchange:
    return Exchange("load", queued=sent, sent=sent, end=end, prompt_len=1000, prompt_tokens=1000, cached_tokens=cached)


def pair(first: Exchange, second: Exchange) -> Measurement:
    hit = sum(e.cached_tokens or 0 for e in (first, second))
    return Measurement(
        title="the same prompt twice",
        facts=ServerFacts(engine="vllm", model="m", block_size=16),
        engines={"0": Tokens(2000, {"local": hit})},
        exchanges=(first, second),
        prediction=Prediction(992, 2000, (0, 992), 16),
    )


def test_x09_the_gap_is_that_from_the_first_answer() -> None:
    # Sent at 0 s, answered at once, and sent again at 1 s: the gap is 1.0 s.
    verdict = judge(Expectation(min=0.4), [pair(exchange(0.0, 0.0, 0), exchange(1.0, 1.2, 0))])
    assert verdict.status == "fail"
    (told,) = [f for f in verdict.findings if f.code == "KV312"]
    assert "the first request that could hit was sent 1.0 s after the first answer" in told.sentence
    assert "settle" in told.advice
    # An answer that took 3 s leaves no second for the cache.
    slow = judge(Expectation(min=0.4), [pair(exchange(0.0, 3.0, 0), exchange(4.0, 4.2, 0))])
    assert "1.0 s after" in next(f for f in slow.findings if f.code == "KV312").sentence


@pytest.mark.parametrize("cached", [992, 16, None])
def test_x09_is_not_told_when_something_was_cached_or_nothing_is_known(cached: int | None) -> None:
    verdict = judge(Expectation(min=0.0), [pair(exchange(0.0, 0.0, 0), exchange(1.0, 1.2, cached))])
    assert "KV312" not in {f.code for f in verdict.findings}


# --- a cache for each engine (X11) -----------------------------------------------------------------------------------

# 16 requests of one prefix of 1024 tokens in prompts of 1040, blocks of 16. One cache: 15 x 1024 = 15,360 of 16,640.
SIXTEEN = "requests=16, input_len=1040, prefix_len=1024, prefill=False"


def test_x11_round_robin_over_eight_engines_is_explained(measure: Measure, start_sim: Start) -> None:
    outcome = measure(start_sim("--engines", "8"), shared("", SIXTEEN))
    assert outcome.verdict == "fail"
    assert outcome.tokens == (8192, 16640)  # (16 - 8) x 1024
    assert outcome.rate == pytest.approx(0.4923, abs=5e-5)
    assert outcome.check["hit_rate"]["ceiling"] == pytest.approx(0.9231, abs=5e-5)
    told = outcome.finding("KV308")
    assert "8 engines with 1 miss each" in told
    assert "8,192 of 16,640 tokens, one cache would 15,360" in told
    assert told in outcome.output
    engines = outcome.check["engines"]
    assert {(e["query_tokens"], e["hit_tokens"]) for e in engines.values()} == {(2080, 1024)}
    assert sorted(engines) == [str(number) for number in range(8)]


def test_x11_a_router_by_prefix_reaches_the_ceiling(measure: Measure, start_sim: Start) -> None:
    outcome = measure(start_sim("--engines", "8", "--routing", "prefix"), shared("tol=0.0", SIXTEEN))
    assert (outcome.verdict, outcome.tokens, outcome.codes) == ("pass", (15360, 16640), set())


def test_x11_prefixes_in_turn_miss_on_every_engine_once(measure: Measure, start_sim: Start) -> None:
    # 3 prefixes over 2 engines in turn, 12 requests: each engine is sent each prefix twice and misses it once,
    # so 12 - 6 = 6 of 12 hit, where one cache would have 12 - 3 = 9.
    workload = "requests=12, input_len=1040, prefix_len=1024, prefixes=3, prefill=False"
    outcome = measure(start_sim("--engines", "2"), shared("", workload))
    assert outcome.tokens == (6 * 1024, 12 * 1040)
    assert "2 engines with 3 misses each" in outcome.finding("KV308")


def test_x11_uneven_misses_are_told_by_engine() -> None:
    # Engine 0 misses both of its requests, engine 1 the first of three.
    two = {"0": Tokens(2080, {"local": 0}), "1": Tokens(3120, {"local": 2048})}
    m = Measurement(
        title="t",
        facts=ServerFacts(engine="vllm", model="m", block_size=16),
        engines=two,
        exchanges=tuple(Exchange("load", 0.0, 1.0, sent=0.0, prompt_tokens=1040) for _ in range(5)),
        prediction=Prediction(4 * 1024, 5 * 1040, (0, 1024, 1024, 1024, 1024), 16),
        prefix_len=1024,
    )
    (told,) = [f.sentence for f in judge(Expectation(min=0.0), [m]).findings if f.code == "KV308"]
    assert "misses: engine 0 2, engine 1 1." in told
