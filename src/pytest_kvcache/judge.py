"""Expectation x measurements -> verdict. Pure arithmetic: what was measured, is it valid, is it what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .diagnose import findings
from .model import Exchange, Expectation, Finding, Measurement, Severity, Status, Verdict
from .reconcile import cached_tokens, doubtful, prompt_tokens

_EPSILON = 1e-9  # rates are ratios of integers; this only absorbs the rounding of `target ± tol` itself


@dataclass(frozen=True, slots=True)
class Rate:
    """A ratio with its two integers.

    Attributes:
        hit / query: tokens, or requests when weighted so.
        source: where they were read.
        hit_error / query_error: how far the true numbers may lie from these, either way.
        doubtful / doubtful_hit: part of ``query`` and of ``hit`` that may not belong to the answered requests.
    """

    hit: int
    query: int
    source: Literal["counters", "usage"]
    hit_error: int = 0
    query_error: int = 0
    doubtful: int = 0
    doubtful_hit: int = 0

    @property
    def value(self) -> float | None:
        """Hit / query; None for 0 of 0, which is no rate."""
        return self.hit / self.query if self.query else None

    @property
    def low(self) -> float:
        """The least that the true rate may be."""
        hit = self.hit - self.hit_error - self.doubtful_hit  # a doubtful hit goes with the query that it answered
        return max(0.0, hit / max(1, self.query + self.query_error - self.doubtful_hit))

    @property
    def high(self) -> float:
        """The most that the true rate may be."""
        return min(1.0, (self.hit + self.hit_error) / max(1, self.query - self.query_error - self.doubtful))

    @property
    def exact(self) -> bool:
        """True when nothing is left open."""
        return not (self.hit_error or self.query_error or self.doubtful)

    def __add__(self, other: Rate) -> Rate:
        return Rate(
            self.hit + other.hit,
            self.query + other.query,
            "counters" if self.source == other.source == "counters" else "usage",
            self.hit_error + other.hit_error,
            self.query_error + other.query_error,
            self.doubtful + other.doubtful,
            self.doubtful_hit + other.doubtful_hit,
        )


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
        above = _above(measured, ceiling, measurements)
        found += [above] if above is not None else []
        found += _compare(expectation, measured, target)
    failed = sum(not e.ok for m in measurements for e in m.exchanges)
    if failed <= expectation.max_failed:  # allowed: told, and no reason to fail
        found = [replace(f, code="KV313") if f.code == "KV203" else f for f in found]
    elif measured is not None:  # the failures decide, so what they leave open does not matter
        found = [f for f in found if f.code != "KV123"]
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
        low=measured.low if measured and not measured.exact else None,
        high=measured.high if measured and not measured.exact else None,
        warm=_warm_value(expectation, measurements),
        findings=ordered,
    )


def _warm_value(expectation: Expectation, measurements: Sequence[Measurement]) -> float | None:
    rate = _rate(replace(expectation, requests="warm", weight="token"), measurements)
    return None if isinstance(rate, Finding) else rate.value


# --- the rate --------------------------------------------------------------------------------------------------------


def _rate(expectation: Expectation, measurements: Sequence[Measurement]) -> Rate | Finding:
    if not measurements:
        return Finding(
            "KV106", "the test measured nothing", "call kv.run, or leave the kv fixtures out to measure all of it"
        )
    if expectation.weight == "request":
        return _request_rate(measurements)
    total: Rate | None = None
    for measurement in measurements:
        rate = _token_rate(expectation, measurement)
        if not isinstance(rate, Finding) and expectation.requests == "warm":
            rate = _without_cold(rate, measurement)
        if isinstance(rate, Finding):
            return rate
        total = rate if total is None else total + rate
    return total or Rate(0, 0, "counters")


def _without_cold(rate: Rate, m: Measurement) -> Rate | Finding:
    """Leave the requests out that nobody could have warmed, in both sums."""
    prediction = m.prediction
    if prediction is None or len(prediction.per_request) != len(m.exchanges):
        return Finding("KV115", "requests='warm' needs a prediction, to know which requests had something to hit")
    cold: list[Exchange] = [e for e, hit in zip(m.exchanges, prediction.per_request, strict=True) if e.ok and not hit]
    hit = cached_tokens(cold) if cold else 0
    if hit is None:
        return Finding("KV111", "requests='warm' needs every cold request's cached_tokens", _usage_advice(m))
    return replace(rate, hit=rate.hit - hit, query=rate.query - sum(map(prompt_tokens, cold)))


def _token_rate(expectation: Expectation, m: Measurement) -> Rate | Finding:
    counters = m.counters
    if counters is not None and expectation.source != "usage":
        hit = counters.of(expectation.tier)
        if hit is None:
            return Finding(
                "KV101",
                f"{m.facts.engine} reports no tier {expectation.tier!r}; it reports {', '.join(counters.hits)}",
            )
        return Rate(hit, counters.query, "counters", counters.hit_error, counters.query_error, *doubtful(m, hit))
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
        told = sum(e.cached_tokens is not None for e in whole)
        return Finding("KV111", f"only {told} of {len(whole)} replies report cached_tokens", _usage_advice(m))
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
    if any(e.partial for e in m.exchanges):
        return "usage covers only some of several samples or prompts of a request; judge by source='counters'"
    flag = m.facts.usage_flag or "an option that reports usage.prompt_tokens_details.cached_tokens"
    some = any(e.cached_tokens is not None for e in m.exchanges)
    return f"the server needs {flag}" + ("; or, if it leaves zeros out, --kv-usage-absent=zero" if some else "")


def _lost_counters(m: Measurement) -> str:
    return m.findings[0].sentence if m.findings else ""


def _predicted(expectation: Expectation, measurements: Sequence[Measurement]) -> float | None:
    """The rate that caches of the servers' block sizes reach; None when any window has no exact prediction."""
    if any(m.prediction is None or not m.prediction.exact for m in measurements):
        return None
    return _ceiling(expectation, measurements)


