"""Stretches of load by hand."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_kvcache.distribution import Latency
from pytest_kvcache.model import Level, Stretch

TEN = Level(concurrency=10)


def stretch(
    ttft: Sequence[float] = (),
    *,
    level: Level = TEN,
    start: float = 1000.0,
    seconds: float = 30.0,
    requests: int | None = None,
    failed: int = 0,
    output_tokens: float = 3000.0,
    tokens_per_s: Sequence[float] = (),
    tpot: Sequence[float] = (),
    e2e: Sequence[float] = (),
    good: int | None = None,
    itl: Latency | None = None,
    input_tokens: int | None = None,
    hit_tokens: int | None = None,
) -> Stretch:
    """A stretch with as many requests as there are samples, unless another number is given."""
    return Stretch(
        level=level,
        start=start,
        end=start + seconds,
        requests=max(len(ttft), len(tokens_per_s)) if requests is None else requests,
        failed=failed,
        output_tokens=output_tokens,
        input_tokens=input_tokens,
        hit_tokens=hit_tokens,
        ttft=Latency.of(ttft),
        tpot=Latency.of(tpot),
        e2e=Latency.of(e2e),
        tokens_per_s=Latency.of(tokens_per_s),
        itl=itl,
        good=good,
    )
