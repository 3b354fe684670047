"""What a window saved, by hand."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from pytest_kvcache.histogram import Histogram
from pytest_kvcache.model import Exchange, Failure, Measurement, ServerFacts, Tokens, Verdict
from pytest_kvcache.savings.prices import Prices, Rates, Tier
from pytest_kvcache.savings.saving import BY_HISTOGRAM, Saving, saving

D = Decimal
RATES = Rates(D(3), D("0.30"), D("3.75"), D(15))
CLAUDE = Prices(RATES, origin="a list")
COUNTERS = Verdict("pass", "", 0.7, 700, 1000, source="counters")
USAGE = replace(COUNTERS, source="usage")


def answered(prompt: int | None = 1000, cached: int | None = 0, **more: Any) -> Exchange:
    """A request, with one generated token."""
    told: dict[str, Any] = {"sent": 1.0, "completion_tokens": 1, "prompt_tokens": prompt, "cached_tokens": cached}
    return Exchange("load", 0.0, 3.0, **(told | more))


FAILED = Exchange("load", 0.0, 9.0, sent=1.0, failure=Failure("cut", "half"))


def prefill(count: int, seconds: float) -> dict[str, Histogram]:
    return {"prefill": Histogram((float("inf"),), (count,), seconds)}


def measured(*exchanges: Exchange, prices: Prices | None = None, **more: Any) -> Measurement:
    return Measurement(
        "t", ServerFacts("vllm", "m", prices=prices), more.pop("engines", {}), exchanges=exchanges, **more
    )


TWO = {"0": Tokens(600, {"local": 400, "disk": 100}), "1": Tokens(400, {"local": 200})}


# --- tokens and seconds ---------------------------------------------------------------------------------------------


def test_hit_tokens_of_all_engines_and_tiers_took_as_long_as_the_computed_ones() -> None:
    window = measured(answered(), answered(), engines=TWO, server_latency=prefill(2, 0.6))
    # 1000 looked up, 700 hit: 0.6 s for 300 tokens are 2 ms each, so 1.4 s for 700
    assert saving(window, COUNTERS) == Saving(700, pytest.approx(1.4), BY_HISTOGRAM)  # type: ignore[arg-type]


def test_the_tokens_are_those_of_all_requests_whatever_is_judged() -> None:
    window = measured(answered(), engines=TWO)
    judged = replace(COUNTERS, hit_rate=0.5, hit_tokens=1, query_tokens=2)  # requests, a tier, or turns left out
    assert saving(window, judged).prefill_tokens == 700


def test_by_usage() -> None:
    window = measured(answered(cached=300), answered(cached=400), FAILED, engines={})
    assert saving(window, USAGE) == Saving(700, None, "the server does not tell how long it prefills")
    counted = replace(window, engines=TWO, server_latency=prefill(2, 1.3))
    assert saving(counted, USAGE).prefill_s == pytest.approx(0.7)  # 1.3 s for 2000 - 700 tokens


@pytest.mark.parametrize(
    ("latency", "engines", "why"),
    [
        ({}, TWO, "does not tell how long"),
        (prefill(0, 0.0), TWO, "does not tell how long"),
        (prefill(2, 0.0), TWO, "does not tell how long"),
        (prefill(2, float("nan")), TWO, "does not tell how long"),
        (prefill(2, 1.0), {"0": Tokens(700, {"local": 700})}, "no prompt token was computed"),
        (prefill(1, 1.0), TWO, "tells 1 prefills where 2 requests were answered"),
        (prefill(4, 1.0), TWO, "tells 4 prefills where 2 requests were answered"),
    ],
)
def test_seconds_that_are_not_known(latency: dict[str, Histogram], engines: dict[str, Tokens], why: str) -> None:
    window = measured(answered(), answered(), FAILED, engines=engines, server_latency=latency)
    found = saving(window, COUNTERS)
    assert (found.prefill_tokens, found.prefill_s) == (700, None)
    assert why in found.prefill_s_from


def test_a_failed_or_repeated_request_may_have_been_prefilled_and_samples_are_each() -> None:
    for others in ([FAILED, FAILED], [answered(earlier=(FAILED, FAILED))], [answered(lookups=3)]):
        for count in (2, 3, 4):
            window = measured(answered(), *others, engines=TWO, server_latency=prefill(count, 1.0))
            known = saving(window, COUNTERS).prefill_s is not None
            assert known is (len([e for e in window.exchanges if e.ok]) <= count <= (3 if others[0] is FAILED else 4))


def test_of_traffic_that_is_not_ours_the_number_of_requests_is_not_known() -> None:
    window = measured(engines=TWO, server_latency=prefill(50, 0.3), own_traffic=False)
    assert saving(window, COUNTERS).prefill_s == pytest.approx(0.7)


@pytest.mark.parametrize(
    "verdict", [replace(COUNTERS, status="inconclusive"), Verdict("pass", ""), Verdict("inconclusive", "")]
)
def test_what_is_inconclusive_has_saved_nothing_that_can_be_told_and_cost_what_it_cost(verdict: Verdict) -> None:
    window = measured(answered(), engines=TWO, server_latency=prefill(1, 1.0), prices=CLAUDE)
    assert saving(window, verdict) == Saving(None, None, "", None, D("0.003015"), "USD", "a list")


# --- money ----------------------------------------------------------------------------------------------------------


def test_without_prices_there_is_no_money() -> None:
    found = saving(measured(answered(cached=700)), USAGE)
    assert (found.money, found.cost, found.currency, found.price_from) == (None, None, None, "")


def test_money_of_a_hosted_provider() -> None:
    warm = answered(cached=0, written_tokens=900)
    window = measured(answered(cached=900), answered(cached=900), FAILED, prefill=(warm,), prices=CLAUDE)
    found = saving(window, replace(USAGE, hit_tokens=1800, query_tokens=2000))
    # 1800 x 2.70 = 4860, less 900 x 0.75 = 675
    assert found.money == D("0.004185")
    # warming: 100 x 3 + 900 x 3.75 + 15 = 3690; each other 100 x 3 + 900 x 0.30 + 15 = 585
    assert found.cost == D("0.00486")
    assert (found.currency, found.price_from) == ("USD", "a list")


def test_writing_for_nobody_costs_more_than_it_saves() -> None:
    window = measured(answered(written_tokens=1000), prices=CLAUDE)
    assert saving(window, USAGE).money == D("-0.00075")


def test_money_by_counters_is_that_of_the_hit_tokens() -> None:
    found = saving(measured(answered(cached=None), engines=TWO, prices=CLAUDE), COUNTERS)
    assert found.money == D("0.00189")  # 700 x 2.70
    assert (found.cost, found.price_from) == (None, "a list; the replies do not tell all of their tokens")


TIERED = Prices(RATES, (Tier(1000, Rates(D(6), D("0.60"), D("7.50"), D(20))),), origin="a list")


def test_a_long_prompt_has_the_prices_of_long_ones() -> None:
    window = measured(answered(1000, 900), answered(1001, 900, written_tokens=100), prices=TIERED)
    found = saving(window, replace(USAGE, hit_tokens=1800, query_tokens=2001))
    # 900 x 2.70 + 900 x 5.40 - 100 x 1.50
    assert found.money == D("0.007140")
    # 100 x 3 + 900 x 0.30 + 15, and 1 x 6 + 900 x 0.60 + 100 x 7.50 + 20
    assert found.cost == D("0.001901")


@pytest.mark.parametrize("untold", [answered(cached=None), answered(prompt=None, cached=5, prompt_len=5)])
def test_tiers_need_what_each_reply_tells(untold: Exchange) -> None:
    found = saving(measured(untold, engines=TWO, prices=TIERED), COUNTERS)
    assert (found.prefill_tokens, found.money) == (700, None)
    assert found.price_from == (
        "a list; its prices depend on the prompt, and the replies do not tell what each of them hit"
    )


@pytest.mark.parametrize("untold", [answered(cached=None), answered(prompt=None), answered(completion_tokens=None)])
def test_a_reply_that_does_not_tell_has_no_cost(untold: Exchange) -> None:
    found = saving(measured(answered(cached=100), untold, prices=CLAUDE, engines=TWO), COUNTERS)
    assert (found.money, found.cost) == (D("0.00189"), None)


def test_a_missing_price_is_no_zero() -> None:
    bare = Prices(Rates(D(1), output=D(1)), origin="a list")
    found = saving(measured(answered(cached=700), prices=bare), replace(USAGE, query_tokens=1000))
    assert (found.prefill_tokens, found.money, found.cost, found.currency) == (700, None, None, "USD")
    assert found.price_from == "a list; a price is missing"
    cold = saving(measured(answered(cached=0), prices=bare), replace(USAGE, hit_tokens=0))
    assert (cold.money, cold.cost, cold.price_from) == (0, D("0.001001"), "a list")


def test_a_free_model() -> None:
    free = Prices(Rates(D(0), D(0), D(0), D(0)), origin="a list")
    found = saving(measured(answered(cached=700, written_tokens=5), prices=free), USAGE)
    assert (found.money, found.cost) == (0, 0)


def test_prices_that_were_not_understood() -> None:
    broken = Prices(origin="a list", problem="prompt is no price")
    found = saving(measured(answered(cached=700), prices=broken), USAGE)
    assert found == Saving(700, None, found.prefill_s_from, None, None, None, "a list; prompt is no price")
