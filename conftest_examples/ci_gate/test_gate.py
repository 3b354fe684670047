"""The build fails when less than 70 % of the prompt tokens come from the cache."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.hit_rate(min=0.7)
def test_shared_prompts_are_reused(kv: Any, kv_workload: Any) -> None:
    """Four system prompts, each three quarters of its ten prompts: room for rounding, none for a cache that is off."""
    kv.run(kv_workload.shared_prefix(requests=40, input_len=2048, hit_rate=0.75, prefixes=4, output_len=8))


@pytest.mark.hit_rate(max=0.0)
def test_the_gate_can_fail(kv: Any, kv_workload: Any) -> None:
    """Prompts that share nothing hit nothing: what the test above measures is reuse, not what the server held."""
    kv.run(kv_workload.shared_prefix(requests=10, input_len=1024, hit_rate=0.0, output_len=8))
