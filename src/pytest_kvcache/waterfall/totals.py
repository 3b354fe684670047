"""Only totals are known: which hypothesis about each request gives exactly what the engines counted?

Replies without ``cached_tokens`` leave one number for each engine. Where a replay gives all of them exactly, the
requests' own numbers are taken from it; else only what is certain without them (first use, rounding, the template) is
told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model import Grain, Measurement
from ..spread import spread_over_engines
from .account import Account
from .duplicates import in_flight
from .evidence import Evidence
from .placement import Fleet, off_by
from .routers import Turns
from .visits import Visit


def assume(
    measured: Measurement, visits: Sequence[Visit], accounts: Sequence[Account | None], evidence: Evidence
) -> int:
    """Set what each request hit, if a hypothesis gives the counters; return what was lost by spreading otherwise."""
    mine = [account for account in accounts if account is not None]
    total = evidence.counted or 0
    if not evidence.failed:  # what they hit is in the counters too
        for how, hits in _hypotheses(measured.facts.grain, visits, accounts, evidence):
            if sum(hits) == total:
                evidence.assumed = how
                for account, tokens in zip(mine, hits, strict=True):
                    account.measure(tokens)
                return 0
    evidence.untold = True
    lost = sum(account.predicted for account in mine) - total
    return max(0, lost) if any(spread_over_engines(measured)) else 0


def _hypotheses(
    grain: Grain, visits: Sequence[Visit], accounts: Sequence[Account | None], evidence: Evidence
) -> Iterator[tuple[str, list[int]]]:
    mine = [account for account in accounts if account is not None]
    yield "every request as predicted", [account.predicted for account in mine]
    rows = list(evidence.rows.values())
    fleet = Fleet(max(1, len(rows)), grain, evidence.capacity_blocks)
    places = fleet.replay(visits, [None] * len(visits), Turns(fleet.engines))
    if len(rows) < 2 or not off_by(visits, places, accounts, rows, evidence.slack)[0]:
        hits = [place.bounded for place, account in zip(places, accounts, strict=True) if account is not None]
        yield "a replay in order of sending" + (", each engine in turn" if len(rows) > 1 else ""), hits
    if len(rows) < 2:
        flying = in_flight(visits, accounts, grain)
        pairs = zip(accounts, flying, strict=True)
        yield "nothing in flight was found", [a.predicted - tokens for a, tokens in pairs if a is not None]
