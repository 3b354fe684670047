"""The steps in their order: accounts are opened, then each cause takes what it can show of what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..model import Exchange, Lookup, Measurement, Waterfall
from .account import Account
from .admission import placed_as_admitted, placed_one_by_one
from .duplicates import in_flight, take_duplicates
from .eviction import all_losses, bounded_losses, fitting_capacities, take_eviction, take_routing
from .evidence import Evidence
from .order import admitted
from .placement import Fleet, Place, placed
from .restart import Forgotten, forgotten, take_reset
from .totals import assume
from .visits import Visit, trace
from .wording import losses

Accounts = Sequence[Account | None]


def explain(
    measured: Measurement, load: Sequence[Lookup], *, prefill: Sequence[Lookup] = (), warmed: Sequence[Lookup] = ()
) -> Waterfall | None:
    """Return where reuse was lost; None when nothing can be said.

    Args:
        measured: the window, with its exchanges, counters and findings.
        load: what each of its exchanges looked up, in their order.
        prefill: what its prefill looked up, in the order of those exchanges.
        warmed: what an earlier run had cached.
    """
    if len(load) != len(measured.exchanges):
        return None
    if measured.facts.caching is False:
        return None  # nothing could be reused: that is the whole reason, and the finding KV107 says it
    if any(e.ok and (e.lookups > 1 or not lookup.ids) for lookup, e in zip(load, measured.exchanges, strict=True)):
        return None  # several samples of one prompt, or a prompt that nobody told
    hits = _hits(measured)
    counters = measured.counters
    if hits is None and counters is None:
        return None
    grain = measured.facts.grain
    visits, accounts = admitted(trace(measured, load, prefill, warmed), grain, hits or {})
    mine = [account for account in accounts if account is not None]
    if not mine:
        return None
    evidence = Evidence.of(measured, len(mine))
    spread = 0
    if hits is None:
        spread = assume(measured, visits, accounts, evidence)
    if any(account.left for account in mine):
        _explain(measured, visits, accounts, evidence)
    total = counters.hit if hits is None and counters is not None else sum((hits or {}).values())
    ceiling = sum(account.ceiling for account in mine)
    return Waterfall(ceiling, tuple(losses(mine, ceiling - total, spread, evidence)), total)


def _hits(measured: Measurement) -> Mapping[int, int] | None:
    """Return the hit tokens of each measured request by its place; None when any does not tell."""
    if measured.disaggregated:  # what a decode engine says of its cache is not about prefill
        return None
    told = {at: e.cached_tokens for at, e in enumerate(measured.exchanges) if _counts(e)}
    known = {at: tokens for at, tokens in told.items() if tokens is not None}
    return known if len(known) == len(told) else None


def _counts(exchange: Exchange) -> bool:
    return exchange.ok and exchange.lookups == 1


def _explain(measured: Measurement, visits: Sequence[Visit], accounts: Accounts, evidence: Evidence) -> None:
    grain = measured.facts.grain
    for account in accounts:
        if account is not None and account.visit.otherwise:
            account.take("tokenizer", account.left)
    if not measured.facts.grain_known:  # then any of it may be what does not fill a block
        evidence.ungrained = True
        return
    fleet = Fleet(max(1, len(evidence.rows)), grain, evidence.capacity_blocks)
    rows = list(evidence.rows.values())
    several = fleet.engines > 1
    found = placed(fleet, visits, accounts, rows, evidence.slack) if several else None
    if found is None or found.misfit:
        taken = take_duplicates(accounts, in_flight(visits, accounts, grain))
        if taken or not several:
            found = placed(fleet, visits, accounts, rows, evidence.slack)
    for place in (placed_as_admitted, placed_one_by_one):
        if found is None or found.misfit:
            other = place(fleet, visits, accounts, rows, evidence.slack)
            if other is not None and (found is None or other.misfit < found.misfit):
                found, evidence.waited = other, place is placed_as_admitted
    if found is None:
        evidence.unplaced = True
        return
    places, evidence.off = found.places, found.off
    if fleet.engines > 1:
        take_routing(accounts, places)
    if fleet.capacity is not None:
        evidence.needed = take_eviction(bounded_losses(accounts, places))
    lost = forgotten(visits, accounts, places, grain, fell=evidence.fell)
    _by_capacity_or_reset(accounts, places, lost, evidence)


def _by_capacity_or_reset(
    accounts: Accounts, places: Sequence[Place], found: Forgotten | None, evidence: Evidence
) -> None:
    """Attribute what is left: to a reset, or to a cache whose capacity is not known, never to one of both by chance."""
    if evidence.capacity_blocks is None and not evidence.fell:
        evidence.between = fitting_capacities(accounts, places)
        if evidence.between and found and not evidence.evictions:
            evidence.ambiguous = True
            return
        if evidence.between or evidence.evictions:
            evidence.needed = take_eviction(all_losses(accounts, places))
            return
    if found is not None:
        take_reset(found)
        evidence.forgotten = found
