"""Fails a build when the service level is missed: latency, throughput and errors under a load of known reuse."""

from __future__ import annotations

from typing import Any

import pytest


def chats(kv_workload: Any) -> Any:
    """Four system prompts, each the first 70 % of 15 prompts."""
    return kv_workload.shared_prefix(requests=60, input_len=2048, hit_rate=0.7, prefixes=4, output_len=32)


@pytest.mark.hit_rate(target=0.7, tol=0.02)
@pytest.mark.kv_slo(ttft_p95=2.0, itl_p95=0.2, error_rate=0.0)
def test_interactive_users(kv: Any, kv_workload: Any) -> None:
    """Eight users, each waiting for the answer before the next question."""
    kv.run(chats(kv_workload), concurrency=8)


@pytest.mark.kv_slo(ttft=2.0, tpot=0.2, attainment=0.95)
def test_requests_that_do_not_wait(kv: Any, kv_workload: Any) -> None:
    """Twenty requests a second, whether or not the server keeps up: 95 % of them must meet both limits."""
    kv.run(chats(kv_workload), rate=20.0)


@pytest.mark.kv_speedup(min=1.2)
def test_the_cache_pays(kv: Any, kv_workload: Any) -> None:
    """The same prompts cold and warm, one at a time: how much sooner is the first token there?"""
    kv.speedup(kv_workload.shared_prefix(requests=30, input_len=4096, hit_rate=0.9, prefixes=2, output_len=4))
