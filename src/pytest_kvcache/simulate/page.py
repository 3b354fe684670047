"""The engine's counters as a Prometheus page: vLLM's names under a prefix of our own."""

from __future__ import annotations

from .engine import Engine
from .faults import Faults

_REASONS = ("stop", "length", "abort", "error")
_TIERS = ("device", "host", "p2p", "disk", "external_unspecified")


def render(engine: Engine, model: str, prefix: str, faults: Faults) -> str:
    """Return the page.

    Args:
        engine: whose counters.
        model: the label ``model_name``.
        prefix: in front of every sample name, such as ``sim:``.
        faults: that damage the page.
    """
    counts = engine.counts
    labels = f'engine="0",model_name="{model}"'
    computed = counts.prompt - counts.cached
    rows: list[tuple[str, str, str, float]] = [
        ("num_requests_running", "gauge", labels, max(engine.running, int(faults.stuck_running))),
        ("num_requests_waiting", "gauge", labels, engine.waiting),
        ("kv_cache_usage_perc", "gauge", labels, engine.kv_usage),
        ("prefix_cache_queries_total", "counter", labels, counts.queries),
        ("prefix_cache_hits_total", "counter", labels, counts.hits),
        ("external_prefix_cache_queries_total", "counter", labels, 0),
        ("external_prefix_cache_hits_total", "counter", labels, 0),
        ("num_preemptions_total", "counter", labels, 0),
        ("prompt_tokens_total", "counter", labels, counts.prompt),
        ("prompt_tokens_by_source_total", "counter", f'{labels},source="local_compute"', computed),
        ("prompt_tokens_by_source_total", "counter", f'{labels},source="local_cache_hit"', counts.cached),
        ("prompt_tokens_by_source_total", "counter", f'{labels},source="external_kv_transfer"', 0),
        ("prompt_tokens_cached_total", "counter", labels, counts.cached),
        *(
            ("prompt_tokens_cached_by_source_total", "counter", f'{labels},source="{tier}"', value)
            for tier, value in zip(_TIERS, (counts.hits, 0, 0, 0, 0), strict=True)
        ),
        ("generation_tokens_total", "counter", labels, counts.generated),
        *(
            ("request_success_total", "counter", f'{labels},finished_reason="{r}"', counts.finished[r])
            for r in _REASONS
        ),
        ("time_to_first_token_seconds_sum", "untyped", labels, counts.ttft_sum),
        ("time_to_first_token_seconds_count", "untyped", labels, counts.ttft_count),
        ("cache_config_info", "gauge", _config_labels(engine), 1),
    ]
    groups: dict[str, list[str]] = {}  # the format wants all samples of a name together
    for name, kind, label, value in rows:
        full = prefix + name
        if full == faults.metrics_drop:
            continue
        group = groups.setdefault(full, [f"# HELP {full} Simulated engine.", f"# TYPE {full} {kind}"])
        group.append(f"{full}{{{label}}} {'NaN' if full == faults.metrics_nan else float(value)}")
        if kind == "counter":
            created = full.removesuffix("_total") + "_created"
            groups.setdefault(created, [f"# TYPE {created} gauge"]).append(f"{created}{{{label}}} {engine.started}")
    lines = [line for group in groups.values() for line in group]
    lines += ["# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {engine.started}"]
    page = "\n".join(lines) + "\n"
    return _damaged(page, prefix, faults)


def _config_labels(engine: Engine) -> str:
    config = engine.config
    values = {
        "block_size": config.block_size,
        "enable_prefix_caching": config.caching,
        "engine": 0,
        "kv_cache_size_tokens": config.capacity * config.block_size,
        "num_gpu_blocks": config.capacity,
        "prefix_caching_hash_algo": "builtin",
    }
    return ",".join(f'{name}="{value}"' for name, value in values.items())


def _damaged(page: str, prefix: str, faults: Faults) -> str:
    if faults.metrics_body == "html":
        return "<!doctype html>\n<html><head><title>Gateway</title></head><body>Sign in</body></html>\n"
    if faults.metrics_body == "empty":
        return ""
    if faults.metrics_body == "truncated":
        return page[: page.index(f"{prefix}prefix_cache_hits_total{{") + 40]
    return page
