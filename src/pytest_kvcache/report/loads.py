"""Levels, stretches, limits and what became of objectives to plain records."""

from __future__ import annotations

from collections.abc import Sequence

from ..distribution import merged
from ..model import Attained, ClientLoad, Level, Limit, Stretch
from ..model.objective import UNITS
from .plain import Record, highest, latency, rate
from .text import visible


def level(asked: Level) -> Record:
    """Return what was turned up: one of the two is None."""
    return {"concurrency": asked.concurrency, "rate": asked.rate}


def stretch(kept: Stretch) -> Record:
    """Return what came out between two moments."""
    return {
        "level": level(kept.level),
        "seconds": kept.seconds,
        "strict": kept.strict,
        "requests": kept.requests,
        "failed": kept.failed,
        "requests_per_s": kept.requests_per_s,
        "input_tokens": kept.input_tokens,
        "hit_tokens": kept.hit_tokens,
        "hit_rate": kept.hit_rate,
        "output_tokens": kept.output_tokens,
        "input_tok_s": kept.input_tok_s,
        "output_tok_s": kept.output_tok_s,
        "tokens_per_s": rate(kept.tokens_per_s),
        "ttft_s": latency(kept.ttft),
        "tpot_s": latency(kept.tpot),
        "itl_s": None if kept.itl is None else latency(kept.itl),
        "e2e_s": latency(kept.e2e),
        "good": kept.good,
        "goodput": kept.goodput,
    }


def limit(found: Limit) -> Record:
    """Return where the limit lies, with every period of the search; ``start`` counts from the first one's."""
    origin = found.periods[0].stretch.start if found.periods else 0.0
    return {
        "level": None if found.level is None else level(found.level),
        "breached": None if found.breached is None else level(found.breached),
        "converged": found.converged,
        "sentence": visible(found.sentence),
        "asked": _asked(found),
        "periods": [
            {
                "start": period.stretch.start - origin,
                "held": period.held,
                "why": visible(period.why),
                "stalled": period.stalled,
                **stretch(period.stretch),
            }
            for period in found.periods
        ],
    }


def _asked(found: Limit) -> list[Record]:
    """Return the service level of a search: what a period has to hold, then what each request has to meet."""
    limits: list[tuple[str, str, float, bool]] = [
        (one.metric, one.statistic, one.limit, one.at_most) for one in found.asked
    ]
    for metric in ("ttft", "tpot", "e2e"):
        seconds = getattr(found.each, metric, None)
        limits += [] if seconds is None else [(metric, "each", seconds, True)]
    return [
        {"metric": metric, "statistic": statistic, "limit": limit, "at_most": at_most, "unit": UNITS[metric]}
        for metric, statistic, limit, at_most in limits
    ]


def client(several: Sequence[ClientLoad]) -> Record | None:
    """Return how busy the client was over several windows; None when nothing was sent by it."""
    if not several:
        return None
    lag, queueing = (
        merged(one.lag for one in several) if len(several) > 1 else several[0].lag,
        merged(one.queueing for one in several) if len(several) > 1 else several[0].queueing,
    )
    return {
        "lag_s": {"p50": lag.p50, "p99": lag.p99, "max": lag.max, "count": len(lag)},
        "queueing_s": {"p50": queueing.p50, "p95": queueing.p95, "count": len(queueing)},
        "busy": highest(one.busy for one in several),
        "processes": max(one.processes for one in several),
    }


def objectives(several: Sequence[Attained]) -> list[Record]:
    """Return what became of each objective."""
    return [
        {
            "name": visible(one.objective.name),
            "metric": one.objective.metric,
            "statistic": one.objective.statistic,
            "limit": one.objective.limit,
            "at_most": one.objective.at_most,
            "unit": UNITS[one.objective.metric],
            "verdict": one.reached,
            "value": one.value,
            "low": one.low,
            "high": one.high,
            "samples": one.samples,
            "sentence": visible(one.sentence),
            "note": visible(one.note),
        }
        for one in several
    ]
