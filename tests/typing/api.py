"""The public API as users type it: never run, only checked."""

from __future__ import annotations

from pytest_kvcache import (
    Endpoint,
    Expectation,
    Measurement,
    MetricsSource,
    Plan,
    Result,
    Runner,
    Sampler,
    Settings,
    WorkloadBuilder,
    run,
)


def sync_test(kv: Runner, kv_workload: WorkloadBuilder, kv_metrics: Sampler, kv_endpoint: Endpoint) -> None:
    workload = kv_workload.shared_prefix(requests=1, input_len=8, hit_rate=0.5, prefixes=2, output_len=1, align=None)
    result: Result = kv.run(workload, concurrency=2, reset="auto", stream=False)
    own = kv_workload.requests([{"prompt": "a", "n": 3}], api="completions", warm=0)
    peak: float | None = pressure.kv_usage_peak if (pressure := kv.run(own, settle=4).measurement.pressure) else None
    tiers: dict[str, int] = {tier: hits for t in result.engines.values() for tier, hits in t.hits.items()}
    rate: float = result.hit_rate
    p50: float | None = result.ttft.p50
    with kv.measure() as block:
        url: str = kv_endpoint.url
    hits: int = block.result.hit_tokens
    total: float | None = kv_metrics.snapshot().total("x")
    print(rate, p50, url, hits, total, peak, tiers)


async def async_test(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    result = await kv.arun(kv_workload.shared_prefix(1, 8, prefix_len=4))
    result.verdict.check()
    async with kv.measure():
        pass


async def without_pytest(settings: Settings) -> Measurement:
    workload = WorkloadBuilder().shared_prefix(1, 8, 0.5)
    print(Expectation(target=0.7, requests="warm", tier="external"))
    print(Endpoint("http://h", metrics=(MetricsSource("http://p/metrics", "prefill"),)))
    return await run(settings.connect("http://h"), workload, Plan(nonce="n"))
