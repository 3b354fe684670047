"""Expectation x measurements -> the rate that was to be expected: predicted, at most, or simulated. Pure.

*Predicted* is what caches of the servers' block sizes reuse that keep everything; *simulated* is what they reuse when
they hold no more than the servers' do. Both are summed over the same requests as the measured rate.
"""

from __future__ import annotations

from collections.abc import Sequence

from .model import Expectation, Finding, Measurement, Prediction
from .rate import in_sums
from .reconcile import prompt_tokens


def predicted_rate(expectation: Expectation, measurements: Sequence[Measurement]) -> float | None:
    """The rate that caches of the servers' block sizes reach; None when any window has no exact prediction."""
    if any(m.prediction is None or not m.prediction.exact for m in measurements):
        return None
    return ceiling_rate(expectation, measurements)


def ceiling_rate(expectation: Expectation, measurements: Sequence[Measurement]) -> float | None:
    """The rate that no cache can exceed on these workloads, but for :func:`predicted_slack`; None: not known."""
    if expectation.tier != "total":
        return None
    return _expected_rate(expectation, measurements, [m.prediction for m in measurements])


def simulated_rate(expectation: Expectation, measurements: Sequence[Measurement]) -> float | None:
    """The rate that caches as large as the servers' reach, but for :func:`predicted_slack`; None: not known.

    It is that of the device cache: where other tiers were hit, their size would have to be known too.
    """
    if expectation.tier not in ("total", "local"):
        return None
    if expectation.tier == "total" and _behind(measurements):
        return None
    return _expected_rate(expectation, measurements, [m.simulated for m in measurements])


def not_simulated(expectation: Expectation, measurements: Sequence[Measurement]) -> Finding:
    """Return why there is no simulated rate to judge by."""
    behind, asked = _behind(measurements), "target='simulated' needs"
    short = next((m for m in measurements if m.simulated is None), None)
    if short is None and behind:
        what = f"{asked} the size of every tier: {behind:,} tokens were hit behind the device cache"
        return Finding("KV115", what, "judge the device cache alone with tier='local'")
    if short is None and expectation.weight == "request":
        what = f"{asked} answers whose tokens are known with weight='request', to know which requests have a hit"
        return Finding("KV115", what, "judge by tokens")
    if short is None:
        return Finding("KV115", f"{asked} requests, and none was sent that counts")
    if short.facts.capacity is None:
        what = f"{asked} the size of the cache, and {short.facts.engine} does not tell how many tokens it holds"
        return Finding("KV115", what, "give the rate as a number, such as that of a trace's simulation")
    if not short.facts.grain_known:
        what = f"{asked} the cache's block size, and {short.facts.engine} does not tell it"
        return Finding("KV115", what, "kv.probe.granularity() finds it out, and later runs use it")
    what = f"{asked} the tokens of every prompt, looked up once each, and they are not known or too many here"
    return Finding("KV115", what, "send composed prompts (kv.run, kv.replay), or give the rate as a number")


def _behind(measurements: Sequence[Measurement]) -> int:
    """Return the hit tokens of the tiers behind the device cache."""
    return sum(tokens.external_hit or 0 for m in measurements for tokens in m.engines.values())


def _expected_rate(
    expectation: Expectation, measurements: Sequence[Measurement], expected: Sequence[Prediction | None]
) -> float | None:
    """Return the rate of what was expected of each window, over the requests that count; None: not known."""
    known = [prediction for prediction in expected if prediction is not None]
    if len(known) != len(measurements):
        return None
    by_request = expectation.weight == "request"
    if by_request and (expectation.requests == "warm" or any(p.slack for p in known)):
        return None  # which of the requests had a hit is not known
    if expectation.requests == "all" and not expectation.skip_turns and not by_request:
        query = sum(p.query_tokens for p in known)
        return sum(p.hit_tokens for p in known) / query if query else None
    hits = queries = 0
    for hit, _, length in _requests_that_count(expectation, measurements, known) or ():
        hits += bool(hit) if by_request else hit
        queries += 1 if by_request else length
    return hits / queries if queries else None


def predicted_slack(expectation: Expectation, measurements: Sequence[Measurement]) -> float:
    """How far above the predicted rate the true one may lie, because what was generated is not known token by token."""
    return _slack(expectation, measurements, [m.prediction for m in measurements])


def simulated_slack(expectation: Expectation, measurements: Sequence[Measurement]) -> float:
    """The same of the simulated rate."""
    return _slack(expectation, measurements, [m.simulated for m in measurements])


def _slack(
    expectation: Expectation, measurements: Sequence[Measurement], expected: Sequence[Prediction | None]
) -> float:
    known = [prediction for prediction in expected if prediction is not None]
    slack = sum(p.slack for p in known)
    if not slack:
        return 0.0
    counted = _requests_that_count(expectation, measurements, known) if len(known) == len(measurements) else None
    query = sum(p.query_tokens for p in known) if counted is None else sum(length for _, _, length in counted)
    if counted is not None and all(p.room or not p.slack for p in known):
        slack = sum(more for _, more, _ in counted)
    return slack / query if query else 0.0


def _requests_that_count(
    expectation: Expectation, measurements: Sequence[Measurement], expected: Sequence[Prediction]
) -> list[tuple[int, int, int]] | None:
    """Return expected hits, what may come on top and prompt of each request that counts; None when not known."""
    found: list[tuple[int, int, int]] = []
    for m, prediction in zip(measurements, expected, strict=True):
        kept = in_sums(expectation, m)
        if isinstance(kept, Finding) or len(prediction.per_request) != len(m.exchanges):
            return None
        room = prediction.room or [0] * len(m.exchanges)
        for exchange, keep, hit, more in zip(m.exchanges, kept, prediction.per_request, room, strict=True):
            if keep:
                found.append((hit, more, prompt_tokens(exchange)))
    return found
