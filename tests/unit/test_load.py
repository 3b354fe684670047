"""Sessions in time: who is sent when, what counts into a latency, and that nothing is lost or left behind.

Time is virtual, so every moment is exact. A "server" is a coroutine that sleeps.
"""

from __future__ import annotations

import asyncio
import heapq
import weakref
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.latency import e2e, ttft
from pytest_kvcache.load import Place, drive, in_order
from pytest_kvcache.model import Exchange, Failure, Prompt, Request, Session
from pytest_kvcache.model.sent import alone
from pytest_kvcache.pace import Pace
from pytest_kvcache.retry import Retrying

from .virtual import Now, play

Server = Callable[[Request], Awaitable[None]]


def request(number: int = 0, pause: float = 0.0) -> Request:
    return Request(Prompt(()), number, "load", pause=pause)


def requests(count: int) -> Iterator[Session]:
    return alone(request(number) for number in range(count))


class Traffic:
    """A drive in virtual time; ``seconds`` is how long the server takes for each request."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.seconds = seconds
        self.done: dict[Place, Exchange] = {}
        self.told: list[int] = []
        self.log: list[tuple[float, int]] = []
        self.flying = self.most = 0
        self.now: Now = lambda: 0.0
        self.start = 0.0

    async def send(self, request: Request) -> Exchange:
        self.log.append((self.now() - self.start, request.max_tokens))
        sent = self.now()
        self.flying += 1
        self.most = max(self.most, self.flying)
        try:
            await self.serve(request)
        finally:
            self.flying -= 1
        end = self.now()
        return Exchange("load", sent, end, sent=sent, first_content=end, chunks=(end,), prompt_len=request.max_tokens)

    async def serve(self, request: Request) -> None:
        await asyncio.sleep(self.seconds)

    async def drive(self, sessions: Iterator[Session], pace: Pace, now: Now) -> None:
        self.now, self.start = now, now()
        await drive(sessions, self.send, pace, into=self.done, progress=self.told.append, now=now)

    def play(self, sessions: Iterator[Session], pace: Pace) -> Traffic:
        play(lambda now: self.drive(sessions, pace, now))
        return self

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        return in_order(self.done)

    @property
    def sent_at(self) -> list[float]:
        return [at for at, _ in self.log]


# --- closed loop -----------------------------------------------------------------------------------------------------


def test_a_closed_loop_keeps_the_number_in_flight_and_loses_nothing() -> None:
    class Uneven(Traffic):
        async def serve(self, request: Request) -> None:
            await asyncio.sleep(request.max_tokens % 3)

    traffic = Uneven().play(requests(50), Pace(7))
    assert [e.prompt_len for e in traffic.exchanges] == list(range(50))
    assert [number for _, number in traffic.log] == list(range(50))
    assert traffic.most == 7
    assert traffic.told == list(range(1, 51))
    assert {e.scheduled for e in traffic.exchanges} == {None}


def test_a_place_is_taken_again_at_once() -> None:
    traffic = Traffic(2.0).play(requests(5), Pace(2))
    assert traffic.log == [(0.0, 0), (0.0, 1), (2.0, 2), (2.0, 3), (4.0, 4)]
    assert tuple(e2e(traffic.exchanges).samples) == (2.0,) * 5  # who waits for a place is no client's request yet


def test_without_a_limit_all_go_at_once() -> None:
    assert Traffic().play(requests(20), Pace(None)).most == 20


@pytest.mark.parametrize(
    ("pace", "making", "order"),
    [
        pytest.param(Pace(3), 0.0, "m0 m1 m2 m3 s0 s1 s2", id="closed, made at once"),
        pytest.param(
            Pace(3), 0.00015, "m0 m1 m2 s0 s1 s2 m3", id="closed, made quickly, but together they take a while"
        ),
        pytest.param(Pace(3), 0.001, "m0 s0 m1 s1 m2 s2 m3", id="closed, made in a millisecond"),
        pytest.param(Pace(3, 1e9, "constant"), 0.0, "m0 s0 m1 s1 m2 s2 m3", id="open: its latency counts"),
    ],
)
def test_who_began_is_sent_before_more_is_made_where_that_delays_it(pace: Pace, making: float, order: str) -> None:
    happened: list[str] = []
    late = 0.0

    class Noted(Traffic):
        async def serve(self, request: Request) -> None:
            happened.append(f"s{request.max_tokens}")
            await super().serve(request)

    def made() -> Iterator[Request]:
        nonlocal late
        for number in range(4):
            late += making
            happened.append(f"m{number}")
            yield request(number)

    traffic = Noted()
    play(lambda now: traffic.drive(alone(made()), pace, lambda: now() + late))
    assert " ".join(happened[:7]) == order


def test_a_ramp_opens_one_place_after_the_other() -> None:
    # Places open at 0, 2, 4 and 6 s; each request takes 1 s, and its place is taken again at once.
    traffic = Traffic(1.0).play(requests(20), Pace(4, ramp=8.0))
    assert traffic.sent_at == [0, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7]


def test_a_ramp_that_is_longer_than_the_load_is_not_waited_for() -> None:
    ends: list[float] = []

    async def work(now: Now) -> None:
        traffic = Traffic(1.0)
        await traffic.drive(requests(2), Pace(4, ramp=400.0), now)
        ends.append(now() - traffic.start)

    play(work)
    assert ends == [2.0]  # one after the other in the first place


# --- sessions --------------------------------------------------------------------------------------------------------


def conversation(turns: int, pause: float, seen: list[Exchange]) -> Session:
    for turn in range(turns):
        answer = yield request(turn, pause if turn else 0.0)
        seen.append(answer)


def test_turns_follow_the_answer_and_the_pause() -> None:
    seen: list[Exchange] = []
    traffic = Traffic(2.0).play(iter([conversation(3, 5.0, seen)]), Pace(8))
    assert traffic.sent_at == [0.0, 7.0, 14.0]
    assert seen == list(traffic.exchanges)
    assert list(traffic.done) == [(0, 0), (0, 1), (0, 2)]
    assert tuple(e2e(traffic.exchanges).samples) == (2.0, 2.0, 2.0)  # thinking is no latency


def test_a_session_keeps_its_place_while_it_thinks() -> None:
    traffic = Traffic(1.0).play((conversation(2, 10.0, []) for _ in range(2)), Pace(1))
    assert traffic.sent_at == [0.0, 11.0, 12.0, 23.0]


def test_in_an_open_loop_only_the_first_turn_is_scheduled() -> None:
    traffic = Traffic(1.0).play((conversation(2, 3.0, []) for _ in range(2)), Pace(None, 0.5, "constant"))
    assert traffic.log == [(0.0, 0), (2.0, 0), (4.0, 1), (6.0, 1)]
    due = {place: e.scheduled and e.scheduled - traffic.start for place, e in traffic.done.items()}
    assert due == {(0, 0): 0.0, (0, 1): None, (1, 0): 2.0, (1, 1): None}


def test_the_pause_of_a_first_request_is_part_of_its_schedule() -> None:
    traffic = Traffic().play(alone(request(n, pause=0.25) for n in range(2)), Pace(None, 1.0, "constant"))
    assert traffic.sent_at == [0.25, 1.25]
    assert [e.scheduled for e in traffic.exchanges] == [e.sent for e in traffic.exchanges]
    assert Traffic().play(alone(request(n, pause=0.25) for n in range(2)), Pace(1)).sent_at == [0.25, 1.5]


def test_a_session_that_has_ended_is_let_go() -> None:
    made: list[weakref.ref[Session]] = []
    most = 0

    def sessions() -> Iterator[Session]:
        nonlocal most
        for _ in range(50):
            session = conversation(1, 0.0, [])
            made.append(weakref.ref(session))
            yield session
            most = max(most, sum(session() is not None for session in made))
            del session

    Traffic().play(sessions(), Pace(3))
    assert most <= 6  # the three going, the one ahead, and what the loop has just ended


def test_an_empty_session_takes_no_place() -> None:
    traffic = Traffic().play(iter([conversation(0, 0, []), conversation(1, 0, []), conversation(0, 0, [])]), Pace(1))
    assert list(traffic.done) == [(1, 0)]
    assert Traffic().play(iter(()), Pace(1)).done == {}


# --- open loop -------------------------------------------------------------------------------------------------------


def test_an_open_loop_sends_when_due_whether_or_not_others_have_ended() -> None:
    traffic = Traffic(10.0).play(requests(6), Pace(None, 4.0, "constant"))
    assert traffic.sent_at == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]
    assert traffic.most == 6
    assert [e.scheduled for e in traffic.exchanges] == [e.sent for e in traffic.exchanges]
    assert tuple(e2e(traffic.exchanges).samples) == (10.0,) * 6


def test_poisson_arrivals_are_those_of_the_pace() -> None:
    pace = Pace(None, 4.0, seed="s", ramp=2.0)
    traffic = Traffic(10.0).play(requests(50), pace)
    assert traffic.sent_at == pytest.approx([at for _, at in zip(range(50), pace.due(), strict=False)])
    assert traffic.sent_at == Traffic(0.0).play(requests(50), pace).sent_at


def test_the_wait_for_a_server_that_falls_behind_is_in_the_latency() -> None:
    """One at a time, 100 ms each, 20 a second: request k is due at k/20 and answered at (k + 1)/10."""

    class OneAtATime(Traffic):
        busy: asyncio.Lock

        async def serve(self, request: Request) -> None:
            self.busy = self.busy if request.max_tokens else asyncio.Lock()
            async with self.busy:
                await asyncio.sleep(0.1)

    traffic = OneAtATime().play(requests(40), Pace(None, 20.0, "constant"))
    expected = [(k + 1) / 10 - k / 20 for k in range(40)]  # 0.1 s at first, 2.05 s at the end
    assert [e.ttft for e in traffic.exchanges] == pytest.approx(expected)
    assert ttft(traffic.exchanges).p50 == pytest.approx(0.1 + 19.5 / 20)
    assert e2e(traffic.exchanges).max == pytest.approx(2.05)


def test_the_wait_for_a_place_is_in_the_latency() -> None:
    """The same server's speed, but it is this side that lets only one go at a time: nothing is forgiven."""
    traffic = Traffic(0.1).play(requests(40), Pace(1, 20.0, "constant"))
    assert traffic.most == 1
    assert [e.ttft for e in traffic.exchanges] == pytest.approx([(k + 1) / 10 - k / 20 for k in range(40)])
    assert [e.end - (e.sent or 0.0) for e in traffic.exchanges] == pytest.approx([0.1] * 40)
    closed = Traffic(0.1).play(requests(40), Pace(1))
    assert ttft(closed.exchanges).max == pytest.approx(0.1)  # a closed loop waits with the server: it cannot see it


