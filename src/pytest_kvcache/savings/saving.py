"""What did the reuse of one measured window save, and what did its requests cost? Pure.

Seconds are those of prefill, as the engines book them on requests. Of a token that was not computed nobody knows what
it would have taken, so it is taken to be as much as one that was: prefill is taken to be linear. It is not quite.
Attention looks back at everything before a token, and what is cached stands at the head of a prompt, where there is
less to look back at than behind it, where the computed tokens stand; and what every request takes whatever its length
is spread over the computed tokens alone. So the estimate is rather too high than too low. Only where long prompts hit
and short ones were computed is it too low.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from typing import NamedTuple

from ..model import Exchange, Expectation, Finding, Measurement, Verdict
from ..rate import rate_of
from .prices import Billed, Prices, Rates, total

BY_HISTOGRAM = "the server's prefill seconds per computed prompt token, for each hit token"
_NO_CACHED = "the replies do not tell their cached tokens"
_NO_PRICE = "no price of cached input"


@dataclass(frozen=True, slots=True)
class Saving:
    """What the reuse of a window saved; None: not told.

    Attributes:
        prefill_tokens: prompt tokens that were not computed because they were hit.
        prefill_s: seconds of prefill work that these would have taken; requests prefilled together each count theirs,
            so it is no waiting time.
        prefill_s_from: how that is known, or why not.
        money: saved by reading less what writing to the cache cost more; may be below 0.
        cost: of all that was sent and answered, the requests that warm the cache included.
        currency: of both; None without prices.
        price_from: who told the prices, and why there is no amount.
    """

    prefill_tokens: int | None = None
    prefill_s: float | None = None
    prefill_s_from: str = ""
    money: Decimal | None = None
    cost: Decimal | None = None
    currency: str | None = None
    price_from: str = ""


def saving(measurement: Measurement, verdict: Verdict) -> Saving:
    """Return what a window saved.

    Args:
        measurement: the window.
        verdict: on it; what is inconclusive has saved nothing that can be told.
    """
    reused = _reused(measurement, verdict)
    prices = measurement.facts.prices
    seconds, how = (None, "") if reused is None else _seconds(measurement, reused)
    told = Saving(None if reused is None else reused.hit, seconds, how)
    if prices is None:
        return told
    if prices.problem:
        return replace(told, price_from=f"{prices.origin}; {prices.problem}")
    money, no_money = (None, "") if reused is None else _money(prices, measurement, reused)
    cost, no_cost = _cost(prices, measurement)
    why = no_money or no_cost
    origin = f"{prices.origin}; {why}" if why else prices.origin
    return replace(told, money=money, cost=cost, currency=prices.currency, price_from=origin)


class _Reused(NamedTuple):
    """Tokens of all requests and tiers, whichever of them the verdict is on."""

    hit: int
    query: int


def _reused(measurement: Measurement, verdict: Verdict) -> _Reused | None:
    if verdict.status == "inconclusive" or verdict.hit_tokens is None:
        return None
    counters = measurement.counters
    if verdict.source == "counters" and counters is not None:
        return _Reused(counters.hit, counters.query)
    rate = rate_of(Expectation(source="usage"), [measurement])
    return None if isinstance(rate, Finding) else _Reused(rate.hit, rate.query)


# --- seconds ---------------------------------------------------------------------------------------------------------


def _seconds(measurement: Measurement, reused: _Reused) -> tuple[float | None, str]:
    prefill = measurement.server_latency.get("prefill")
    if prefill is None or not prefill.count or not prefill.sum > 0:
        return None, "the server does not tell how long it prefills"
    computed = reused.query - reused.hit
    if computed <= 0:
        return None, "no prompt token was computed"
    if measurement.own_traffic and prefill.count != len(measurement.exchanges):
        low, high = _observed(measurement.exchanges)
        if not low <= prefill.count <= high:
            return None, f"the server tells {prefill.count:,} prefills where {low:,} requests were answered"
    return prefill.sum / computed * reused.hit, BY_HISTOGRAM


def _observed(exchanges: Iterable[Exchange]) -> tuple[int, int]:
    """Return how many prefills the engines must have seen, and may have."""
    low = high = 0
    for exchange in exchanges:
        low += exchange.ok
        high += max(1, exchange.lookups) + len(exchange.earlier)
    return low, high


# --- money -----------------------------------------------------------------------------------------------------------


def _cost(prices: Prices, measurement: Measurement) -> tuple[Decimal | None, str]:
    sent = _by_rates(prices, chain(measurement.prefill, measurement.exchanges), _billed)
    if sent is None:
        return None, "the replies do not tell all of their tokens"
    return _sum((rates.cost(tokens) for rates, tokens in sent.items()), "a price is missing")


def _money(prices: Prices, measurement: Measurement, reused: _Reused) -> tuple[Decimal | None, str]:
    """Return what reading saved less what writing cost more: that of the requests that warm the cache, too."""
    hits = {prices.rates: Billed(cached=reused.hit)}
    if prices.tiers:
        by_prompt = _by_rates(prices, measurement.exchanges, _hits)
        if by_prompt is None:
            return None, "its prices depend on the prompt, and the replies do not tell what each of them hit"
        hits = by_prompt
    writes = _by_rates(prices, chain(measurement.prefill, measurement.exchanges), _writes) or {}
    both = chain(hits.items(), writes.items())
    return _sum((rates.saved(tokens) for rates, tokens in both), "a price is missing")


def _sum(amounts: Iterable[Decimal | None], why: str) -> tuple[Decimal | None, str]:
    every = list(amounts)
    told = [amount for amount in every if amount is not None]
    return (total(told), "") if len(told) == len(every) else (None, why)


def _billed(e: Exchange) -> Billed | None:
    if e.prompt_tokens is None or e.cached_tokens is None or e.completion_tokens is None:
        return None
    return Billed(e.prompt_tokens, e.cached_tokens, e.written_tokens or 0, e.completion_tokens)


def _hits(e: Exchange) -> Billed | None:
    return None if e.cached_tokens is None else Billed(cached=e.cached_tokens)


def _writes(e: Exchange) -> Billed:
    return Billed(written=e.written_tokens or 0)


def _by_rates(
    prices: Prices, exchanges: Iterable[Exchange], taken: Callable[[Exchange], Billed | None]
) -> dict[Rates, Billed] | None:
    """Return tokens of all answers by what they cost; None when one does not tell its own. Failures are not billed."""
    sums: defaultdict[Rates, Billed] = defaultdict(Billed)
    for exchange in exchanges:
        if not exchange.ok:
            continue
        tokens = taken(exchange)
        if tokens is None or (prices.tiers and exchange.prompt_tokens is None):
            return None
        sums[prices.at(exchange.prompt_tokens or 0)] += tokens
    return dict(sums)
