"""Did the new version get worse? Measured once with the old one, and compared from then on."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.kv_regression(allow="engine_version")
def test_reuse_is_what_it_was(kv: Any, kv_workload: Any) -> None:
    """The hit rate is the same in every run, so one is enough, and it must not fall at all."""
    kv.run(
        kv_workload.shared_prefix(requests=40, input_len=2048, hit_rate=0.7, prefixes=4, output_len=4), concurrency=1
    )


@pytest.mark.kv_regression(ttft_p50="+10%", e2e_p95="+15%", output_tok_s="-10%", allow="engine_version")
def test_it_is_as_fast_as_it_was(kv: Any, kv_workload: Any, repeats: int) -> None:
    """Times are noisy: only repeated runs can tell a change from chance."""
    for _ in range(repeats):
        kv.run(kv_workload.shared_prefix(requests=24, input_len=1024, hit_rate=0.5, prefixes=2, output_len=8))
