"""What a number means: full hits, blocks, what is not looked up, the decode side, gateways."""

from __future__ import annotations

import pytest

from pytest_kvcache.errors import EndpointError, ProtocolError
from pytest_kvcache.workloads import WorkloadBuilder
from pytest_kvcache.workloads.bodies import Bodies

from .playback import (
    HITS,
    QUERIES,
    Engine,
    Reply,
    Seen,
    measured,
    naive,
    naive_rate,
    prompts,
    twice,
    versioned,
    vllm,
    window,
)

# --- P11, P12: what can hit at all -----------------------------------------------------------------------------------


def test_p11_the_same_prompt_again_never_hits_in_full() -> None:
    seen = twice(1000, 992)  # floor(999 / 16) * 16
    assert naive_rate(vllm(1000, 0), vllm(2000, 992)) != 1.0  # what a naive check asserts of the same prompt
    assert seen.verdict(tol=0.0).status == "pass"
    assert seen.verdict(tol=0.0).predicted == 0.992
    seen.exactly(992, 1000)


def test_p11_a_full_hit_is_above_what_can_be() -> None:
    assert naive_rate(vllm(1000, 0), vllm(2000, 1000)) == 1.0
    assert "above 0.9920" in twice(1000, 1000).refused("KV108")


@pytest.mark.parametrize(("length", "shared", "hit"), [(2000, 1000, 784), (800, 500, 0)])
def test_p12_the_block_is_what_the_server_says(length: int, shared: int, hit: int) -> None:
    # Of 1,000 shared tokens, 62 blocks of 16 would be 992 and one block of a hybrid model is 784; of 500, none.
    before, after = vllm(0, 0, 784), vllm(2 * length, hit, 784)
    assert naive_rate(before, after) < (shared // 16 * 16) / (2 * length)  # "below what is shared"
    workload = WorkloadBuilder().shared_prefix(
        2, length, prefix_len=shared, align=None, output_len=1, prefill=False, seed=1
    )
    verdict = measured(Engine(window(before, after, 2), prompts(length)), workload).verdict(tol=0.0)
    assert (verdict.status, verdict.predicted) == ("pass", hit / (2 * length))
    assert ("KV303" in {f.code for f in verdict.findings}) == (shared < 784)


# --- P13, P14: what is not looked up ---------------------------------------------------------------------------------


def test_p13_prompts_whose_logprobs_are_asked_for_are_not_looked_up() -> None:
    before, after = vllm(0, 0), vllm(0, 0)
    with pytest.raises(ZeroDivisionError):
        naive_rate(before, after)
    body = {"prompt": "x", "prompt_logprobs": 1}
    measured(Engine(window(before, after), prompts(1000)), body=body).refused("KV106")
    # A naive count of what was sent would miss 1,000 tokens, and refuse what is in order.
    mixed = vllm(1000, 900)
    workload = Bodies((body, {"prompt": "x"}), "completions")
    measured(Engine(window(before, mixed, 2), prompts(1000)), workload).exactly(900, 1000)


def test_p14_a_cache_that_is_off_is_no_zero() -> None:
    page = vllm(0, 0, caching=False)
    assert naive(page, HITS) / max(1.0, naive(page, QUERIES)) == 0.0
    seen = measured(Engine([page], prompts(1000)))
    assert "prefix cache is off" in seen.refused("KV107")
    assert seen.verdict(max=0.1).hit_rate is None


# --- P15, P24: the decode side ---------------------------------------------------------------------------------------


def tiered(query: int, hit: int, external: int, found: int) -> str:
    tier = f'vllm:external_prefix_cache_queries_total{{engine="0"}} {external}\n'
    return vllm(query, hit, more=f'{tier}vllm:external_prefix_cache_hits_total{{engine="0"}} {found}\n')


class Beside(Engine):
    """An engine that answers no request itself: its page moves with those of another."""

    other: Engine

    def get(self, path: str) -> Reply:
        self.served = self.other.served
        return super().get(path)


def disaggregated(cached: int, prefill_hit: int = 500) -> Seen:
    decode = Engine(window(tiered(0, 0, 0, 0), tiered(1000, 0, 1000, 999)), prompts(1000, cached=[cached]))
    prefill = Beside(window(tiered(0, 0, 0, 0), tiered(1000, prefill_hit, 1000 - prefill_hit, 0)))
    prefill.other = decode
    for engine in (prefill, decode):
        engine.routes = versioned("0.32.0")
    return measured({"prefill": prefill, "decode": decode})


def test_p15_what_was_transferred_is_not_reused() -> None:
    both = (500 + 999) / (1000 + 1000)
    assert both == 0.7495
    seen = disaggregated(999)
    verdict = seen.exactly(500, 1000)
    assert "KV309" in {f.code for f in verdict.findings}
    assert [tokens.hit for tokens in seen.measurement.aside.values()] == [999]


def test_p15_the_decode_side_alone_is_refused() -> None:
    page = tiered(1000, 0, 1000, 999)
    assert naive(page, "vllm:external_prefix_cache_hits_total") / naive(page, QUERIES) == 0.999
    with pytest.raises(EndpointError, match=r"prefill=URL"):
        measured(Engine([page], prompts(1000)), source={"name": "decode"})


@pytest.mark.parametrize(("cached", "code"), [(1200, "KV112"), (1000, "KV122")])
def test_p24_more_cached_than_can_be_is_never_clamped(cached: int, code: str) -> None:
    usage = prompts(1000, cached=[cached])
    assert min(1.0, cached / 1000) == 1.0  # what clamping makes of it
    seen = measured(Engine(usages=usage), engine="usage")
    assert f"{cached:,}" in seen.refused(code)


def test_p24_a_decode_engines_prompt_but_one_is_not_what_the_counters_say() -> None:
    usage = prompts(1000, cached=[999])
    assert 999 / 1000 > 0.99
    seen = measured(Engine(window(vllm(0, 0), vllm(1000, 496)), usage))
    assert "decode engine" in seen.refused("KV114")


# --- P16: gateways ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "hits", "queries"),
    [
        (
            'vllm:current_qps{server="a"} 3\nvllm:gpu_prefix_cache_hits_total{server="a"} 90\n'
            'vllm:gpu_prefix_cache_queries_total{server="a"} 100\n',
            "vllm:gpu_prefix_cache_hits_total",
            "vllm:gpu_prefix_cache_queries_total",
        ),
        (
            "smg_router_cache_hits_total 90\nsmg_router_cache_misses_total 10\nsmg_http_requests_total 100\n",
            "smg_router_cache_hits_total",
            "smg_http_requests_total",
        ),
        (
            "dynamo_component_uptime_seconds 5\ndynamo_component_router_kv_hit_rate_sum 90\n"
            "dynamo_component_router_kv_hit_rate_count 100\n",
            "dynamo_component_router_kv_hit_rate_sum",
            "dynamo_component_router_kv_hit_rate_count",
        ),
        (
            "kvcache_index_lookup_hits_total 90\nkvcache_index_lookup_requests_total 100\n",
            "kvcache_index_lookup_hits_total",
            "kvcache_index_lookup_requests_total",
        ),
    ],
)
def test_p16_a_routers_guesses_are_not_hits(page: str, hits: str, queries: str) -> None:
    assert naive(page, hits) / naive(page, queries) == 0.9
    with pytest.raises((EndpointError, ProtocolError), match=r"--kv-metrics"):
        measured(Engine([page], prompts(1000)))
