"""Between two pages: foreign traffic, late counters, restarts, replicas, drained lists, resets that lie, old files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress

import pytest

from pytest_kvcache import experiment
from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.errors import CounterMissing, CounterReset, EndpointError, NotSettled
from pytest_kvcache.model import Measurement, ResetMode
from pytest_kvcache.pace import Pace
from pytest_kvcache.workloads import WorkloadBuilder

from .playback import HITS, QUERIES, Engine, Reply, measured, naive, naive_rate, prompts, rest, versioned, window


def vllm(query: int, hit: int, more: str = "", running: int = 0) -> str:
    gauges = rest().replace("running 0", f"running {running}")
    return f'{QUERIES}{{engine="0"}} {query}\n{HITS}{{engine="0"}} {hit}\n{more}{gauges}'


# --- P7: the counters begin anew -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (vllm(10_000, 9_000), vllm(1_000, 500)),  # fewer than before
        (vllm(500, 400), vllm(1_000, 300)),  # one of both has caught up
        ("process_start_time_seconds 1.7e+09\n" + vllm(500, 400), "process_start_time_seconds 1.7001e+09\n"
         + vllm(1_500, 900)),  # both have, and more than that
        (vllm(500, 400, 'vllm:prefix_cache_queries_created{engine="0"} 1.7e+09\n'),
         vllm(1_500, 900, 'vllm:prefix_cache_queries_created{engine="0"} 1.7001e+09\n')),
    ],
)  # fmt: skip
def test_p07_a_restart_is_no_window(before: str, after: str) -> None:
    assert -1 < naive_rate(before, after) < 1  # a number like any other
    measured(Engine(window(before, after), prompts(1000))).refused("KV102")


def test_p07_counters_that_are_set_back_without_a_restart() -> None:
    # LMCache's POST /metrics/reset, and fake metrics of a simulator: another process time would not tell.
    names = "lmcache_mp_lookup_hit_tokens_total", "lmcache_mp_lookup_requested_tokens_total"
    page = "process_start_time_seconds 1.7e+09\n%s %d\n%s %d\n"
    tier = window(page % (names[0], 9000, names[1], 10000), page % (names[0], 500, names[1], 1000))
    assert naive_rate(tier[0], tier[1], *names) == pytest.approx(8500 / 9000)
    engine = Engine(window(vllm(0, 0), vllm(1000, 0)), prompts(1000))

    class Beside(Engine):
        def get(self, path: str) -> Reply:
            self.served = engine.served
            return super().get(path)

    measured({"tier": Beside(tier), "engine": engine}).refused("KV102")


# --- P9: somebody else's requests ------------------------------------------------------------------------------------


def test_p09_foreign_traffic_is_not_ours() -> None:
    before, after = vllm(0, 0), vllm(1600, 900)  # ours were 1,000 of which 300 hit
    assert naive_rate(before, after) == 0.5625
    told = measured(Engine(window(before, after), prompts(1000))).refused("KV103")
    assert "looked up 1,600 tokens where 1,000 were sent: 600 more" in told


def test_p09_what_the_engine_asks_itself_is_in_the_interval() -> None:
    name = "sglang:prefill_effective_tokens_total"

    def page(hit: int, new: int) -> str:
        modes = {"device_hit": hit, "input": new, "host_hit": 0, "storage_hit": 0}
        return "".join(f'{name}{{mode="{mode}"}} {n}\n' for mode, n in modes.items()) + rest("sglang")

    before, after = page(0, 0), page(900, 101)  # one token of a health check
    assert naive_rate(before, after, f'{name}{{mode="device_hit"', name) == pytest.approx(900 / 1001)
    seen = measured(Engine(window(before, after), prompts(1000)))
    verdict = seen.verdict(min=0.89)
    assert (verdict.status, verdict.high) == ("pass", 0.9)
    assert {f.code for f in verdict.findings} == {"KV307"}
    assert [f.code for f in seen.verdict(min=0.8995).findings][:1] == ["KV123"]


# --- P10: the counters come later than the answer --------------------------------------------------------------------


def test_p10_a_step_that_is_published_after_the_answer() -> None:
    def page(served: int, scrapes: int) -> str:
        if not served or scrapes < 2:
            return vllm(0, 0, running=int(bool(served)))
        return vllm(1000, 0, running=1) if scrapes < 4 else vllm(1000, 500)  # hits later than queries

    engine = Engine(usages=prompts(1000), metrics=page)
    seen = measured(engine)
    after = engine.given[engine.given.index(page(1, 0)) :]
    with pytest.raises(ZeroDivisionError):
        naive_rate(vllm(0, 0), after[0])
    assert naive_rate(vllm(0, 0), after[2]) == 0.0
    seen.exactly(500, 1000)


def test_p10_counters_that_never_come_are_told() -> None:
    engine = Engine(usages=prompts(1000), metrics=lambda served, _: vllm(600 * served, 0))
    assert "looked up 600 tokens where 1,000 were sent: 400 fewer" in measured(engine).refused("KV104")


# --- P17: a random replica answers -----------------------------------------------------------------------------------


def test_p17_replicas_with_start_times_are_told_apart() -> None:
    replicas = (
        "process_start_time_seconds 1.7e+09\n" + vllm(5000, 4000),
        "process_start_time_seconds 1.6e+09\n" + vllm(9000, 4100),
    )
    assert naive_rate(*replicas) == 0.025
    turn = iter(range(10**6))
    with pytest.raises(CounterReset, match="a load balancer answers for several engines"):
        measured(Engine(usages=prompts(1000), metrics=lambda *_: replicas[next(turn) % 2]))


def test_p17_a_replica_that_answers_at_the_end_only() -> None:
    before = "process_start_time_seconds 1.7e+09\n" + vllm(5000, 4000)
    after = "process_start_time_seconds 1.6e+09\n" + vllm(6000, 4100)
    assert naive_rate(before, after) == 0.1
    assert "--kv-metrics" in measured(Engine(window(before, after), prompts(1000))).refused("KV102")


@pytest.mark.parametrize("requests", [1, 2, 3])
def test_p17_replicas_without_start_times_are_no_measurement(requests: int) -> None:
    # Multiprocess mode shows no start time. Every page is another replica's, none of which saw our requests.
    replicas = vllm(5000, 4000), vllm(9000, 4100)
    assert naive_rate(*replicas) == 0.025
    turn = iter(range(10**6))
    engine = Engine(usages=prompts(1000), metrics=lambda *_: replicas[next(turn) % 2])
    with suppress(NotSettled):  # or, where two reads happen to agree
        measured(engine, requests).refused("KV104")


# --- P18: reading empties the list -----------------------------------------------------------------------------------


def test_p18_a_list_that_is_drained_by_reading() -> None:
    # One prompt of 129 tokens in blocks of 32, twice: 5 blocks, the second time 4 of them reused.
    before = [{"iter": 7, "kvCacheStats": {"reusedBlocks": 90, "missedBlocks": 10, "tokensPerBlock": 32}}]
    steps = [
        {"iter": 8, "kvCacheStats": {"reusedBlocks": 90, "missedBlocks": 15, "tokensPerBlock": 32}},
        {"iter": 9, "kvCacheStats": {"reusedBlocks": 94, "missedBlocks": 16, "tokensPerBlock": 32}},
    ]

    def page(served: int, scrapes: int) -> str:
        if served == 0:
            return json.dumps(before if not engine.given else [])
        return json.dumps(steps[1:] if scrapes == 0 else [])  # another reader had the first step

    engine = Engine(usages=prompts(129), metrics=page, content_type="application/json")
    seen = measured(engine, 2, engine="trtllm-json", source={})
    read = [json.loads(text) for text in engine.given]
    reused = [step["kvCacheStats"]["reusedBlocks"] for entries in read for step in entries]
    assert reused == [90, 94]
    # The last read of a naive script is empty; the sum over what it read has lost a step.
    assert read[-1] == []
    seen.exactly(4 * 32, 2 * 129)


def test_p18_a_list_that_another_reader_emptied_is_no_page() -> None:
    engine = Engine(usages=prompts(129), metrics=lambda *_: "[]", content_type="application/json")
    with pytest.raises(CounterMissing, match="has no trtllm_kv_cache_missed_blocks_total"):
        measured(engine, engine="trtllm-json", source={})


# --- P19: a reset that says yes and does nothing ---------------------------------------------------------------------


def test_p19_a_reset_is_believed_after_a_probe_only(start_sim: Callable[..., str]) -> None:
    endpoint = Endpoint(start_sim("--fault", "reset_lies"))
    workload = WorkloadBuilder().shared_prefix(requests=2, input_len=160, prefix_len=144, output_len=1, seed=1)

    def run(reset: ResetMode) -> Measurement:
        plan = experiment.Plan("n", pace=Pace(1), tokenizer="builtin", reset=reset)
        return asyncio.run(experiment.run(endpoint, workload, plan))

    state = run("auto").cache_state
    assert "incomplete" in state
    assert "still hit" in state
    with pytest.raises(EndpointError, match="the cache could not be reset"):
        run("require")


# --- P20: files of an earlier process --------------------------------------------------------------------------------


def test_p20_counters_that_begin_above_zero() -> None:
    before, after = vllm(100_000, 90_000), vllm(101_000, 90_500)
    assert naive(after, HITS) / naive(after, QUERIES) == pytest.approx(0.896, abs=1e-3)  # "a fresh server"
    measured(Engine(window(before, after), prompts(1000), versioned("0.10.0"))).exactly(500, 1000)
