"""Expectation x measurements -> verdict. Pure arithmetic: what was measured, is it valid, is it what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .diagnose import cached_tokens, findings
from .model import Expectation, Finding, Measurement, Severity, Status, Verdict

_EPSILON = 1e-9  # rates are ratios of integers; this only absorbs the rounding of `target ± tol` itself


@dataclass(frozen=True, slots=True)
class Rate:
    """A ratio with its two integers.

    Attributes:
        hit / query: tokens, or requests when weighted so.
        source: where they were read.
    """

    hit: int
    query: int
    source: Literal["counters", "usage"]

    @property
    def value(self) -> float | None:
        """Hit / query; None for 0 of 0, which is no rate."""
        return self.hit / self.query if self.query else None


def judge(expectation: Expectation, measurements: Sequence[Measurement]) -> Verdict:
    """Return the verdict on all measurements together.

    The rate is that of all windows: the sum of hits over the sum of queries, never a mean of rates. Any finding that
    makes a window invalid makes the verdict inconclusive, whatever the number says.
    """
    found = [finding for measurement in measurements for finding in findings(measurement)]
    rate = _rate(expectation, measurements)
    measured: Rate | None = None
    if isinstance(rate, Finding):
        found.append(rate)
    elif rate.value is None:
        found.append(Finding("KV106", "nothing was looked up in the window: 0 of 0 tokens is no hit rate"))
    else:
        measured = rate
    predicted = _predicted(expectation, measurements)
    ceiling = _ceiling(expectation, measurements)
    target = expectation.target
    if target is None and expectation.min is None and expectation.max is None:
        target = predicted
        if target is None:
            found.append(
                Finding(
                    "KV115",
                    "no rate is asked for and none is predicted here",
                    "give target=, min= or max= (predicting needs kv.run, tier='total' and a known block size)",
                )
            )
    if measured is not None:
        found += _compare(expectation, measured, target, ceiling)
    ordered = tuple(sorted(dict.fromkeys(found), key=_gravity))
    status = _status(ordered)
    return Verdict(
        status=status,
        sentence=_sentence(status, measured, expectation, target, ordered),
        hit_rate=measured.value if measured else None,
        hit_tokens=measured.hit if measured else None,
        query_tokens=measured.query if measured else None,
        target=target,
        predicted=predicted,
        ceiling=ceiling,
        source=measured.source if measured else None,
        findings=ordered,
    )


# --- the rate --------------------------------------------------------------------------------------------------------


def _rate(expectation: Expectation, measurements: Sequence[Measurement]) -> Rate | Finding:
    if not measurements:
        return Finding(
            "KV106", "the test measured nothing", "call kv.run, or leave the kv fixtures out to measure all of it"
        )
    if expectation.weight == "request":
        return _request_rate(measurements)
    rates: list[Rate] = []
    for measurement in measurements:
        rate = _token_rate(expectation, measurement)
        if isinstance(rate, Finding):
            return rate
        rates.append(rate)
    source: Literal["counters", "usage"] = "counters" if all(r.source == "counters" for r in rates) else "usage"
    return Rate(sum(r.hit for r in rates), sum(r.query for r in rates), source)


def _token_rate(expectation: Expectation, m: Measurement) -> Rate | Finding:
    counters = m.counters
    if counters is not None and expectation.source != "usage":
        if expectation.tier == "total":
            return Rate(counters.hit, counters.query, "counters")
        if expectation.tier == "local":
            return Rate(counters.local_hit, counters.query, "counters")
        if counters.external_hit is None:
            return Finding("KV101", f"{m.facts.engine} has no counters of an external tier")
        return Rate(counters.external_hit, counters.query, "counters")
    if expectation.source == "counters" or not m.own_traffic:
        return Finding("KV101", "the window has no counters to judge by", _lost_counters(m))
    if expectation.tier != "total":
        return Finding("KV101", f"usage does not tell tiers apart, so tier={expectation.tier!r} needs counters")
    if m.facts.variant is not None and expectation.source == "auto":
        return Finding("KV101", "the counters of this engine were not read", _lost_counters(m))
    return _usage_rate(m)


def _usage_rate(m: Measurement) -> Rate | Finding:
    cached = cached_tokens(m.exchanges)
    whole = [e for e in m.exchanges if e.ok]
    if not whole:
        return Finding("KV106", "no request was answered, so usage says nothing")
    if cached is None:
        missing = sum(e.cached_tokens is None for e in whole)
        return Finding("KV111", f"{missing} of {len(whole)} replies do not report cached_tokens", _usage_advice(m))
    prompts = [e.prompt_tokens for e in whole]
    if any(tokens is None for tokens in prompts):
        return Finding("KV111", "replies report cached_tokens but no prompt_tokens")
    return Rate(cached, sum(tokens for tokens in prompts if tokens is not None), "usage")


def _request_rate(measurements: Sequence[Measurement]) -> Rate | Finding:
    whole = [e for m in measurements for e in m.exchanges if e.ok]
    if any(e.cached_tokens is None for e in whole) or not whole:
        return Finding(
            "KV111", "a request-weighted rate needs cached_tokens in every reply", _usage_advice(measurements[0])
        )
    return Rate(sum(bool(e.cached_tokens) for e in whole), len(whole), "usage")


def _usage_advice(m: Measurement) -> str:
    flag = m.facts.usage_flag or "an option that reports usage.prompt_tokens_details.cached_tokens"
    return f"the server needs {flag}"


def _lost_counters(m: Measurement) -> str:
    return m.findings[0].sentence if m.findings else ""


def _predicted(expectation: Expectation, measurements: Sequence[Measurement]) -> float | None:
    """The rate that caches of the servers' block sizes reach; None when any window has no exact prediction."""
    if any(m.prediction is None or not m.prediction.exact for m in measurements):
        return None
    return _ceiling(expectation, measurements)


