"""Does the server reuse what prompts share by construction?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ..endpoint import Endpoint
from ..plugin.runner import Runner
from ..plugin.settings import Settings
from .asked import HitRate
from .running import facts_at, fitting, given, target_at

if TYPE_CHECKING:
    from ..workloads import WorkloadBuilder


@pytest.fixture
def asked(kv_settings: Settings) -> HitRate:
    """What ``--kv-set`` asks."""
    return given(kv_settings, HitRate)


def marks(asked: HitRate, _test: str) -> Iterator[pytest.MarkDecorator]:
    """How a test of this file is judged."""
    yield pytest.mark.hit_rate(target=asked.target, tol=asked.tol)


def test_hit_rate(
    kv: Runner, kv_workload: WorkloadBuilder, kv_endpoint: Endpoint, pytestconfig: pytest.Config, asked: HitRate
) -> None:
    """Requests that share a prefix of known length hit as many tokens of it as was asked."""
    if asked.target is None:
        facts_at(kv_endpoint, kv, pytestconfig)  # the target is what is predicted
    length = asked.input_len
    if length is None:
        length = fitting(target_at(kv_endpoint).facts.max_model_len, 2048, asked.output_len)
    workload = kv_workload.shared_prefix(
        requests=asked.requests,
        input_len=length,
        hit_rate=asked.share,
        prefix_len=asked.prefix_len,
        prefixes=asked.prefixes,
        output_len=asked.output_len,
        prefill=asked.prefill,
        tol=asked.tol,  # a rate that whole blocks do not reach is no fault of the server's
    )
    kv.run(workload, concurrency=asked.concurrency, rate=asked.rate, reset=asked.reset)
