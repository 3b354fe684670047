"""A production trace sent to a real vLLM: what is measured is what a cache of its block size and room reuses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_kvcache import Endpoint, Runner, Settings
from pytest_kvcache.prefix import common
from pytest_kvcache.traces import Trace, open_trace

from .server import VllmServer

CONVERSATION = Path(__file__).parent.parent / "data" / "traces" / "mooncake_conversation_first1000.jsonl"
SCALED = 32  # tokens of a block that had 512
BLOCKS = (32, 128)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return open_trace(CONVERSATION, block_size=512).first(200).scaled(SCALED)


@pytest.fixture(scope="module", params=BLOCKS)
def block(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def kv_settings(kv_settings: Settings, vllm_server: Callable[[int], VllmServer], block: int) -> Settings:
    return dataclasses.replace(kv_settings, endpoint=vllm_server(block).url)


@pytest.fixture(scope="module")
def kv_endpoint(kv_settings: Settings) -> Endpoint:
    """Of this module: the plugin's own is made once a session, from whichever settings were asked for first."""
    return kv_settings.connect(kv_settings.endpoint or "")


def by_hand(trace: Trace, block: int) -> Iterator[int]:
    """What each request of a trace reuses of those before it, from its ids alone: `floor(min(P, L-1)/B)*B`."""
    rows = list(trace)
    for number, row in enumerate(rows):
        shared = max((common(row.ids, earlier.ids) for earlier in rows[:number]), default=0)
        yield min(shared * SCALED, row.input_length - 1) // block * block


@pytest.mark.hit_rate(target="simulated", tol=0.0)
def test_one_after_the_other_reuses_what_is_simulated_to_the_token(kv: Runner, trace: Trace, block: int) -> None:
    expected = list(by_hand(trace, block))
    result = kv.replay(trace, users=1, output_len=1)
    assert [exchange.prompt_tokens for exchange in result.exchanges] == [row.input_length for row in trace]
    assert [exchange.cached_tokens for exchange in result.exchanges] == expected
    simulated = result.measurement.simulated
    assert simulated is not None
    assert list(simulated.per_request) == expected
    assert (result.hit_tokens, result.query_tokens) == (sum(expected), trace.input_tokens)
    assert result.simulated == result.predicted == result.hit_rate


@pytest.mark.hit_rate(target="simulated", tol=0.03)
def test_by_the_clock_of_the_trace(kv: Runner, trace: Trace) -> None:
    result = kv.replay(trace, speed=8.0, output_len=1)
    offsets = [exchange.scheduled for exchange in result.exchanges]
    times = [row.time or 0.0 for row in trace]
    assert all(offset is not None for offset in offsets)
    first = offsets[0] or 0.0
    assert [(offset or 0.0) - first for offset in offsets] == pytest.approx([(t - times[0]) / 8 for t in times])
    assert len(result.arrival) == len(times)
