"""What does the cache buy under load? Hit rates x context lengths, one measured cell each, in one grid at the end.

Interrupt it whenever you like and go on with the same ``--kv-resume=DIR``: what was measured is not measured again.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kvcache import rates

CONTEXTS = [512, 2048]  # tokens of a prompt; yours are longer
CONTEXTS_AT_ONCE = 8  # in the warmed set


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("rate", rates(0.0, 1.0, 0.25))
@pytest.mark.hit_rate(tol=0.02)
def test_throughput(kv: Any, kv_workload: Any, seconds: float, rate: float, context: int) -> None:
    """The predicted rate is reached at every level, whatever was measured before: what follows a context is new."""
    requests = kv_workload.working_set(
        tokens=CONTEXTS_AT_ONCE * context, context=context, hit_rate=rate, reinit="once", output_len=16
    )
    steps = kv.steps(requests, [1, 8], duration=seconds, max_ttft=2.0)
    assert all(step.stretch.failed == 0 for step in steps)


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.9])
def test_capacity(kv: Any, kv_workload: Any, seconds: float, rate: float) -> None:
    """How many users hold a TTFT of half a second (p95)? More, the more of their prompts is cached."""
    requests = kv_workload.shared_prefix(requests=200, input_len=2048, hit_rate=rate, prefixes=4, output_len=16)
    result = kv.sustain(requests, max_ttft=0.5, duration=10 * seconds, assessment=seconds, step=4, limit=64)
    assert result.limit.level is not None, result.limit.sentence
