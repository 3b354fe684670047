"""Prefix caching of the server really reuses what the prompts share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.hit_rate(target=0.75, tol=0.01)
def test_shared_prefix(kv: Any, kv_workload: Any) -> None:
    kv.run(kv_workload.shared_prefix(requests=40, input_len=2048, hit_rate=0.75, prefixes=2, output_len=8))


@pytest.mark.hit_rate(max=0.0)
def test_distinct_prompts_share_nothing(kv: Any, kv_workload: Any) -> None:
    kv.run(kv_workload.shared_prefix(requests=10, input_len=1024, hit_rate=0.0, output_len=8))