def _ceiling(expectation: Expectation, measurements: Sequence[Measurement]) -> float | None:
    if expectation.requests == "warm":
        return _warm_ceiling(expectation, measurements)
    predictions = [m.prediction for m in measurements if m.prediction is not None]
    if len(predictions) != len(measurements) or expectation.tier != "total":
        return None
    if expectation.weight == "request":
        hits = [hit for p in predictions for hit in p.per_request]
        return sum(bool(hit) for hit in hits) / len(hits) if hits else None
    query = sum(p.query_tokens for p in predictions)
    return sum(p.hit_tokens for p in predictions) / query if query else None


def _warm_ceiling(expectation: Expectation, measurements: Sequence[Measurement]) -> float | None:
    if expectation.tier != "total" or expectation.weight == "request":
        return None
    hits = queries = 0
    for m in measurements:
        if m.prediction is None or len(m.prediction.per_request) != len(m.exchanges):
            return None
        for exchange, hit in zip(m.exchanges, m.prediction.per_request, strict=True):
            hits += hit
            queries += prompt_tokens(exchange) if hit else 0
    return hits / queries if queries else None


# --- the comparison --------------------------------------------------------------------------------------------------


def _above(rate: Rate, ceiling: float | None, measurements: Sequence[Measurement]) -> Finding | None:
    highest = 1.0 if ceiling is None else ceiling  # without a ceiling: no more can hit than was looked up
    if rate.low <= highest + _EPSILON:
        return None
    preempted = sum(m.pressure.preemptions or 0 for m in measurements if m.pressure is not None)
    causes = [f"{preempted:,} preemptions: a request that is computed again finds its own blocks"] if preempted else []
    causes += ["the prompts were cached before the run (same seed?)"] if ceiling is not None else []
    return Finding(
        "KV108",
        f"the measured rate {rate.value or 0.0:.4f} is above {highest:.4f}, the most that any cache can reach here",
        ", or ".join([*causes, "the instrument is wrong"]),
    )


def _compare(expectation: Expectation, rate: Rate, target: float | None) -> list[Finding]:
    value = rate.value or 0.0
    found: list[Finding] = []
    low = max(
        (x for x in (None if target is None else target - expectation.tol, expectation.min) if x is not None),
        default=None,
    )
    high = min(
        (x for x in (None if target is None else target + expectation.tol, expectation.max) if x is not None),
        default=None,
    )
    if low is not None and rate.high < low - _EPSILON:
        found.append(Finding("KV201", f"hit rate {value:.3f} is {low - value:.3f} below {low:.3f}"))
    elif high is not None and rate.low > high + _EPSILON:
        found.append(Finding("KV202", f"hit rate {value:.3f} is {value - high:.3f} above {high:.3f}"))
    elif (low is not None and rate.low < low - _EPSILON) or (high is not None and rate.high > high + _EPSILON):
        found.append(
            Finding(
                "KV123",
                f"the true rate lies between {rate.low:.4f} and {rate.high:.4f}, and what was asked for is inside that",
                "few printed digits or failed requests leave this open: send more tokens, or use source='usage'",
            )
        )
    return found


def _gravity(finding: Finding) -> tuple[int, int]:
    # A cause before its consequence: no counters to judge by is only what the earlier finding led to.
    rank = [Severity.INVALID, Severity.MISSED, Severity.DOUBT].index(finding.severity)
    consequence = finding.code in ("KV101", "KV106", "KV114", "KV115")
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
