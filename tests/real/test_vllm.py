"""A real vLLM agrees with the prediction to the token: counters, cached_tokens and block arithmetic, in every cell."""

from __future__ import annotations

import dataclasses
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_kvcache import Endpoint, Runner, Sampler, Settings, WorkloadBuilder
from pytest_kvcache.errors import EndpointError, MeasurementError, WorkloadError

from ..engine.wire import Wire, cached
from .server import VllmServer


@pytest.fixture(scope="session", params=[128, 32], ids="block{}".format)
def block(request: pytest.FixtureRequest) -> int:
    """Tokens per block of the server under test."""
    size: int = request.param
    return size


@pytest.fixture(scope="session")
def kv_settings(kv_settings: Settings, vllm_server: Callable[[int], VllmServer], block: int) -> Settings:
    return dataclasses.replace(kv_settings, endpoint=vllm_server(block).url)


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("send", ["ids", "text"])
@pytest.mark.parametrize("rate", [0, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("length", [1024, 1001])  # a multiple of both block sizes, and of neither
@pytest.mark.hit_rate(tol=0.0)
def test_counters_usage_and_prediction_agree_to_the_token(
    kv: Runner,
    kv_workload: WorkloadBuilder,
    block: int,
    length: int,
    rate: float,
    send: str,
    stream: bool,
    concurrency: int,
) -> None:
    workload = kv_workload.shared_prefix(
        requests=8, input_len=length, hit_rate=rate, prefixes=2, output_len=2, align=None, send=send  # type: ignore[arg-type] # a Literal, parametrised
    )  # fmt: skip
    result = kv.run(workload, concurrency=concurrency, stream=stream)
    by_hand = 8 * (min(round(rate * length), length - 1) // block * block)
    counters, prediction = result.measurement.counters, result.measurement.prediction
    assert counters is not None
    assert prediction is not None
    assert counters.hit == prediction.hit_tokens == sum(e.cached_tokens or 0 for e in result.exchanges) == by_hand
    assert counters.query == counters.prompt == prediction.query_tokens == 8 * length
    assert [e.cached_tokens for e in result.exchanges] == list(prediction.per_request)


@pytest.mark.hit_rate(target=0.7, tol=0.02)
def test_the_first_example_of_the_readme(kv: Runner, kv_workload: WorkloadBuilder, block: int) -> None:
    workload = kv_workload.shared_prefix(requests=200, input_len=8192, hit_rate=0.7, prefixes=4, output_len=128)
    if block != 128:
        workload = dataclasses.replace(workload, requests=20, output_len=8)  # once in full is enough
    kv.run(workload, concurrency=8)


@pytest.mark.hit_rate(tol=0.0)
def test_cold_prompts_at_once_miss_only_once(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    kv.run(kv_workload.shared_prefix(8, 1001, prefix_len=640, output_len=1, prefill=False), concurrency=8)


def test_reset_is_verified_and_a_seed_can_be_used_again(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    workload = kv_workload.shared_prefix(4, 1024, 0.5, output_len=1, seed=1)
    for _ in range(2):
        result = kv.run(workload, reset="require")
        assert result.hit_rate == 0.5
        assert result.measurement.cache_state == "reset, verified by a probe"
    warm = kv.run(workload)
    assert {f.code for f in warm.verdict.findings} >= {"KV108", "KV301"}
    with pytest.raises(MeasurementError, match="above"):
        _ = warm.hit_rate


@pytest.mark.usefixtures("impatient")
def test_traffic_of_another_client_is_noticed(kv: Runner, kv_workload: WorkloadBuilder, kv_endpoint: Endpoint) -> None:
    other = Wire(kv_endpoint.url, "vllm:")
    stop = threading.Event()

    def interfere() -> None:
        while not stop.is_set():
            other.complete(list(range(100, 400)))

    noise = threading.Thread(target=interfere)
    noise.start()
    try:
        with pytest.raises(MeasurementError, match=r"more; another client|is another client using the server\?"):
            _ = kv.run(kv_workload.shared_prefix(64, 1024, 0.5, output_len=8), concurrency=2).hit_rate
    finally:
        stop.set()
        noise.join()


def test_wrong_tokenizer_is_found_when_text_is_sent(
    kv_settings: Settings, kv_endpoint: Endpoint, kv_workload: WorkloadBuilder, request: pytest.FixtureRequest
) -> None:
    from pytest_kvcache.plugin.state import TestState

    settings = dataclasses.replace(kv_settings, tokenizer="builtin")
    kv = Runner(kv_endpoint, settings, TestState("wrong", None, "tokenizer", 1), request.node)
    result = kv.run(kv_workload.shared_prefix(4, 512, 0.5, output_len=1, send="text"))
    assert result.verdict.status == "inconclusive"
    assert "KV113" in {f.code for f in result.verdict.findings}


def test_model_that_is_not_served(
    kv_settings: Settings, kv_workload: WorkloadBuilder, request: pytest.FixtureRequest
) -> None:
    from pytest_kvcache.plugin.state import TestState

    settings = dataclasses.replace(kv_settings, model="nope")
    kv = Runner(settings.connect(settings.endpoint or ""), settings, TestState("n", None, "x", 1), request.node)
    with pytest.raises(EndpointError, match="serves tiny, not 'nope'"):
        kv.run(kv_workload.shared_prefix(1, 64, 0))


def test_prompt_longer_than_the_model_takes(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    with pytest.raises(WorkloadError, match="more than the 16,384 that 'tiny' takes"):
        kv.run(kv_workload.shared_prefix(1, 16384, 0, output_len=1))


def test_own_traffic_by_counters(kv: Runner, kv_metrics: Sampler, kv_endpoint: Endpoint, block: int) -> None:
    server = Wire(kv_endpoint.url, "vllm:")
    prompt = list(range(1000, 1000 + 5 * block))
    with kv.measure() as cold:
        assert cached(server.complete(prompt, cache_salt="own")[1]) == 0
    with kv.measure() as warm:
        assert cached(server.complete(prompt, cache_salt="own")[1]) == 4 * block
    assert (cold.result.hit_tokens, warm.result.hit_tokens, warm.result.query_tokens) == (0, 4 * block, 5 * block)
    assert kv_metrics.snapshot().label("vllm:cache_config_info", "block_size") == [str(block)]


def test_metrics_page_parses_as_the_recorded_ones(kv_endpoint: Endpoint) -> None:
    from pytest_kvcache.engines import shipped
    from pytest_kvcache.scrape.page import parse
    from pytest_kvcache.scrape.snapshot import spellings

    names = spellings(shipped().get("vllm").samples())
    with urllib.request.urlopen(f"{kv_endpoint.url}/metrics", timeout=30) as reply:
        samples = {name for name, _ in parse(reply.read().decode(), names)[0]}
    recorded = (Path(__file__).parent.parent / "data/vllm-0.32.0/01_before.prom").read_text()
    assert samples == {name for name, _ in parse(recorded, names)[0]}