def test_who_is_late_is_sent_at_once_and_nobody_is_skipped() -> None:
    traffic, late = Traffic(0.0), 0.0

    def slow() -> Iterator[Request]:
        nonlocal late
        for number in range(6):
            late += 1.1 if number == 3 else 0.0  # making this one blocks the loop for so long
            yield request(number)

    play(lambda now: traffic.drive(alone(slow()), Pace(None, 2.0, "constant"), lambda: now() + late))
    assert traffic.sent_at == pytest.approx([0.0, 0.5, 1.0, 2.1, 2.1, 2.5])
    due = [(e.scheduled or 0.0) - traffic.start for e in traffic.exchanges]
    assert due == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0, 2.5])


def test_nobody_is_sent_before_it_is_due_though_timers_are_early() -> None:
    traffic = Traffic(0.0)
    play(lambda now: traffic.drive(requests(4), Pace(None, 1.0, "constant"), lambda: now() * 0.75))  # by a quarter
    assert traffic.sent_at == pytest.approx([0.0, 1.0, 2.0, 3.0])


def test_a_burst_is_sent_while_it_is_made() -> None:
    made = 0

    def making() -> Iterator[Request]:
        nonlocal made
        for number in range(100):
            made += 1
            yield request(number)

    class Watching(Traffic):
        async def serve(self, request: Request) -> None:
            assert made <= request.max_tokens + 2  # this one, and one ahead

    assert len(Watching().play(alone(making()), Pace(None, 1e9, "constant")).done) == 100


