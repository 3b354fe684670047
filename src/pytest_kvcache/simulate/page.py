"""The engine's counters as a Prometheus page: vLLM's names under a prefix of our own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from .counts import Counts, Histogram
from .engine import Engine
from .faults import Faults

_REASONS = ("stop", "length", "abort", "error", "repetition")
_TIERS = ("device", "host", "p2p", "disk", "external_unspecified")
_Row = tuple[str, str, dict[str, str], float]  # sample name without prefix, type, labels, value


def render(engine: Engine, counts: Counts, model: str, prefix: str, faults: Faults) -> str:
    """Return the page.

    Args:
        engine: whose gauges and configuration.
        counts: what is to be seen of its counters.
        model: the label ``model_name``.
        prefix: in front of every sample name, such as ``sim:``.
        faults: that damage the page.
    """
    labels = {"engine": "0", "model_name": model}
    groups: dict[str, list[str]] = {}  # the format wants all samples of a name together
    for name, kind, more, value in _rows(engine, counts, faults):
        full = prefix + name
        if full == faults.metrics_drop:
            continue
        family = (
            full.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") if kind == "histogram" else full
        )
        group = groups.setdefault(family, [f"# HELP {family} Simulated engine.", f"# TYPE {family} {kind}"])
        shown = _labels(more if name == "cache_config_info" else {**labels, **more})
        group.append(f"{full}{shown} {'NaN' if full == faults.metrics_nan else float(value)}")
        if kind == "counter":
            created = full.removesuffix("_total") + "_created"
            groups.setdefault(created, [f"# TYPE {created} gauge"]).append(f"{created}{shown} {engine.started}")
    lines = [line for group in groups.values() for line in group]
    lines += ["# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {engine.started}"]
    return _damaged("\n".join(lines) + "\n", prefix, faults)


def _rows(engine: Engine, counts: Counts, faults: Faults) -> Iterator[_Row]:
    yield "num_requests_running", "gauge", {}, max(engine.running, int(faults.stuck_running))
    yield "num_requests_waiting", "gauge", {}, engine.waiting
    yield "kv_cache_usage_perc", "gauge", {}, engine.kv_usage
    yield "prefix_cache_queries_total", "counter", {}, counts.queries
    yield "prefix_cache_hits_total", "counter", {}, counts.hits
    yield "external_prefix_cache_queries_total", "counter", {}, 0
    yield "external_prefix_cache_hits_total", "counter", {}, 0
    yield "num_preemptions_total", "counter", {}, 0
    yield "prompt_tokens_total", "counter", {}, counts.prompt
    sources = {
        "local_compute": counts.prompt - counts.cached,
        "local_cache_hit": counts.cached,
        "external_kv_transfer": 0,
    }
    for source, tokens in sources.items():
        yield "prompt_tokens_by_source_total", "counter", {"source": source}, tokens
    yield "prompt_tokens_cached_total", "counter", {}, counts.cached
    for tier in _TIERS:
        hits = counts.hits if tier == "device" else 0
        yield "prompt_tokens_cached_by_source_total", "counter", {"source": tier}, hits
    yield "generation_tokens_total", "counter", {}, counts.generated
    for reason in _REASONS:
        yield "request_success_total", "counter", {"finished_reason": reason}, counts.finished[reason]
    yield from _histogram("time_to_first_token_seconds", counts.ttft)
    yield from _histogram("request_queue_time_seconds", counts.queue)
    yield from _histogram("request_prefill_time_seconds", counts.prefill)
    yield from _histogram("request_decode_time_seconds", counts.decode)
    yield from _histogram("e2e_request_latency_seconds", counts.e2e)
    yield from _histogram("request_prompt_tokens", counts.prompt_len)
    yield from _histogram("request_prefill_kv_computed_tokens", counts.computed)
    yield "cache_config_info", "gauge", _configuration(engine), 1


def _histogram(name: str, histogram: Histogram) -> Iterator[_Row]:
    total = 0
    for bound, total in zip((*map(str, histogram.bounds), "+Inf"), accumulate(histogram.buckets), strict=True):
        yield f"{name}_bucket", "histogram", {"le": bound}, total
    yield f"{name}_count", "histogram", {}, total
    yield f"{name}_sum", "histogram", {}, histogram.sum


def _configuration(engine: Engine) -> dict[str, str]:
    config = engine.config
    return {
        "block_size": str(config.block_size),
        "enable_prefix_caching": str(config.caching),
        "engine": "0",
        "kv_cache_size_tokens": str(config.capacity * config.block_size),
        "num_gpu_blocks": str(config.capacity),
        "prefix_caching_hash_algo": "builtin",
    }


def _labels(values: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _damaged(page: str, prefix: str, faults: Faults) -> str:
    if faults.metrics_body == "html":
        return "<!doctype html>\n<html><head><title>Gateway</title></head><body>Sign in</body></html>\n"
    if faults.metrics_body == "empty":
        return ""
    if faults.metrics_body == "truncated":
        return page[: page.find(f"\n{prefix}prefix_cache_hits_total{{") + 41]
    return page
