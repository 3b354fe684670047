"""A level that was kept for a time: its stretch is the last one of its load."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_kvcache.ledger import Ledger
from pytest_kvcache.limits.timed import Timed
from pytest_kvcache.model import Exchange, Failure, Finding, Level

from ..slo import made


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
    kept = Timed(Level(concurrency=1), 60.0, lap=2)
    asyncio.run(kept.steer(live))
    stretch = kept.completed(live, made.run([])).stretch
    assert stretch is not None
    assert (stretch.start, stretch.end, stretch.requests, stretch.failed) == (100.0, 160.0, 1, 1)
    assert stretch.lap == 2


@pytest.mark.parametrize(
    ("level", "begun", "late"),
    [
        (Level(rate=10.0), 600, False),
        (Level(rate=10.0), 497, False),  # of 600: 30 and 73.5 may be missing
        (Level(rate=10.0), 496, True),
        (Level(rate=0.1), 0, False),
        (Level(concurrency=9), 1, False),
    ],
)
def test_an_open_loop_that_began_fewer_than_were_due_was_no_such_load(level: Level, begun: int, late: bool) -> None:
    ledger = Ledger()
    for number in range(begun):
        scheduled = None if level.rate is None else 100.0 + number / 10
        ledger[number, 0] = replace(request(100.0, 101.0), scheduled=scheduled)
        ledger[number, 1] = request(101.0, 102.0)  # a later turn is due by no clock
    live: Any = SimpleNamespace(ledger=ledger, gate=SimpleNamespace(origin=100.0))
    kept = Timed(level, 60.0, _over=True)
    before = made.run([], findings=(Finding("KV130", "a process died"),))
    first, *told = [(f.code, f.sentence) for f in kept.completed(live, before).findings]
    assert first == ("KV130", "a process died")
    assert [code for code, _ in told] == ["KV127"] * late
    assert all("began 496 of about 600 sessions that were due at 10 req/s" in sentence for _, sentence in told)