def test_sessions_are_made_one_ahead() -> None:
    made: list[float] = []

    async def work(now: Now) -> None:
        def making() -> Iterator[Session]:
            for _ in range(4):
                made.append(now() - traffic.start)
                yield conversation(1, 0.0, [])

        traffic = Traffic(5.0)
        await traffic.drive(making(), Pace(None, 1.0, "constant"), now)

    play(work)
    assert made == [0.0, 0.0, 1.0, 2.0]


# --- a clock of their own --------------------------------------------------------------------------------------------


def on_clock(number: int, *due: float, pause: float = 0.0) -> Session:
    for turn, moment in enumerate(due):
        yield Request(Prompt(()), 100 * number + turn, "load", pause=pause if turn else 0.0, due=moment)


def offsets(traffic: Traffic) -> dict[Place, float | None]:
    return {place: None if e.scheduled is None else e.scheduled - traffic.start for place, e in traffic.done.items()}


def test_requests_on_the_clock_are_sent_when_they_are_due_whoever_is_going() -> None:
    traffic = Traffic(50.0).play((on_clock(n, at) for n, at in enumerate([0.0, 0.0, 1.5, 1.5, 9.0])), Pace(None))
    assert traffic.log == [(0.0, 0), (0.0, 100), (1.5, 200), (1.5, 300), (9.0, 400)]
    assert [e.scheduled for e in traffic.exchanges] == [e.sent for e in traffic.exchanges]
    assert tuple(e2e(traffic.exchanges).samples) == (50.0,) * 5
    assert traffic.most == 5


