"""Many measurements, which may run at once: none counts another's traffic."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("rate", [0.0, 0.5])
@pytest.mark.parametrize("context", [512, 1024])
@pytest.mark.hit_rate(tol=0.02)
def test_prediction_is_reached(kv: Any, kv_workload: Any, rate: float, context: int) -> None:
    kv.run(kv_workload.shared_prefix(requests=16, input_len=context, hit_rate=rate, prefixes=2, output_len=4))
