"""The public API as users type it: never run, only checked."""

from __future__ import annotations

from pathlib import Path

from pytest_kvcache import (
    Curve,
    Divergence,
    Endpoint,
    Expectation,
    Measurement,
    MetricsSource,
    Pace,
    Plan,
    Result,
    Row,
    Rules,
    Runner,
    Sampler,
    Settings,
    Simulated,
    Trace,
    TraceOpener,
    Turns,
    Waterfall,
    WorkloadBuilder,
    open_trace,
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


def shapes(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    traffic = kv_workload.shared_prefix(9, [512, 1024], {0.0: 0.5, 0.5: 0.5}, prefixes=3, weights="zipf", send="chat")
    kv.run(traffic, rate=5.0, arrival="constant", ramp=1.0, retries=2)
    kv.run(kv_workload.shared_prefix(9, 1024, tree=[(1, 256), (3, 128)]))
    kv.run(kv_workload.working_set(8192, 1024, 0.5, chunk=64, selection="random", reinit="once"))
    kv.run(kv_workload.prompts("recorded.jsonl", limit=10, warm=1))
    chat = kv_workload.conversation(Path("system.txt"), Path("tools.json"), turns=3, think_time=(0.1, 0.2))
    turns: Turns = kv.run(chat, sessions=4, concurrency=2).turns
    rate: float | None = turns.skip(1).hit_rate
    ok: bool = bool(turns.cached_tokens_never_drop()) and bool(turns.grows()) and bool(turns.same_as(turns))
    measured = kv.run(traffic).measurement
    fall: Waterfall | None = measured.waterfall
    parted: Divergence | None = measured.divergence
    found: str = str(kv_workload.lint([{"role": "user", "content": "a"}], show_text=False))
    step: int | None = kv.probe.granularity().step
    kv.probe.isolation(by="cache_salt")
    print(rate, ok, fall and fall.of("eviction"), parted and parted.cause, found, step)


def traces(kv: Runner, kv_trace: TraceOpener, kv_workload: WorkloadBuilder) -> None:
    trace: Trace = kv_trace("requests.jsonl", block_size=512, time_unit="ms", ids="prefix", order="time", strict=False)
    part: Trace = open_trace([Path("a"), "b"], model="config.json").between(0, 600).sampled(0.1, seed=1).scaled(16)
    simulated: Simulated = trace.simulate("lru", gib=2, rules=Rules(partial=False), warm=0.1)
    rate: float | None = simulated.hit_rate
    result: Result = kv.replay(part, speed=2, max_span=600, output_len=8, send="text", seed=1, retries=1, reset="auto")
    same: float | None = kv.replay(trace.first(9), users=2, concurrency=None, stream=False).simulated
    late: float | None = result.arrival.p95
    rows: list[Row] = list(trace)
    curve: Curve = trace.sweep(warm=0.1)
    ceiling: float | None = curve.ceiling
    expectation = Expectation(target="simulated", tol=0.03)
    kv.run(kv_workload.trace(trace, clock=False, users=1, think=True), concurrency=1)
    print(rate, same, late, rows, expectation, ceiling, curve.hit_rate(gib=2))


async def async_test(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    result = await kv.arun(kv_workload.shared_prefix(1, 8, prefix_len=4))
    result.verdict.check()
    await kv.areplay(open_trace("requests.jsonl"), users=4)
    async with kv.measure():
        pass


async def without_pytest(settings: Settings) -> Measurement:
    workload = WorkloadBuilder().shared_prefix(1, 8, 0.5)
    print(Expectation(target=0.7, requests="warm", tier="external"))
    print(Endpoint("http://h", metrics=(MetricsSource("http://p/metrics", "prefill"),)))
    return await run(settings.connect("http://h"), workload, Plan(nonce="n", pace=Pace(4)))
