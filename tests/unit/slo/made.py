"""Measurements by hand: requests with the times that a test says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pytest_kvcache.distribution import Latency
from pytest_kvcache.model import (
    ClientLoad,
    Exchange,
    Failure,
    Level,
    Measurement,
    ServerFacts,
    ServiceLevel,
    Stretch,
    Tokens,
)
from pytest_kvcache.production import Production
from pytest_kvcache.slo.asked import service_level
from pytest_kvcache.stretch import stretch_of

FACTS = ServerFacts(engine="vllm", model="tiny", variant="v1-admission", version="0.32.0", block_size=16, caching=True)


def asked(**limits: object) -> ServiceLevel:
    return service_level(limits)


def answer(
    ttft: float = 0.1, *, sent: float = 0.0, tokens: int | None = 11, step: float = 0.01, **more: Any
) -> Exchange:
    """An answer whose tokens come evenly, the last one at its end."""
    first = sent + ttft
    last = first + step * ((tokens or 1) - 1)
    seen = {"prompt_tokens": 100, "prompt_len": 100, "cached_tokens": 0, "status": 200, "completion_tokens": tokens}
    chunks = [first + step * at for at in range(tokens or 1)]
    stamps = {"sent": sent, "first_content": first, "last_content": last, "chunks": chunks}
    return Exchange("load", sent, last, **{**seen, **stamps, **more})


def failed(message: str = "HTTP 429: slow down", *, sent: float = 0.0, end: float = 0.1) -> Exchange:
    return Exchange("load", sent, end, sent=sent, prompt_len=100, status=429, failure=Failure("http", message))


def gaps_of(exchanges: Iterable[Exchange], step: float = 0.01) -> Latency:
    counts = Counter({step: sum((e.completion_tokens or 1) - 1 for e in exchanges if e.ok)})
    return Latency.counted(counts) if counts[step] else Latency()


def run(exchanges: Sequence[Exchange], **more: Any) -> Measurement:
    """A run of all requests; its counters agree with them."""
    whole = [e for e in exchanges if e.ok]
    query, hit = sum(e.prompt_tokens or 0 for e in whole), sum(e.cached_tokens or 0 for e in whole)
    produced = Production()
    for e in exchanges:
        produced.add(e, Counter(e.chunks))
    seen = {
        "title": "t",
        "facts": FACTS,
        "engines": {"0": Tokens(query, {"local": hit}, query)},
        "exchanges": tuple(exchanges),
        "gaps": gaps_of(exchanges),
        "produced": produced,
    }
    return Measurement(**{**seen, **more})


def level(exchanges: Sequence[Exchange], start: float, end: float, concurrency: int = 8, **more: Any) -> Measurement:
    """A level that was kept for a time."""
    made = run(exchanges)
    strict, lap = more.pop("strict", False), more.pop("lap", 0)
    stretch: Stretch = stretch_of(exchanges, made.produced, Level(concurrency), start, end, strict=strict, last=True)
    return run(exchanges, stretch=replace(stretch, lap=lap), **more)


def client(lag: Iterable[float] = (0.0,), busy: float | None = 0.2, processes: int = 1) -> ClientLoad:
    return ClientLoad(Latency.of(lag), Latency(), busy, processes)
