"""Whether a level broke because the client itself was late, or too busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_kvcache.limits.asked import Asked, of_concurrency, of_rate
from pytest_kvcache.limits.blame import clients_own
from pytest_kvcache.limits.searching import Searching
from pytest_kvcache.model import ClientLoad, Exchange, Finding, Level, Limit, Measurement, Period
from pytest_kvcache.stretch import stretch_of

from ..slo import made

SENTENCE = "concurrency 2 held over 2 periods; concurrency 4 did not hold"
HELD, BROKE = Level(2), Level(4)


def requests(ttft: float, start: float, count: int = 40, *, every: float = 0.25, failed: int = 0) -> list[Exchange]:
    """Requests that end within ten seconds from ``start``."""
    answers = [made.answer(ttft, sent=start + every * number, tokens=2, scheduled=None) for number in range(count)]
    return answers[failed:] + [made.failed(sent=start + every * n, end=start + every * n + 0.1) for n in range(failed)]


def searched(
    held: Sequence[Exchange], broke: Sequence[Exchange], client: ClientLoad, asked: Asked, *, rate: float | None = None
) -> Measurement:
    """A search: a period of ten seconds at one level, then one at the next."""
    run = made.run([*held, *broke], client=client)
    levels = (HELD, BROKE) if rate is None else (Level(rate=rate / 2), Level(rate=rate))
    periods = [
        Period(stretch_of(run.exchanges, run.produced, level, start, start + 10.0, each=asked.each), verdict)
        for level, start, verdict in zip(levels, (0.0, 20.0), ("held", "breached"), strict=True)
    ]
    limit = Limit(
        levels[0], levels[1], tuple(periods), True, periods[0].stretch, SENTENCE, asked.objectives, asked.each
    )
    return made.run([*held, *broke], client=client, limit=limit, stretch=periods[0].stretch)


@pytest.mark.parametrize(("late", "own"), [(0.11, True), (0.09, False), (0.0, False)])
def test_a_breach_that_the_clients_lag_explains_is_its_own(late: float, own: bool) -> None:
    asked = of_concurrency(max_ttft=0.5)
    at = searched(requests(0.1, 0.0), requests(0.6, 20.0, 36), made.client([late] * 100, processes=2), asked)
    found = clients_own(at)
    assert (found is not None) == own
    if found is not None:
        assert found.code == "KV127"
        assert (
            found.sentence
            == f"the load generator was the bottleneck (its own event loop was 110.0 ms late): {SENTENCE}"
        )
        assert found.advice == "spread the load over more processes (--kv-processes=4)"


def test_nothing_of_a_level_that_held_is_looked_at() -> None:
    asked = of_concurrency(max_ttft=0.5)
    slow = searched(requests(0.6, 0.0, 36), requests(0.9, 20.0, 36), made.client([0.2] * 100), asked)
    assert clients_own(slow) is None  # 0.9 - 0.2 is above 0.5; 0.6 - 0.2 would not be


def test_one_cause_that_is_not_the_clients_is_enough() -> None:
    asked = of_concurrency(max_ttft=0.5, min_tokens_per_req=100.0)
    broke = requests(0.6, 20.0, 36)  # 2 tokens in 0.61 s: 3.3 tok/s, and 3.9 without the lag
    assert clients_own(searched(requests(0.1, 0.0), broke, made.client([0.11] * 100), asked)) is None


def test_a_lag_counts_twice_for_those_that_are_scheduled() -> None:
    asked = of_rate(max_ttft=0.5, attainment=0.9)
    broke = [made.answer(0.6, sent=e.queued, tokens=2, scheduled=e.queued) for e in requests(0.6, 20.0, 36)]
    for late, own in ((0.06, True), (0.04, False)):
        at = searched(requests(0.1, 0.0), broke, made.client([late] * 100), asked, rate=4.0)
        assert (clients_own(at) is not None) == own


@pytest.mark.parametrize(("busy", "count", "own"), [(0.97, 40, True), (0.9, 40, False), (0.97, 100, False)])
def test_a_queue_that_grows_may_be_that_of_a_busy_client(busy: float, count: int, own: bool) -> None:
    asked = of_rate(max_ttft=0.5, attainment=0.9)
    broke = requests(0.1, 20.0, count, every=9.5 / count)
    at = searched(requests(0.1, 0.0), broke, made.client([0.0], busy=busy), asked, rate=10.0)
    found = clients_own(at)
    assert (found is not None) == own
    assert found is None or "(its busiest process computed 97 % of the time)" in found.sentence


def test_failures_are_the_servers_and_without_a_breach_there_is_nothing_to_blame() -> None:
    asked = of_concurrency(max_ttft=0.5)
    late = made.client([0.5] * 100, busy=1.0)
    assert clients_own(searched(requests(0.1, 0.0), requests(0.1, 20.0, failed=9), late, asked)) is None
    assert clients_own(made.run(requests(0.1, 0.0), client=late)) is None


def test_periods_in_which_the_level_had_just_changed_are_not_looked_at() -> None:
    asked = of_concurrency(max_ttft=0.5)
    at = searched(requests(0.1, 0.0), requests(0.6, 20.0, 36), made.client([0.11] * 100), asked)
    assert at.limit is not None
    ramp = stretch_of(requests(9.0, 40.0, 4), at.produced, BROKE, 40.0, 60.0)
    limit = replace(at.limit, periods=(*at.limit.periods, Period(ramp, "transition")))
    assert clients_own(replace(at, limit=limit)) is not None


def test_a_search_tells_it_beside_what_was_found_before() -> None:
    asked = of_concurrency(max_ttft=0.5)
    at = searched(requests(0.1, 0.0), requests(0.6, 20.0, 36), made.client([0.11] * 100), asked)
    controller: Any = SimpleNamespace(finish=lambda _over: at.limit)
    live: Any = SimpleNamespace(ledger=SimpleNamespace(exchanges=at.exchanges, produced=at.produced))
    before = replace(at, limit=None, stretch=None, findings=(Finding("KV130", "a process died"),))
    found = Searching(controller, 10.0, 60.0, asked.each, _over=True).completed(live, before)
    assert [finding.code for finding in found.findings] == ["KV130", "KV127"]
    assert found.limit is not None
    assert (found.limit.level, found.limit.breached) == (HELD, BROKE)
    assert found.stretch is not None
    assert (found.stretch.level, found.stretch.requests) == (HELD, 40)