def _ceiling(expectation: Expectation, measurements: Sequence[Measurement]) -> float | None:
    predictions = [m.prediction for m in measurements if m.prediction is not None]
    if len(predictions) != len(measurements) or expectation.tier != "total":
        return None
    if expectation.weight == "request":
        hits = [hit for p in predictions for hit in p.per_request]
        return sum(bool(hit) for hit in hits) / len(hits) if hits else None
    query = sum(p.query_tokens for p in predictions)
    return sum(p.hit_tokens for p in predictions) / query if query else None


# --- the comparison --------------------------------------------------------------------------------------------------


def _compare(expectation: Expectation, rate: Rate, target: float | None, ceiling: float | None) -> list[Finding]:
    value = rate.value or 0.0
    found: list[Finding] = []
    if ceiling is not None and value > ceiling + _EPSILON:
        found.append(
            Finding(
                "KV108",
                f"the measured rate {value:.4f} is above {ceiling:.4f}, the most that any cache can reach here",
                "the prompts were cached before the run (same seed?), or the instrument is wrong",
            )
        )
    low = max(
        (x for x in (None if target is None else target - expectation.tol, expectation.min) if x is not None),
        default=None,
    )
    high = min(
        (x for x in (None if target is None else target + expectation.tol, expectation.max) if x is not None),
        default=None,
    )
    if low is not None and value < low - _EPSILON:
        found.append(Finding("KV201", f"hit rate {value:.3f} is {low - value:.3f} below {low:.3f}"))
    if high is not None and value > high + _EPSILON:
        found.append(Finding("KV202", f"hit rate {value:.3f} is {value - high:.3f} above {high:.3f}"))
    return found


def _gravity(finding: Finding) -> tuple[int, int]:
    # A cause before its consequence: no counters to judge by is only what the earlier finding led to.
    rank = [Severity.INVALID, Severity.MISSED, Severity.DOUBT].index(finding.severity)
    consequence = finding.code in ("KV101", "KV106", "KV115")
    return rank, int(consequence)


def _status(found: Sequence[Finding]) -> Status:
    severities = {finding.severity for finding in found}
    if Severity.INVALID in severities:
        return "inconclusive"
    return "fail" if Severity.MISSED in severities else "pass"


def _sentence(
    status: str, rate: Rate | None, expectation: Expectation, target: float | None, found: Sequence[Finding]
) -> str:
    if status == "inconclusive":
        first = found[0]
        return f"inconclusive: {first.sentence}{f'; {first.advice}' if first.advice else ''} [{first.code}]"
    if rate is None or rate.value is None:
        return "hit rate undefined"
    unit = "requests" if expectation.weight == "request" else "tokens"
    measured = f"hit rate {rate.value:.3f}"
    numbers = f"{rate.hit:,} of {rate.query:,} {unit} hit"
    wanted = wanted_text(expectation, target)
    if status == "pass":
        return f"{measured}, wanted {wanted}: {numbers}"
    missed = next(f for f in found if f.severity is Severity.MISSED)
    what = missed.sentence if missed.code == "KV203" else _distance(rate.value, expectation, target)
    return f"{measured}, wanted {wanted} ({what}): {numbers} [{missed.code}]"


def _distance(value: float, expectation: Expectation, target: float | None) -> str:
    aim = target if target is not None else expectation.min if value < (expectation.min or 0.0) else expectation.max
    if aim is None:
        return "out of bounds"
    return f"{abs(value - aim):.3f} {'below' if value < aim else 'above'}"


def wanted_text(expectation: Expectation, target: float | None) -> str:
    """Return what was asked for, as people read it: ``0.700 ± 0.020``, ``at least 0.850``."""
    parts = []
    if target is not None:
        given = "" if expectation.target is not None else " (predicted)"
        parts.append(f"{target:.3f} ± {expectation.tol:.3f}{given}")
    if expectation.min is not None:
        parts.append(f"at least {expectation.min:.3f}")
    if expectation.max is not None:
        parts.append(f"at most {expectation.max:.3f}")
    return " and ".join(parts) or "a predicted rate"
