"""A gate whose pace is changed while sessions wait at it. Time is virtual, so every moment is exact."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.gate import Closed, Gate
from pytest_kvcache.ledger import Ledger
from pytest_kvcache.live import Flying, Live
from pytest_kvcache.load import drive
from pytest_kvcache.model import Exchange, Prompt, Request, Session
from pytest_kvcache.model.sent import alone
from pytest_kvcache.pace import Pace

from .virtual import Now, play

Steps = list[tuple[float, Callable[[Gate], None]]]


def endless() -> Iterator[Session]:
    number = 0
    while True:
        yield from alone(iter([Request(Prompt(()), number, "load")]))
        number += 1


class Load:
    """A load in virtual time whose gate is changed at given seconds; every request takes ``seconds``."""

    def __init__(self, pace: Pace, steps: Steps, seconds: float = 1.0, until: float = 20.0) -> None:
        self.pace, self.steps, self.seconds, self.until = pace, steps, seconds, until
        self.sent: list[float] = []
        self.ended: list[float] = []
        self.scheduled: list[float | None] = []
        self.most_at: list[tuple[float, int]] = []
        self.flying = 0

    async def go(self, now: Now, around: Callable[[Live], Awaitable[None]] | None = None) -> None:
        gate, start = Gate(self.pace, now), now()
        live = Live(gate, now=now)

        async def send(request: Request) -> Exchange:
            self.sent.append(now() - start)
            self.flying += 1
            self.most_at.append((now() - start, self.flying))
            await asyncio.sleep(self.seconds)
            self.flying -= 1
            self.ended.append(now() - start)
            return Exchange(
                "load", now() - self.seconds, now(), sent=now() - self.seconds, prompt_len=request.max_tokens
            )

        async def turn() -> None:
            for at, what in [*self.steps, (self.until, Gate.close)]:
                await asyncio.sleep(start + at - now())
                what(gate)

        watched = live.flying.watched(send, now)
        tasks = [drive(endless(), watched, self.pace, into=live.ledger, now=now, gate=gate), turn()]
        await asyncio.gather(*tasks, *([around(live)] if around else []))
        self.scheduled = [None if e.scheduled is None else e.scheduled - start for e in live.ledger.exchanges]

    def play(self, around: Callable[[Live], Awaitable[None]] | None = None) -> Load:
        play(lambda now: self.go(now, around))
        return self


def allow(count: int) -> Callable[[Gate], None]:
    return lambda gate: gate.allow(count)


def test_more_places_are_taken_at_once_and_fewer_as_they_are_given_back() -> None:
    load = Load(Pace(2), [(3.5, allow(4)), (6.2, allow(1))], until=9.0).play()
    assert load.sent == [0, 0, 1, 1, 2, 2, 3, 3, 3.5, 3.5, 4, 4, 4.5, 4.5, 5, 5, 5.5, 5.5, 6, 6, 7.0, 8.0]
    assert len(load.ended) == len(load.sent)  # who is in flight when it closes is waited for
    assert max(load.ended) == 9.0


def test_of_conversations_too_many_leave_with_the_next_answer() -> None:
    turns = 100

    def talks() -> Iterator[Session]:
        while True:
            yield (Request(Prompt(()), turn, "load", turn=turn) for turn in range(turns))  # type: ignore[misc] # hears nothing

    async def in_flight(now: Now) -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []
        gate, flying = Gate(Pace(3), now), Flying()

        async def send(request: Request) -> Exchange:
            await asyncio.sleep(1.0)
            return Exchange("load", now() - 1.0, now(), sent=now() - 1.0)

        async def turn() -> None:
            for allowed in (3, 5, 2):
                gate.allow(allowed)
                await asyncio.sleep(1.75)  # in the middle of the request after the one that was in flight
                seen.append((gate.going, len(flying)))
            gate.close()

        sending = drive(talks(), flying.watched(send, now), Pace(3), into=Ledger(), now=now, gate=gate)
        await asyncio.gather(sending, turn())
        return seen

    assert play(in_flight) == [(3, 3), (5, 5), (2, 2)]


def test_a_ramp_ends_where_the_number_is_said() -> None:
    load = Load(Pace(10, ramp=10.0), [(2.5, allow(2))], seconds=100.0, until=9.0).play()
    assert load.sent == [0.0, 1.0, 2.0]  # the third was there before; no later opening counts


def test_a_rate_changes_at_once_for_who_waits_far_ahead() -> None:
    slow = Pace(None, 0.1, "constant")
    load = Load(slow, [(3.0, lambda gate: gate.at_rate(2.0, "fast"))], until=5.25).play()
    assert load.sent == [0.0, 3.0, 3.5, 4.0, 4.5, 5.0]
    assert load.scheduled == load.sent


def test_arrivals_of_a_new_rate_follow_from_the_seed_and_the_lap() -> None:
    def sent(lap: str, seed: str = "s") -> list[float]:
        pace = Pace(None, 1.0, "poisson", seed=seed)
        return Load(pace, [(2.0, lambda gate: gate.at_rate(5.0, lap))], until=6.0).play().sent

    assert sent("a") == sent("a")
    assert sent("a") != sent("b")
    assert sent("a") != sent("a", "other")


@pytest.mark.parametrize("pace", [Pace(3), Pace(None, 4.0, "constant")], ids=["closed", "open"])
def test_nobody_begins_in_a_pause(pace: Pace) -> None:
    go_on = allow(3) if pace.rate is None else (lambda gate: gate.at_rate(4.0, "again"))
    load = Load(pace, [(2.1, Gate.pause), (5.0, go_on)], until=7.1).play()
    assert not [at for at in load.sent if 2.1 < at < 5.0]
    assert next(at for at in load.sent if at >= 5.0) == 5.0
    assert max(load.sent) >= 6.0


def test_closing_ends_the_wait_of_everybody() -> None:
    for pace in (Pace(1), Pace(None, 0.01, "constant")):
        load = Load(pace, [], seconds=50.0, until=1.0).play()
        assert load.sent == [0.0]


def test_a_closed_gate_admits_nobody() -> None:
    async def late(now: Now) -> None:
        gate = Gate(Pace(1), now)
        gate.open()
        gate.close()
        with pytest.raises(Closed):
            await gate.admit(None)

    play(late)


def test_landed_is_when_all_that_were_in_flight_have_ended() -> None:
    landed: list[float] = []

    async def watch(live: Live) -> None:
        start = live.now()
        await asyncio.sleep(2.25)
        assert (len(live.flying), live.flying.oldest) == (2, start + 2.0)
        assert (live.flying.older_than(start + 2.0), live.flying.older_than(start + 2.1)) == (0, 2)
        await live.flying.landed()
        landed.append(live.now() - start)
        assert len(live.flying) in (0, 1, 2)  # others have begun meanwhile

    Load(Pace(2), [], until=5.0).play(watch)
    assert landed == [3.0]


def test_who_gives_up_waiting_for_the_landing_breaks_nothing() -> None:
    landed: list[float] = []

    async def watch(live: Live) -> None:
        start = live.now()
        await asyncio.sleep(0.25)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(live.flying.landed(), 0.5)
        await asyncio.sleep(0.5)  # they have landed by now
        await live.flying.landed()
        landed.append(live.now() - start)

    load = Load(Pace(2), [], until=3.0).play(watch)
    assert landed == [2.0]
    assert len(load.ended) == len(load.sent)


def test_nothing_in_flight_has_landed_and_failures_land_too() -> None:
    async def broken(request: Request) -> Exchange:
        raise RuntimeError(request.max_tokens)

    async def work(now: Now) -> None:
        flying = Flying()
        await flying.landed()
        send = flying.watched(broken, now)
        with pytest.raises(RuntimeError):
            await send(Request(Prompt(()), 1, "load"))
        await flying.landed()
        assert (len(flying), flying.oldest) == (0, None)

    play(work)


CHANGES = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 6)), max_size=6, unique_by=lambda change: change[0])


@settings(max_examples=50)
@given(CHANGES, st.integers(1, 6))
def test_no_more_are_going_than_allowed_and_no_fewer_than_wanted(changes: list[tuple[int, int]], first: int) -> None:
    """Replay the limits: a start never exceeds the limit of its moment, and places never stand empty."""
    ordered = sorted(changes)
    load = Load(Pace(first), [(at / 2 + 0.25, allow(count)) for at, count in ordered], until=20.0).play()

    def limit(at: float) -> int:
        return [first, *(count for moment, count in ordered if moment / 2 + 0.25 <= at)][-1]

    assert all(going <= limit(at) for at, going in load.most_at)
    for tick in range(1, 78):  # between two events: they are at whole halves and quarters
        at = tick / 4 + 0.1
        going = sum(sent <= at < sent + load.seconds for sent in load.sent)
        if at < 20.0:
            assert going >= min(limit(at), limit(at - 1.0))


def test_a_ledger_tells_what_ended_since() -> None:
    ledger, whole = Ledger(), Exchange("load", 0.0, 1.0)
    for at in (2, 0, 1):
        ledger[at, 0] = replace(whole, end=float(at))
    assert [e.end for e in ledger.since(1)] == [0.0, 1.0]
    assert list(ledger.since(3)) == []
