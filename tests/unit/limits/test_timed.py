"""A level that was kept for a time: its stretch is the last one of its load."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from pytest_kvcache.ledger import Ledger
from pytest_kvcache.limits.timed import Timed
from pytest_kvcache.model import Exchange, Failure, Level


def request(sent: float, end: float, *, whole: bool = True) -> Exchange:
    failure = None if whole else Failure("timeout", "no complete answer within 300 s")
    return Exchange("load", sent, end, sent=sent, completion_tokens=1 if whole else None, failure=failure)


def test_what_a_server_never_answered_is_no_less_failed_for_ending_behind_the_level() -> None:
    ledger, moment = Ledger(), 100.0
    for number, exchange in enumerate([request(100.0, 101.0), request(101.0, 400.0, whole=False)]):
        ledger[number, 0] = exchange

    def now() -> float:
        nonlocal moment
        moment += 60.0
        return moment

    live: Any = SimpleNamespace(ledger=ledger, gate=SimpleNamespace(origin=100.0, close=lambda: None), now=now)
    kept = Timed(Level(concurrency=1), 60.0)
    asyncio.run(kept.steer(live))
    stretch = kept.told(live)["stretch"]
    assert (stretch.start, stretch.end, stretch.requests, stretch.failed) == (100.0, 160.0, 1, 1)