def test_the_clock_begins_with_the_load_not_with_its_first_request() -> None:
    assert Traffic().play(iter([on_clock(0, 7.0), on_clock(1, 8.25)]), Pace(None)).sent_at == [7.0, 8.25]


def test_a_later_turn_waits_for_its_time_and_for_the_answer_before() -> None:
    # answers take 3 s: turn 1 could go at 3 and is due at 10, turn 2 is due at 12 and can go at 13 at the earliest
    traffic = Traffic(3.0).play(iter([on_clock(0, 0.0, 10.0, 12.0, 20.0)]), Pace(None))
    assert traffic.sent_at == [0.0, 10.0, 13.0, 20.0]
    assert offsets(traffic) == {(0, 0): 0.0, (0, 1): 10.0, (0, 2): 13.0, (0, 3): 20.0}
    assert tuple(e2e(traffic.exchanges).samples) == (3.0,) * 4  # the wait for an answer is the user's own


def test_a_pause_counts_from_the_answer_and_the_clock_from_the_beginning() -> None:
    traffic = Traffic(3.0).play(iter([on_clock(0, 0.0, 4.0, 20.0, pause=2.0)]), Pace(None))
    assert offsets(traffic) == {(0, 0): 0.0, (0, 1): 5.0, (0, 2): 20.0}
    assert traffic.sent_at == [0.0, 5.0, 20.0]


def test_turns_without_a_time_follow_the_answer_though_the_first_had_one() -> None:
    def session() -> Session:
        yield replace(request(0), due=4.0)
        yield request(1, 0.5)

    traffic = Traffic(1.0).play(iter([session()]), Pace(None))
    assert traffic.log == [(4.0, 0), (5.5, 1)]
    assert offsets(traffic) == {(0, 0): 4.0, (0, 1): None}


def test_a_limit_makes_the_clock_late_and_the_wait_is_in_the_latency() -> None:
    traffic = Traffic(3.0).play((on_clock(n, float(n)) for n in range(3)), Pace(1))
    assert traffic.sent_at == [0.0, 3.0, 6.0]
    assert offsets(traffic) == {(0, 0): 0.0, (1, 0): 1.0, (2, 0): 2.0}
    assert [e.ttft for e in traffic.exchanges] == [3.0, 5.0, 7.0]


def test_the_clock_goes_before_the_rate() -> None:
    sessions = iter([on_clock(0, 5.0), alone(iter([request(7)])).__next__(), on_clock(1, 6.0)])
    traffic = Traffic(1.0).play(sessions, Pace(None, 0.5, "constant"))  # sessions are due at 0, 2 and 4 s
    assert traffic.log == [(5.0, 0), (5.0, 7), (6.0, 100)]
    assert offsets(traffic) == {(0, 0): 5.0, (1, 0): 2.0, (2, 0): 6.0}


def test_a_session_that_stands_behind_a_later_one_is_late_and_told() -> None:
    traffic = Traffic(1.0).play(iter([on_clock(0, 5.0), on_clock(1, 2.0)]), Pace(None))
    assert traffic.sent_at == [5.0, 5.0]
    assert [e.ttft for e in traffic.exchanges] == [1.0, 4.0]


