"""Prices in the lists of models of gateways, and everything that may stand there instead."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.savings.listed import ORIGIN, listed
from pytest_kvcache.savings.prices import Prices, Rates, Tier

D = Decimal
OPENROUTER = {"prompt": "0.000003", "completion": "0.000015", "request": "0", "image": "0.0048"} | {
    "input_cache_read": "0.0000003",
    "input_cache_write": "0.00000375",
}
CLAUDE = Rates(D(3), D("0.3"), D("3.75"), D(15))


def told(pricing: Any) -> Prices:
    found = listed({"id": "m", "pricing": pricing})
    assert found is not None
    return found


def test_prices_of_a_token_become_those_of_a_million() -> None:
    assert told(OPENROUTER) == Prices(CLAUDE, origin=ORIGIN)


def test_what_openrouter_asks_of_providers() -> None:
    listing = {"prompt": "$0.0000014", "completion": "$0.0000044"}
    reads = {"input_cache_reads": "$0.00000016", "input_cache_writes": "0"}
    assert told(listing | reads).rates == Rates(D("1.4"), D("0.16"), None, D("4.4"))


def test_vercel() -> None:
    pricing = {"input": "0.000001", "output": "0.000006", "input_cache_read": "0.0000001"}
    pricing["input_cache_read_tiers"] = [{"cost": "0.0000001", "max": 9}, {"cost": "0.0000002", "min": 9}]  # type: ignore[assignment]
    pricing["input_tiers"] = [{"cost": "0.000001", "min": 0, "max": 9}, {"cost": "0.000002", "min": 9}]  # type: ignore[assignment]
    pricing["output_tiers"] = [{"cost": "0.000009", "min": 5}]  # type: ignore[assignment]
    short, longer = Rates(D(1), D("0.1"), None, D(6)), Rates(D(1), D("0.1"), None, D(9))
    longest = Rates(D(2), D("0.2"), None, D(9))
    assert told(pricing) == Prices(short, (Tier(5, longer), Tier(9, longest)), origin=ORIGIN)


def test_requesty_as_it_is_in_json() -> None:
    body = (
        '{"id": "m", "input_price": 3e-06, "output_price": 0.000015, "cached_price": 3e-7, "caching_price": 0.00000375'
    )
    bands = (
        ', "pricing": [{"prompt_tokens_threshold": 0, "input_price": 3e-06, "output_price": 1.5e-05},'
        ' {"prompt_tokens_threshold": 200000, "input_price": 6e-06}]'
    )
    assert listed(json.loads(body + "}")) == Prices(CLAUDE, origin=ORIGIN)
    dearer = Rates(D(6), D("0.3"), D("3.75"), D(15))
    assert listed(json.loads(body + bands + "}")) == Prices(CLAUDE, (Tier(200_000, dearer),), origin=ORIGIN)


def test_longer_prompts_may_cost_more() -> None:
    overrides = [{"min_prompt_tokens": 500_000, "prompt": "0.00001"}, {"min_prompt_tokens": 200_001, "prompt": "6e-6"}]
    found = told(OPENROUTER | {"overrides": overrides})
    assert [(tier.above, tier.rates.input, tier.rates.output) for tier in found.tiers] == [
        (200_000, 6, 15),
        (499_999, 10, 15),
    ]


@pytest.mark.parametrize("entry", [{}, {"pricing": None}, {"pricing": {}}, {"pricing": []}, {"input_price": None}])
def test_nothing_told(entry: dict[str, Any]) -> None:
    assert listed(entry) is None


def test_a_missing_price_is_not_told() -> None:
    assert told({"prompt": "0.000001"}).rates == Rates(D(1))
    assert told({"web_search": "1"}).rates == Rates()


def test_a_free_model_is_free() -> None:
    free = told({"prompt": "0", "completion": "0", "input_cache_read": "0", "input_cache_write": "0"})
    assert free == Prices(Rates(D(0), D(0), D(0), D(0)), origin=ORIGIN)


def test_a_zero_beside_a_price_says_nothing() -> None:
    assert told(OPENROUTER | {"input_cache_read": "0", "input_cache_write": 0}).rates == Rates(D(3), None, None, D(15))


SECRET = "sk-or-v1-0123456789"


@pytest.mark.parametrize(
    ("pricing", "why"),
    [
        ({"prompt": "-1"}, "prompt is below 0"),
        ({"prompt": -1}, "prompt is below 0"),
        ({"prompt": SECRET}, "prompt is no price"),
        ({"prompt": ""}, "prompt is no price"),
        ({"prompt": "NaN"}, "prompt is no price"),
        ({"prompt": float("nan")}, "prompt is no price"),
        ({"prompt": float("inf")}, "prompt is no price"),
        ({"prompt": True}, "prompt is no price"),
        ({"prompt": {"usd": 1}}, "prompt is no price"),
        ({"prompt": "1_0"}, "prompt is no price"),
        ({"prompt": "٣"}, "prompt is no price"),
        ({"prompt": "1e-999999999"}, "prompt is no price"),
        ({"prompt": "1e-99"}, "prompt has too many digits"),
        ({"prompt": "0.0245"}, "prompt would be more than 1,000 a million"),
        ({"prompt": 10**4000}, "prompt is no price"),
        ({"prompt": 10**5000}, "prompt"),
        ({"completion": "x"}, "completion is no price"),
        ({"input_cache_reads": []}, "input_cache_reads is no price"),
        ({"overrides": [{"utc_start": 1200, "prompt": "0.1"}]}, "overrides.0 changes with the time of day"),
        ({"overrides": [{"prompt": "0"}]}, "overrides.0.min_prompt_tokens"),
        ({"overrides": [{"min_prompt_tokens": "5"}]}, "overrides.0.min_prompt_tokens"),
        ({"overrides": [{"min_prompt_tokens": -5}]}, "overrides.0.min_prompt_tokens"),
        ({"overrides": SECRET}, "overrides"),
        ({"overrides": [{"min_prompt_tokens": 1}] * 101}, "overrides"),
        ({"input_tiers": [{"min": 0}]}, "input_tiers.0.cost"),
        ("free", ""),
        ([{"prompt": "0"}], ""),
        (7, ""),
    ],
)
def test_what_is_no_price_becomes_a_note_without_what_was_told(pricing: Any, why: str) -> None:
    found = told(pricing)
    assert (found.rates, found.tiers) == (Rates(), ())
    assert found.problem.startswith("its pricing is not understood: ")
    assert why in found.problem
    assert SECRET not in repr(found)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.from_regex(r"\$?-?[0-9.e-]{1,9}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = "prompt completion input output input_cache_read input_cache_writes overrides input_tiers input_price bands"
names = st.sampled_from([*NAMES.split(), "cached_price", "pricing", "min_prompt_tokens"])


@given(st.dictionaries(names, json_values, max_size=6), st.dictionaries(names, json_values, max_size=4))
def test_whatever_an_endpoint_tells_is_prices_or_a_note(entry: dict[str, Any], pricing: dict[str, Any]) -> None:
    for told_ in (entry, entry | {"pricing": pricing}):
        found = listed(told_)
        if found is None or found.problem:
            continue
        for rates in (found.rates, *(tier.rates for tier in found.tiers)):
            for price in (rates.input, rates.cached_input, rates.cache_write, rates.output):
                assert price is None or (price.is_finite() and 0 <= price <= 1000)
        assert list(found.tiers) == sorted(found.tiers, key=lambda tier: tier.above)


def test_a_bottomless_value_is_a_note() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert told({"overrides": deep}).problem
