"""Expectation x measurements -> the rate that is judged, with its two integers and what they leave open. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from operator import add
from typing import Literal

from .model import Exchange, Expectation, Finding, Measurement
from .reconcile import cached_tokens, doubtful, prompt_tokens


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
        """Hit / query; None for 0 of 0, which is no rate, and where more was left out than had been looked up."""
        return self.hit / self.query if self.query > 0 else None

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


def rate_of(expectation: Expectation, measurements: Sequence[Measurement]) -> Rate | Finding:
    """Return the rate of all windows together, or why there is none."""
    if not measurements:
        return Finding(
            "KV106", "the test measured nothing", "call kv.run, or leave the kv fixtures out to measure all of it"
        )
    problem = _unskippable(expectation, measurements)
    if problem is not None:
        return problem
    if expectation.weight == "request":
        return _request_rate(expectation, measurements)
    total: Rate | None = None
    for measurement in measurements:
        rate = _token_rate(expectation, measurement)
        if isinstance(rate, Finding):
            return rate
        total = rate if total is None else total + rate
    return total or Rate(0, 0, "counters")


# --- requests that are in neither sum --------------------------------------------------------------------------------


def _unskippable(expectation: Expectation, measurements: Sequence[Measurement]) -> Finding | None:
    if not expectation.skip_turns:
        return None
    asked = f"skip_turns={expectation.skip_turns}"
    if expectation.tier != "total":
        return Finding("KV115", f"{asked} needs tier='total': usage does not tell the tiers of the turns left out")
    if all(e.turn is None for m in measurements for e in m.exchanges):
        return Finding("KV115", f"{asked}: nothing here was sent as a conversation", "leave it out")
    return None


def in_sums(expectation: Expectation, m: Measurement) -> list[bool] | Finding:
    """Return which exchanges count: not those of skipped turns, nor those that nobody could have warmed."""
    later = [not _skipped(expectation, e) for e in m.exchanges]
    if expectation.requests == "all":
        return later
    prediction = m.prediction
    if prediction is None or len(prediction.per_request) != len(m.exchanges):
        return Finding("KV115", "requests='warm' needs a prediction, to know which requests had something to hit")
    most = map(add, prediction.per_request, prediction.room or repeat(0))
    return [kept and hit > 0 for kept, hit in zip(later, most, strict=True)]


def _skipped(expectation: Expectation, exchange: Exchange) -> bool:
    return exchange.turn is not None and exchange.turn < expectation.skip_turns


def _without(rate: Rate, left_out: Sequence[Exchange], m: Measurement) -> Rate | Finding:
    """Take answered requests out of the counters' sums, by their usage."""
    hit = cached_tokens(left_out) if left_out else 0
    if hit is None:
        what = "a rate over some of the requests needs cached_tokens of every other one"
        return Finding("KV111", what, _usage_advice(m))
    query = sum(prompt_tokens(e) * e.lookups for e in left_out)
    return replace(rate, hit=rate.hit - hit, query=rate.query - query)


# --- where the numbers come from -------------------------------------------------------------------------------------


def _token_rate(expectation: Expectation, m: Measurement) -> Rate | Finding:
    kept, counters = in_sums(expectation, m), m.counters
    if isinstance(kept, Finding):
        return kept
    if counters is not None and expectation.source != "usage":
        hit = counters.of(expectation.tier)
        if hit is None:
            return Finding(
                "KV101",
                f"{m.facts.engine} reports no tier {expectation.tier!r}; it reports {', '.join(counters.hits)}",
            )
        errors = counters.hit_error, counters.query_error
        rate = Rate(hit, counters.query, "counters", *errors, *doubtful(m, hit))
        return _without(rate, [e for e, keep in zip(m.exchanges, kept, strict=True) if e.ok and not keep], m)
    if expectation.source == "counters" or not m.own_traffic:
        return Finding("KV101", "the window has no counters to judge by", _lost_counters(m))
    if expectation.tier != "total":
        return Finding("KV101", f"usage does not tell tiers apart, so tier={expectation.tier!r} needs counters")
    if m.facts.variant is not None and expectation.source == "auto":
        return Finding("KV101", "the counters of this engine were not read", _lost_counters(m))
    return _usage_rate(m, kept)


def _usage_rate(m: Measurement, kept: Sequence[bool]) -> Rate | Finding:
    if not any(e.ok for e in m.exchanges):
        return Finding("KV106", "no request was answered, so usage says nothing")
    whole = [e for e, keep in zip(m.exchanges, kept, strict=True) if e.ok and keep]
    cached = cached_tokens(whole) if whole else 0
    if cached is None:
        told = sum(e.cached_tokens is not None for e in whole)
        return Finding("KV111", f"only {told} of {len(whole)} replies report cached_tokens", _usage_advice(m))
    prompts = [e.prompt_tokens for e in whole]
    if any(tokens is None for tokens in prompts):
        return Finding("KV111", "replies report cached_tokens but no prompt_tokens")
    return Rate(cached, sum(tokens for tokens in prompts if tokens is not None), "usage")


def _request_rate(expectation: Expectation, measurements: Sequence[Measurement]) -> Rate | Finding:
    whole = [e for m in measurements for e in m.exchanges if e.ok and not _skipped(expectation, e)]
    if any(e.cached_tokens is None for e in whole) or not whole:
        return Finding(
            "KV111", "a request-weighted rate needs cached_tokens in every reply", _usage_advice(measurements[0])
        )
    return Rate(sum(bool(e.cached_tokens) for e in whole), len(whole), "usage")


def _usage_advice(m: Measurement) -> str:
    if any(e.partial for e in m.exchanges):
        return "usage covers only some of several samples or prompts of a request; judge by source='counters'"
    flag = m.facts.usage_flag or "an option that reports usage.prompt_tokens_details.cached_tokens"
    zeros = any(e.cached_tokens is not None for e in m.exchanges) or not m.facts.usage_flag
    return f"the server needs {flag}" + ("; or, if it leaves zeros out, --kv-usage-absent=zero" if zeros else "")


def _lost_counters(m: Measurement) -> str:
    return m.findings[0].sentence if m.findings else ""


def warm_rate(expectation: Expectation, measurements: Sequence[Measurement]) -> float | None:
    """The rate over the requests that had something to hit; None when that is not known."""
    rate = rate_of(replace(expectation, requests="warm", weight="token"), measurements)
    return None if isinstance(rate, Finding) else rate.value
