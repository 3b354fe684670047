"""A reset that answers success while the store behind the device cache keeps serving (M16)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import Measure, Play, shared
from .stage import AT_REST, BLOCKS_OF_16, Stage, versioned

Start = Callable[..., str]


def page(query: int, hit: int, external_query: int, external_hit: int) -> str:
    values = {"queries": query, "hits": hit}
    local = [f'vllm:prefix_cache_{name}_total{{engine="0"}} {value}' for name, value in values.items()]
    values = {"queries": external_query, "hits": external_hit}
    external = [f'vllm:external_prefix_cache_{name}_total{{engine="0"}} {value}' for name, value in values.items()]
    return "\n".join([*local, *external, BLOCKS_OF_16 + AT_REST])


# Prompt of 1024 tokens, blocks of 16: sent, sent again, and once more after a reset.
PAGES = [page(0, 0, 0, 0), page(1024, 0, 1024, 0), page(2048, 1008, 1024, 0), page(3072, 1008, 2048, 1024)]
MEASURED = """
import json, urllib.request, pytest

@pytest.mark.hit_rate(min=0.0)
def test_case(kv, kv_endpoint):
    for local, external in ((0, 0), (1008, 0), (0, 1024)):
        with kv.measure() as block:
            urllib.request.urlopen(f"{kv_endpoint.url}/v1/completions", b"{}", timeout=10).close()
        (tokens,) = block.result.engines.values()
        assert (tokens.query, tokens.local_hit, tokens.external_hit) == (1024, local, external)
        assert block.result.hit_rate == (local + external) / 1024
"""


def test_m16_local_and_external_hits_are_told_apart(measure: Measure, play: Play) -> None:
    outcome = measure(play(Stage(PAGES, routes=versioned("0.32.0"))), MEASURED)
    assert outcome.verdict == "pass"
    assert outcome.check["tiers"]["local"]["hit_tokens"] == 1008
    assert outcome.check["tiers"]["external"]["hit_tokens"] == 1024


@pytest.mark.parametrize(("tier", "rate"), [("local", 0.0), ("external", 1.0), ("total", 1.0)])
def test_m16_rates_of_the_third_send(measure: Measure, play: Play, tier: str, rate: float) -> None:
    body = f"""
import urllib.request, pytest

@pytest.mark.hit_rate(target={rate}, tol=0.0, tier="{tier}")
def test_case(kv, kv_endpoint):
    with kv.measure():
        urllib.request.urlopen(f"{{kv_endpoint.url}}/v1/completions", b"{{}}", timeout=10).close()
"""
    outcome = measure(play(Stage(PAGES[2:], routes=versioned("0.32.0"))), body)
    assert (outcome.verdict, outcome.rate) == ("pass", rate)


def test_m16_hits_above_the_queries_are_no_rate(measure: Measure, play: Play) -> None:
    # Both tiers claim the same tokens: 1008 + 1024 of 1024 would be 1.98.
    body = MEASURED.split("    for")[0] + (
        "    with kv.measure():\n"
        '        urllib.request.urlopen(f"{kv_endpoint.url}/v1/completions", b"{}", timeout=10).close()\n'
    )
    stage = Stage([page(0, 0, 0, 0), page(1024, 1008, 1024, 1024)], routes=versioned("0.32.0"))
    outcome = measure(play(stage), body)
    assert outcome.verdict == "inconclusive"
    assert "KV108" in outcome.codes


# --- the flag --------------------------------------------------------------------------------------------------------

LOAD = "requests=4, input_len=1024, hit_rate=0.5"
REQUIRED = shared("tol=0.0", LOAD).replace("def test", '@pytest.mark.kv_reset("require")\ndef test')


def test_m16_a_reset_that_leaves_the_store_is_incomplete(measure: Measure, start_sim: Start) -> None:
    # The probe has 3 x 16 + 1 = 49 tokens: the store still has its three blocks.
    outcome = measure(start_sim("--external-blocks", "4096"), REQUIRED)
    assert outcome.verdict == "inconclusive"
    assert "the cache could not be reset; reset: incomplete" in outcome.sentence
    assert "external still hit 48" in outcome.sentence
    assert "local still hit" not in outcome.sentence


def test_m16_the_state_is_told_where_a_cold_cache_is_not_required(measure: Measure, start_sim: Start) -> None:
    body = REQUIRED.replace("require", "auto")
    outcome = measure(start_sim("--external-blocks", "4096"), body)
    assert outcome.verdict == "pass"  # the prompts themselves are new
    assert outcome.check["cache_state"].startswith("reset: incomplete")
    assert "external still hit 48" in outcome.check["cache_state"]


def test_m16_a_reset_that_empties_everything_is_believed(measure: Measure, start_sim: Start) -> None:
    outcome = measure(start_sim(), REQUIRED)
    assert (outcome.verdict, outcome.check["cache_state"]) == ("pass", "reset, verified by a probe")
