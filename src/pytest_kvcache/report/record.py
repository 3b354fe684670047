"""A judged test to one plain record: built-in types only, so that it crosses processes and goes into JSON as it is.

Keys are added and never renamed. Rates are 0..1, durations seconds; None (``null``) means "not told", never zero.

========================== =============================================================================================
``hit_rate``               ``measured``; ``low``, ``high``: the bounds that printed digits and tolerances leave it, None
                           where it is exact; ``warm``: over the requests that had something to hit; ``target``;
                           ``target_from``: ``given``, ``predicted`` or ``simulated``; ``predicted``: of an unlimited
                           cache; ``simulated``: of one as large as the server's, which evicts; ``ceiling``
``simulated_cache``        ``capacity_tokens`` and ``block_size`` of the simulated cache; None: not known, or several
``engine``                 what answered; ``unconfirmed``: how it reports was not read in its own source
``engines``, ``aside``     tokens of each engine; those ``aside`` are shown and never summed
``tiers``                  of all summed engines: ``local``, every other tier by name, ``external`` = all but ``local``
``requests``               ``aborted``: sent, and given up on or cut off before the answer was whole
``pressure``               counters over the window, peaks of the samples taken during the load
``server_latency_s``       the engines' own histograms: exact means, quantiles with the bounds of their bucket
``ttft_s``, ``itl_s``, ... as the client saw them, exact
``arrival_s``              how much later than scheduled requests were sent; no samples without a schedule
``runs[].waterfall``       tokens from ``ceiling`` down to ``measured``, each loss with its evidence; None: not known
``runs[].divergence``      where requests that should share a prefix part, without their text
``runs[].turns``           of conversations: one row a turn
``probes``                 what probes of the test found, one line each
========================== =============================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from .. import distribution, latency
from ..distribution import Latency
from ..histogram import Histogram, Quantile, merged
from ..model import Divergence, Exchange, Finding, Measurement, Pressure, ServerFacts, Tokens, Verdict, Waterfall
from ..model.loss import TITLES
from ..turns import Turns
from .text import visible

Record = dict[str, Any]
_Number = TypeVar("_Number", int, float)


def check_record(
    nodeid: str, verdict: Verdict, runs: Sequence[tuple[Measurement, Verdict]], probes: Sequence[str] = ()
) -> Record:
    """Return the record of one test: the verdict on all of its runs, then each run.

    Args:
        nodeid: of the test.
        verdict: on all runs together.
        runs: each measurement with the verdict on it alone.
        probes: what the test's probes found.
    """
    exchanges = [e for measurement, _ in runs for e in measurement.exchanges]
    return {
        "nodeid": visible(nodeid),
        **_judged(verdict),
        "findings": [_finding(f) for f in verdict.findings],
        "probes": [visible(line) for line in probes],
        **_measured([measurement for measurement, _ in runs], exchanges),
        "runs": [
            {
                "title": measurement.title,
                **_judged(single),
                **_measured([measurement], measurement.exchanges),
                "cache_state": measurement.cache_state,
                "notes": [visible(note) for note in measurement.notes],
                "waterfall": _waterfall(measurement.waterfall),
                "divergence": _divergence(measurement.divergence),
                "turns": _turns(measurement),
            }
            for measurement, single in runs
        ],
    }


def _judged(verdict: Verdict) -> Record:
    return {
        "verdict": verdict.status,
        "sentence": visible(verdict.sentence),
        "hit_rate": {
            "measured": verdict.hit_rate,
            "low": verdict.low,
            "high": verdict.high,
            "warm": verdict.warm,
            "target": verdict.target,
            "target_from": verdict.target_from,
            "predicted": verdict.predicted,
            "simulated": verdict.simulated,
            "ceiling": verdict.ceiling,
        },
        "hit_tokens": verdict.hit_tokens,
        "query_tokens": verdict.query_tokens,
        "source": verdict.source,
    }


def _waterfall(waterfall: Waterfall | None) -> Record | None:
    if waterfall is None:
        return None
    losses = [
        {
            "cause": loss.cause,
            "title": TITLES[loss.cause],
            "tokens": loss.tokens,
            "requests": loss.requests,
            "evidence": visible(loss.evidence),
            "advice": visible(loss.advice),
        }
        for loss in waterfall.losses
    ]
    return {"ceiling": waterfall.ceiling, "measured": waterfall.measured, "losses": losses}


def _divergence(divergence: Divergence | None) -> Record | None:
    """Return where requests part, without any of their text."""
    if divergence is None:
        return None
    told = {field.name: getattr(divergence, field.name) for field in fields(divergence)}
    return {name: value for name, value in told.items() if name not in ("shared", "left", "right")}


def _turns(measurement: Measurement) -> list[Record]:
    return [
        {
            "session": turn.session,
            "turn": turn.turn,
            "prompt_tokens": turn.prompt,
            "cached_tokens": turn.cached,
            "predicted_tokens": turn.predicted,
            "ttft_s": turn.ttft,
        }
        for turn in Turns.of(measurement)
    ]


def _finding(finding: Finding) -> Record:
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "sentence": visible(finding.sentence),
        "advice": visible(finding.advice),
    }


def _measured(measurements: Sequence[Measurement], exchanges: Sequence[Exchange]) -> Record:
    engines = _added(measurement.engines for measurement in measurements)
    aside = _added(measurement.aside for measurement in measurements)
    return {
        "engine": _engine(measurements[0].facts) if measurements else None,
        "engines": {visible(name): _tokens(tokens) for name, tokens in sorted(engines.items())},
        "aside": {visible(name): _tokens(tokens) for name, tokens in sorted(aside.items())},
        "tiers": _tiers(engines),
        "simulated_cache": _simulated_cache(measurements),
        "requests": {
            "total": len(exchanges),
            "failed": sum(not e.ok for e in exchanges),
            "aborted": sum(map(_is_aborted, exchanges)),
            "prefill": sum(len(measurement.prefill) for measurement in measurements),
        },
        "ttft_s": _latency(latency.ttft(exchanges)),
        "itl_s": _latency(distribution.merged(m.gaps for m in measurements)),
        "e2e_s": _latency(latency.e2e(exchanges)),
        "arrival_s": _latency(latency.lateness(exchanges)),
        "output_tokens_per_s": latency.output_rate(exchanges),
        "server_latency_s": _server_latency(measurements),
        "pressure": _pressure([m.pressure for m in measurements if m.pressure is not None]),
        "cache_state": "; ".join(dict.fromkeys(m.cache_state for m in measurements)),
    }


def _is_aborted(exchange: Exchange) -> bool:
    kind = exchange.failure.kind if exchange.failure is not None else None
    return exchange.finish_reason == "abort" or (exchange.sent is not None and kind in ("timeout", "cut"))


def _engine(facts: ServerFacts) -> Record:
    return {
        "id": facts.engine,
        "variant": facts.variant,
        "version": facts.version and visible(facts.version),
        "model": visible(facts.model),
        "block_size": facts.block_size,
        "unit": facts.unit,
        "counted": facts.counted,
        "note": facts.note or None,
        "unconfirmed": facts.unconfirmed,
        "simulated": facts.simulated,
    }


# --- tokens ----------------------------------------------------------------------------------------------------------


def _added(several: Iterable[Mapping[str, Tokens]]) -> dict[str, Tokens]:
    sums: dict[str, Tokens] = {}
    for engines in several:
        for name, tokens in engines.items():
            sums[name] = sums[name] + tokens if name in sums else tokens
    return sums


def _tokens(tokens: Tokens) -> Record:
    return {
        "query_tokens": tokens.query,
        "hit_tokens": tokens.hit,
        "hit_rate": _share(tokens.hit, tokens.query),
        "local_hit_tokens": tokens.local_hit,
        "external_hit_tokens": tokens.external_hit,
        "tiers": {visible(tier): hit for tier, hit in tokens.hits.items()},
        "prompt_tokens": tokens.prompt,
    }


def _tiers(engines: Mapping[str, Tokens]) -> Record:
    if not engines:
        return {}
    query = sum(tokens.query for tokens in engines.values())
    named = dict.fromkeys(tier for tokens in engines.values() for tier in tokens.hits)
    found = {}
    for tier in dict.fromkeys(["local", *named, "external"]):
        hits = [hit for hit in (tokens.of(tier) for tokens in engines.values()) if hit is not None]
        hit = sum(hits) if hits else None
        found[visible(tier)] = {"hit_tokens": hit, "hit_rate": _share(hit, query)}
    return found


def _simulated_cache(measurements: Sequence[Measurement]) -> Record | None:
    sizes = {(m.simulated.capacity, m.simulated.block_size) if m.simulated else None for m in measurements}
    size = sizes.pop() if len(sizes) == 1 else None
    return None if size is None else {"capacity_tokens": size[0], "block_size": size[1]}


def _share(hit: int | None, query: int) -> float | None:
    return None if hit is None or query == 0 else hit / query


# --- time and pressure -----------------------------------------------------------------------------------------------


def _latency(sample: Latency) -> Record:
    return {"p50": sample.p50, "p95": sample.p95, "p99": sample.p99, "mean": sample.mean, "count": len(sample)}


def _server_latency(measurements: Sequence[Measurement]) -> Record:
    names = dict.fromkeys(name for measurement in measurements for name in measurement.server_latency)
    found = {}
    for name in names:
        whole = merged(m.server_latency[name] for m in measurements if name in m.server_latency)
        if whole is not None:
            found[name] = _histogram(whole)
    return found


def _histogram(whole: Histogram) -> Record:
    quantiles = {f"p{percent}": _quantile(whole.quantile(percent / 100)) for percent in (50, 95, 99)}
    return {"count": whole.count, "mean": whole.mean, **quantiles}


def _quantile(quantile: Quantile | None) -> Record | None:
    if quantile is None:
        return None
    high = None if math.isinf(quantile.high) else quantile.high  # JSON has no infinity
    return {"value": quantile.value, "low": quantile.low, "high": high}


def _pressure(several: Sequence[Pressure]) -> Record | None:
    if not several:
        return None
    return {
        "preemptions": _sum(p.preemptions for p in several),
        "evictions": _sum(p.evictions for p in several),
        "kv_usage_peak": _max(p.kv_usage_peak for p in several),
        "running_peak": _max(p.running_peak for p in several),
        "waiting_peak": _max(p.waiting_peak for p in several),
        "samples": sum(p.samples for p in several),
        "missed": sum(p.missed for p in several),
    }


def _sum(values: Iterable[int | None]) -> int | None:
    told = [value for value in values if value is not None]
    return sum(told) if told else None


def _max(values: Iterable[_Number | None]) -> _Number | None:
    return max((value for value in values if value is not None), default=None)
