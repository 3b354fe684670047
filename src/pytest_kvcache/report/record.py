"""A judged test to one plain record: built-in types only, so that it crosses processes and goes into JSON as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import latency
from ..latency import Latency
from ..model import Exchange, Finding, Measurement, Tokens, Verdict
from .text import visible

Record = dict[str, Any]


def check_record(nodeid: str, verdict: Verdict, runs: Sequence[tuple[Measurement, Verdict]]) -> Record:
    """Return the record of one test: the verdict on all of its runs, then each run.

    Args:
        nodeid: of the test.
        verdict: on all runs together.
        runs: each measurement with the verdict on it alone.
    """
    exchanges = [e for measurement, _ in runs for e in measurement.exchanges]
    return {
        "nodeid": visible(nodeid),
        **_judged(verdict),
        "findings": [_finding(f) for f in verdict.findings],
        **_measured([measurement for measurement, _ in runs], exchanges),
        "runs": [
            {
                "title": measurement.title,
                **_judged(single),
                **_measured([measurement], measurement.exchanges),
                "cache_state": measurement.cache_state,
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
            "target": verdict.target,
            "predicted": verdict.predicted,
            "ceiling": verdict.ceiling,
        },
        "hit_tokens": verdict.hit_tokens,
        "query_tokens": verdict.query_tokens,
        "source": verdict.source,
    }


def _finding(finding: Finding) -> Record:
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "sentence": visible(finding.sentence),
        "advice": visible(finding.advice),
    }


def _measured(measurements: Sequence[Measurement], exchanges: Sequence[Exchange]) -> Record:
    facts = measurements[0].facts if measurements else None
    engines: dict[str, Tokens] = {}
    for measurement in measurements:
        for name, tokens in measurement.engines.items():
            engines[name] = engines[name] + tokens if name in engines else tokens
    return {
        "engine": None
        if facts is None
        else {
            "id": facts.engine,
            "variant": facts.variant,
            "version": facts.version and visible(facts.version),
            "model": visible(facts.model),
            "block_size": facts.block_size,
            "simulated": facts.simulated,
        },
        "engines": {visible(name): _tokens(tokens) for name, tokens in sorted(engines.items())},
        "tiers": _tiers(engines),
        "requests": {
            "total": len(exchanges),
            "failed": sum(not e.ok for e in exchanges),
            "prefill": sum(len(measurement.prefill) for measurement in measurements),
        },
        "ttft_s": _latency(latency.ttft(exchanges)),
        "itl_s": _latency(latency.itl(exchanges)),
        "e2e_s": _latency(latency.e2e(exchanges)),
        "output_tokens_per_s": latency.output_rate(exchanges),
        "cache_state": "; ".join(dict.fromkeys(m.cache_state for m in measurements)),
    }


def _tokens(tokens: Tokens) -> Record:
    return {
        "query_tokens": tokens.query,
        "local_hit_tokens": tokens.local_hit,
        "external_hit_tokens": tokens.external_hit,
    }


def _tiers(engines: dict[str, Tokens]) -> Record:
    if not engines:
        return {}
    total = sum(tokens.query for tokens in engines.values())
    local = sum(tokens.local_hit for tokens in engines.values())
    external = [tokens.external_hit for tokens in engines.values() if tokens.external_hit is not None]
    return {
        "local": {"hit_tokens": local, "hit_rate": local / total if total else None},
        "external": {
            "hit_tokens": sum(external) if external else None,
            "hit_rate": sum(external) / total if external and total else None,
        },
    }


def _latency(sample: Latency) -> Record:
    return {"p50": sample.p50, "p95": sample.p95, "p99": sample.p99, "mean": sample.mean, "count": len(sample)}