def test_who_made_a_request_too_late_is_late() -> None:
    traffic, late = Traffic(1.0), 0.0

    def slow() -> Session:
        nonlocal late
        yield replace(request(0), due=0.0)
        late += 2.5  # making the next one blocks the loop for so long
        yield replace(request(1), due=2.0)

    play(lambda now: traffic.drive(iter([slow()]), Pace(None), lambda: now() + late))
    assert traffic.sent_at == [0.0, 3.5]
    assert offsets(traffic) == {(0, 0): 0.0, (0, 1): 2.0}


MOMENTS = st.integers(0, 40).map(float)
SESSIONS = st.lists(
    st.lists(st.tuples(st.one_of(st.none(), MOMENTS), st.integers(0, 5), st.integers(0, 8)), min_size=1, max_size=5),
    min_size=1,
    max_size=6,
)


@settings(max_examples=200, derandomize=True)
@given(SESSIONS, st.sampled_from([None, 1, 2, 3]))
def test_the_clock_is_kept(plan: list[list[tuple[float | None, int, int]]], limit: int | None) -> None:
    """Sessions of (due, pause, seconds that the answer takes), against the moments worked out one by one."""
    plan = sorted(([(turns[0][0] or 0.0, *turns[0][1:]), *turns[1:]] for turns in plan), key=lambda turns: turns[0][0])

    def session(turns: list[tuple[float | None, int, int]]) -> Session:
        for due, pause, seconds in turns:
            yield Request(Prompt(()), seconds, "load", pause=float(pause), due=due)

    class Taking(Traffic):
        async def serve(self, request: Request) -> None:
            await asyncio.sleep(request.max_tokens)

    expected: dict[Place, tuple[float, float | None]] = {}
    places = [0.0] * (limit or len(plan))
    begun = 0.0
    for number, turns in enumerate(plan):
        due, pause, seconds = turns[0]
        assert due is not None
        begun = max(begun, due, heapq.heappop(places))
        expected[number, 0] = max(due + pause, begun), due + pause
        free = expected[number, 0][0] + seconds
        for turn, (later, pause, seconds) in enumerate(turns[1:], 1):
            moment = max(later or 0.0, free + pause)
            expected[number, turn] = moment, None if later is None else moment
            free = moment + seconds
        heapq.heappush(places, free)

    traffic = Taking().play((session(turns) for turns in plan), Pace(limit))
    found = {place: ((e.sent or 0.0) - traffic.start, offsets(traffic)[place]) for place, e in traffic.done.items()}
    assert found == expected


# --- retries ---------------------------------------------------------------------------------------------------------


def refusing(traffic: Traffic, times: int) -> Callable[[Request], Awaitable[Exchange]]:
    """A server that is busy at first, for a second each time."""
    left = times

    async def send(request: Request) -> Exchange:
        nonlocal left
        exchange = await traffic.send(request)
        if left:
            left -= 1
            return Exchange(
                "load",
                exchange.queued,
                exchange.end,
                sent=exchange.sent,
                status=429,
                failure=Failure("http", "429", 3.0),
            )
        return exchange

    return send


@pytest.mark.parametrize(("pace", "latency"), [(Pace(None, 1.0, "constant"), 9.0), (Pace(1), 1.0)])
def test_a_retry_hides_no_wait_in_an_open_loop(pace: Pace, latency: float) -> None:
    # 1 s refused, 3 s waited, 1 s refused, 3 s waited, 1 s answered: 9 s since it was due, 1 s since it was last sent
    traffic = Traffic(1.0)

    async def work(now: Now) -> None:
        traffic.now, traffic.start = now, now()
        await drive(requests(1), Retrying(refusing(traffic, 2), 2), pace, into=traffic.done, now=now)

    play(work)
    (exchange,) = traffic.exchanges
    assert (exchange.ttft, exchange.e2e, len(exchange.earlier)) == (latency, latency, 2)
    assert traffic.sent_at == [0.0, 4.0, 8.0]


# --- the end, however it comes ---------------------------------------------------------------------------------------


class Watched:
    """Sessions that tell when they are closed."""

    def __init__(self) -> None:
        self.closed: list[int] = []
        self.made = 0

    def __iter__(self) -> Iterator[Session]:
        for number in range(1000):
            self.made += 1
            yield self.session(number)

    def session(self, number: int) -> Session:
        try:
            for _ in range(3):
                yield request(number)
        finally:
            self.closed.append(number)


