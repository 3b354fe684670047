"""Load on a real vLLM: a sweep of hit rates and contexts, levels, searches and the same prompts cold and warm."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable

import pytest

from pytest_kvcache import Endpoint, Runner, Settings, WorkloadBuilder, rates

from .server import VllmServer

BLOCK = 32
CONTEXTS = (2048, 4096)
SECONDS = 2.0
TTFT: dict[int, dict[float, float]] = defaultdict(dict)
"""Least seconds by context and rate, filled by the sweep and read by the test behind it."""


@pytest.fixture(scope="module")
def kv_settings(kv_settings: Settings, vllm_server: Callable[[int], VllmServer]) -> Settings:
    return dataclasses.replace(kv_settings, endpoint=vllm_server(BLOCK).url)


@pytest.fixture(scope="module")
def kv_endpoint(kv_settings: Settings) -> Endpoint:
    """Of this module: the plugin's own is made once a session, from whichever settings were asked for first."""
    return kv_settings.connect(kv_settings.endpoint or "")


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("rate", rates(0.0, 1.0, 0.25))
@pytest.mark.hit_rate(tol=0.0)
def test_a_sweep_reaches_every_rate(kv: Runner, kv_workload: WorkloadBuilder, rate: float, context: int) -> None:
    """Every level reuses exactly what its prompts share with the warmed set, though the set is warmed only once."""
    workload = kv_workload.working_set(tokens=4 * context, context=context, hit_rate=rate, reinit="once", output_len=4)
    steps = kv.steps(workload, [1, 2], duration=SECONDS)
    for step in steps:
        counters, prediction = step.result.measurement.counters, step.result.measurement.prediction
        assert counters is not None
        assert prediction is not None
        assert counters.hit == prediction.hit_tokens == sum(e.cached_tokens or 0 for e in step.result.exchanges)
        expected = min(int(context * rate), context - 1) // BLOCK * BLOCK
        assert {e.cached_tokens for e in step.result.exchanges} == {expected}
    alone = steps[0].result.ttft.min
    assert alone is not None
    TTFT[context][rate] = alone


@pytest.mark.parametrize("context", CONTEXTS)
def test_ttft_falls_as_the_hit_rate_rises(context: int) -> None:
    """By halves, and by the least of each: a machine with other work to do blurs quarters and medians."""
    if len(TTFT[context]) < 5:
        pytest.skip("the sweep has not run in this process")
    cold, half, warm = (TTFT[context][rate] for rate in (0.0, 0.5, 1.0))
    assert cold > half > warm


@pytest.mark.hit_rate(tol=0.0)
def test_a_search_ends_where_one_more_user_waits_too_long(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    """The limit is put where this machine breaks it at a few users: four times what one user waits for."""
    workload = kv_workload.shared_prefix(requests=50, input_len=4096, hit_rate=0.5, prefixes=2, output_len=4)
    (alone,) = kv.steps(workload, [1], duration=SECONDS)
    assert alone.stretch.ttft.p50 is not None
    result = kv.sustain(
        workload,
        4 * alone.stretch.ttft.p50,
        ttft_metric="avg",
        duration=40.0,
        assessment=2.0,
        start=1,
        step=1,
        limit=16,
    )
    limit = result.limit
    assert limit is not None
    assert limit.level is not None, limit.sentence
    assert limit.stretch is not None
    assert limit.stretch.ttft.mean is not None
    assert limit.stretch.ttft.mean <= 4 * alone.stretch.ttft.p50
    assert {e.cached_tokens for e in result.exchanges} == {2048}


@pytest.mark.hit_rate(target=0.9, tol=0.02)
@pytest.mark.kv_speedup(min=1.2)
def test_the_same_prompts_are_sooner_there_warm_than_cold(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    both = kv.speedup(kv_workload.shared_prefix(requests=12, input_len=8192, hit_rate=0.9, prefixes=2, output_len=2))
    assert {e.cached_tokens for e in both.cold.exchanges} == {0}
    assert {e.cached_tokens for e in both.warm.exchanges} == {7360}  # 230 blocks of 32


@pytest.mark.hit_rate(tol=0.0)
def test_two_processes_send_what_one_sends(
    kv_endpoint: Endpoint, kv_settings: Settings, kv: Runner, kv_workload: WorkloadBuilder
) -> None:
    two = Runner(kv_endpoint, dataclasses.replace(kv_settings, processes=2), kv._state, kv._item)
    workload = kv_workload.shared_prefix(requests=24, input_len=1024, hit_rate=0.5, prefixes=3, output_len=4)
    results = [runner.run(workload, concurrency=4) for runner in (kv, two)]
    assert [r.measurement.client.processes for r in results if r.measurement.client] == [1, 2]
    assert [r.hit_tokens for r in results] == [24 * 512] * 2
