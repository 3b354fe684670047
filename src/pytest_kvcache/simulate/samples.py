"""What an engine has counted, as samples with vLLM's names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from .counts import Counts, Histogram
from .engine import Engine

_REASONS = ("stop", "length", "abort", "error", "repetition")


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a metrics page.

    Attributes:
        name: without the page's prefix.
        kind: of its family.
        value: a number.
        labels: beyond those that every sample has.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    value: float
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """The name that the samples of a histogram share; other samples stand for themselves."""
        if self.kind != "histogram":
            return self.name
        return self.name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")


def samples(engine: Engine, counts: Counts, *, stuck_running: bool = False) -> Iterator[Sample]:
    """Yield the samples of an engine, except its configuration.

    Args:
        engine: whose gauges.
        counts: what is to be seen of its counters.
        stuck_running: the running gauge is at least one.
    """
    yield Sample("num_requests_running", "gauge", max(engine.running, int(stuck_running)))
    yield Sample("num_requests_waiting", "gauge", engine.waiting)
    yield Sample("kv_cache_usage_perc", "gauge", engine.kv_usage)
    totals = {
        "prefix_cache_queries": counts.queries,
        "prefix_cache_hits": counts.hits,
        "external_prefix_cache_queries": counts.external_queries,
        "external_prefix_cache_hits": counts.external_hits,
        "num_preemptions": counts.preemptions,
        "prompt_tokens": counts.prompt,
        "prompt_tokens_cached": counts.cached + counts.transferred,
        "generation_tokens": counts.generated,
    }
    for name, total in totals.items():
        yield Sample(f"{name}_total", "counter", total)
    yield from _by_label("prompt_tokens_by_source_total", "source", _sources(counts))
    yield from _by_label("prompt_tokens_cached_by_source_total", "source", _tiers(counts))
    finished = {reason: counts.finished[reason] for reason in _REASONS}
    yield from _by_label("request_success_total", "finished_reason", finished)
    yield from _histogram("time_to_first_token_seconds", counts.ttft)
    yield from _histogram("request_queue_time_seconds", counts.queue)
    yield from _histogram("request_prefill_time_seconds", counts.prefill)
    yield from _histogram("request_decode_time_seconds", counts.decode)
    yield from _histogram("e2e_request_latency_seconds", counts.e2e)
    yield from _histogram("request_prompt_tokens", counts.prompt_len)
    yield from _histogram("request_prefill_kv_computed_tokens", counts.computed)


def configuration(engine: Engine, number: int) -> dict[str, str]:
    """Return the labels of ``cache_config_info`` of the engine of that number."""
    config = engine.config
    return {
        "block_size": str(config.block_size),
        "enable_prefix_caching": str(config.caching),
        "engine": str(number),
        "kv_cache_size_tokens": str(config.capacity * config.block_size),
        "num_gpu_blocks": str(config.capacity),
        "prefix_caching_hash_algo": "builtin",
    }


def _sources(counts: Counts) -> dict[str, int]:
    return {
        "local_compute": counts.prompt - counts.cached - counts.transferred,
        "local_cache_hit": counts.cached,
        "external_kv_transfer": counts.transferred,
    }


def _tiers(counts: Counts) -> dict[str, int]:
    told = dict.fromkeys(("device", "host", "p2p", "disk", "external_unspecified"), 0)
    return {**told, "device": counts.device, "external_unspecified": counts.external_hits}


def _by_label(name: str, label: str, values: dict[str, int]) -> Iterator[Sample]:
    for value, total in values.items():
        yield Sample(name, "counter", total, {label: value})


def _histogram(name: str, histogram: Histogram) -> Iterator[Sample]:
    total = 0
    for bound, total in zip((*map(str, histogram.bounds), "+Inf"), accumulate(histogram.buckets), strict=True):
        yield Sample(f"{name}_bucket", "histogram", total, {"le": bound})
    yield Sample(f"{name}_count", "histogram", total)
    yield Sample(f"{name}_sum", "histogram", histogram.sum)