@pytest.mark.parametrize(
    "pace", [Pace(2), Pace(4, ramp=1e6), Pace(None, 1.0, "constant"), Pace(2, 1.0, "constant"), Pace(2, 2.0, ramp=2.0)]
)
def test_a_cancelled_drive_keeps_what_it_has_and_closes_its_sessions(pace: Pace) -> None:
    watched, traffic = Watched(), Traffic(0.75)

    async def work(now: Now) -> None:
        task = asyncio.ensure_future(traffic.drive(iter(watched), pace, now))
        await asyncio.sleep(10.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    play(work)
    assert len(traffic.done) >= 8
    assert traffic.flying == 0
    assert sorted(watched.closed) == list(range(watched.made))  # those ended, those going, and the one made ahead
    assert watched.made < 20
    assert all(e.ok for e in traffic.exchanges)


def test_a_drive_cancelled_before_it_begins_leaves_nothing() -> None:
    watched, traffic = Watched(), Traffic()

    async def work(now: Now) -> None:
        for steps in range(6):
            task = asyncio.ensure_future(traffic.drive(iter(watched), Pace(2), now))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    play(work)
    assert len(watched.closed) == watched.made


@pytest.mark.parametrize("pace", [Pace(3), Pace(None, 1.0, "constant"), Pace(1, 1.0, ramp=3.0)])
@pytest.mark.parametrize("turn", [0, 1, 2])
def test_an_error_of_a_session_is_raised_and_ends_the_others(pace: Pace, turn: int) -> None:
    watched, traffic = Watched(), Traffic()

    def broken() -> Session:
        for _ in range(turn):
            yield request()
        raise ZeroDivisionError("a user's callable")

    def sessions() -> Iterator[Session]:
        yield watched.session(0)
        yield broken()
        watched.made = 2
        yield from (watched.session(number) for number in range(2, 1000))

    with pytest.raises(ZeroDivisionError, match="a user's callable"):
        traffic.play(sessions(), pace)
    assert traffic.flying == 0
    assert 0 in watched.closed
    assert [place for place in traffic.done if place[0] == 1] == [(1, number) for number in range(turn)]


@pytest.mark.parametrize("where", ["send", "progress", "sessions"])
def test_an_error_elsewhere_is_raised_too(where: str) -> None:
    def sessions() -> Iterator[Session]:
        yield conversation(9, 0.0, [])
        if where == "sessions":
            raise ZeroDivisionError
        yield conversation(9, 0.0, [])

    class Broken(Traffic):
        async def serve(self, request: Request) -> None:
            await asyncio.sleep(1.0)
            if where == "send" and request.max_tokens == 3:
                raise ZeroDivisionError

    def report(count: int) -> None:
        if where == "progress" and count == 3:
            raise ZeroDivisionError

    async def work(now: Now) -> None:
        traffic = Broken()
        traffic.now = now
        await drive(sessions(), traffic.send, Pace(2), into=traffic.done, progress=report, now=now)

    with pytest.raises(ZeroDivisionError):
        play(work)


def test_a_send_that_is_cancelled_from_within_is_not_lost_in_silence() -> None:
    class Cancelled(Traffic):
        async def serve(self, request: Request) -> None:
            await asyncio.sleep(1.0)
            if request.max_tokens == 3:
                raise asyncio.CancelledError

    traffic = Cancelled()
    with pytest.raises(asyncio.CancelledError):
        traffic.play(requests(10), Pace(1))
    assert len(traffic.done) == 3


def test_sessions_are_all_closed_though_one_refuses() -> None:
    watched = Watched()

    def stubborn() -> Session:
        try:
            yield request()
        finally:
            raise OSError("a file of the user's")

    async def work(now: Now) -> None:
        traffic = Traffic(100.0)
        sessions: list[Session] = [watched.session(0), stubborn(), watched.session(1), watched.session(2)]
        task = asyncio.ensure_future(traffic.drive(iter(sessions), Pace(8), now))
        await asyncio.sleep(1.0)
        task.cancel()
        await task

    with pytest.raises(OSError, match="a file of the user's"):
        play(work)
    assert sorted(watched.closed) == [0, 1, 2]


def test_exchanges_come_in_the_order_of_sessions_and_turns() -> None:
    made = {place: Exchange("load", 0.0, float(sum(place))) for place in [(1, 0), (0, 2), (10, 0), (0, 10), (2, 0)]}
    assert [e.end for e in in_order(made)] == [2.0, 10.0, 1.0, 2.0, 10.0]
