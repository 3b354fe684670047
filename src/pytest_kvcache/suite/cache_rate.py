"""What comes out, and how fast, at each context size and hit rate?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..endpoint import Endpoint
from ..plugin.keys import SETTINGS
from ..plugin.runner import Runner
from ..plugin.settings import Settings
from ..workloads import WorkloadBuilder
from .asked import CacheRate
from .running import facts_at, given

_CONTEXTS = (512, 1536)
_OF_A_SET = 8  # contexts


@pytest.fixture
def asked(kv_settings: Settings) -> CacheRate:
    """What ``--kv-set`` asks."""
    return given(kv_settings, CacheRate)


def marks(asked: CacheRate, _test: str) -> Iterator[pytest.MarkDecorator]:
    """How a test of this file is judged, and what its grid shows."""
    yield pytest.mark.hit_rate(tol=asked.tol)
    yield pytest.mark.kv_sweep(axes=["context", "rate"])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each context and rate."""
    wanted = given(metafunc.config.stash[SETTINGS], CacheRate)
    metafunc.parametrize("rate", wanted.rates)
    metafunc.parametrize("context", wanted.contexts or _CONTEXTS)


def test_cache_rate(
    kv: Runner,
    kv_workload: WorkloadBuilder,
    kv_endpoint: Endpoint,
    pytestconfig: pytest.Config,
    asked: CacheRate,
    context: int,
    rate: float,
) -> None:
    """Requests over a working set hit what is predicted, at the levels asked or at the highest that holds."""
    facts = facts_at(kv_endpoint, kv, pytestconfig)
    longest, least = facts.max_model_len, facts.grain.minimum
    if context <= least and not asked.contexts:
        pytest.skip(f"of {context:,} tokens nothing is cached: this cache begins at {least:,}")
    if longest is not None and context + asked.output_len > longest and not asked.contexts:
        pytest.skip(f"{context:,} and {asked.output_len:,} tokens are more than the {longest:,} that the model takes")
    workload = kv_workload.working_set(
        tokens=asked.working_set or _OF_A_SET * context,
        context=context,
        hit_rate=rate,
        chunk=asked.chunk,
        selection=asked.selection,
        reinit=asked.reinit,
        output_len=asked.output_len,
    )
    if asked.mode == "sustained":
        result = kv.sustain(
            workload,
            max_ttft=asked.max_ttft,
            ttft_metric=asked.ttft_metric,
            min_tokens_per_req=asked.min_tokens_per_req,
            tokens_per_req_metric=asked.tokens_per_req_metric,
            duration=asked.duration or 300.0,
            assessment=asked.assessment,
            start=asked.start,
            step=asked.step,
            limit=asked.limit,
            reset=asked.reset,
        )
        if result.limit is None or result.limit.level is None:
            pytest.fail(result.limit.sentence if result.limit else "no limit was found", pytrace=False)
        return
    kv.steps(
        workload,
        concurrency=asked.levels,
        rate=asked.rate,
        max_ttft=asked.max_ttft,
        ttft_metric=asked.ttft_metric,
        min_tokens_per_req=asked.min_tokens_per_req,
        tokens_per_req_metric=asked.tokens_per_req_metric,
        duration=asked.duration or 5.0,
        retries=asked.retries,
        strict=asked.strict,
        stop_early=asked.stop_early,
        reset=asked.reset,
    )
