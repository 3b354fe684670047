"""A trace as a workload: who is sent and who is not, in which order, and when. Prompts are tested with the others."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.errors import TraceError, WorkloadError
from pytest_kvcache.load import Place, drive, in_order
from pytest_kvcache.lookups import by_time, load_lookups
from pytest_kvcache.model import Exchange, Failure, Request, Row, ServerFacts
from pytest_kvcache.pace import Pace
from pytest_kvcache.workloads import WorkloadBuilder
from pytest_kvcache.workloads.trace_replay import ComposedTrace, TraceReplay

from .tokenizers_zoo import builtin, with_bos_and_eos
from .virtual import Now, play

FACTS = ServerFacts("sim", "a model", block_size=16, max_model_len=100)


@dataclass(frozen=True)
class Listed:
    """Rows in memory."""

    rows: Sequence[Row]
    block_size: int | None = 4
    name: str = "t"

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)


def row(line: int, time: float | None = None, session: str | None = None, length: int = 10, **more: Any) -> Row:
    return Row(line, length, array("q", more.pop("ids", ())), time=time, session=session, **more)


def compose(rows: Sequence[Row], facts: ServerFacts = FACTS, **how: Any) -> ComposedTrace:
    return TraceReplay(Listed(rows), **how).compose(facts, builtin(), "n", as_ids=True)


def listed(composed: ComposedTrace) -> list[list[Request]]:
    """The requests of each session, as they come when nothing is answered in time."""
    found = []
    for session in composed.sessions():
        requests: list[Request] = []
        try:
            request = next(session)
            while True:
                requests.append(request)
                request = session.send(Exchange("load", 0.0, 0.0))
        except StopIteration:
            found.append(requests)
    return found


def lengths(composed: ComposedTrace) -> list[list[int]]:
    return [[len(request.prompt.ids) for request in session] for session in listed(composed)]


# --- in which order --------------------------------------------------------------------------------------------------

MIXED = [
    row(1, 5.0, "a", 11),
    row(2, 0.0, None, 12),
    row(3, 1.0, "b", 13),
    row(4, 6.0, "a", 14),
    row(5, 1.0, None, 15),
    row(6, 2.0, "b", 16),
]


def test_sessions_begin_in_the_order_of_their_first_requests() -> None:
    assert lengths(compose(MIXED, clock=False)) == [[11, 14], [12], [13, 16], [15]]


def test_on_the_clock_sessions_begin_when_they_are_due() -> None:
    composed = compose(MIXED, speed=2.0)
    assert lengths(composed) == [[12], [13, 16], [15], [11, 14]]
    dues = [[request.due for request in session] for session in listed(composed)]
    assert dues == [[0.0], [0.5, 1.0], [0.5], [2.5, 3.0]]


def test_one_user_sends_all_in_the_order_of_the_trace() -> None:
    assert lengths(compose(MIXED, clock=False, users=1)) == [[11, 12, 13, 14, 15, 16]]
    assert lengths(compose(MIXED, clock=False, users=2)) == [[11, 14], [12], [13, 16], [15]]


@pytest.mark.parametrize("how", [{"clock": False}, {"clock": False, "users": 1}, {}])
def test_what_is_looked_up_has_the_order_of_the_exchanges(how: dict[str, Any]) -> None:
    composed = compose(MIXED, **how)
    sent = [request for session in listed(composed) for request in session]
    loaded = list(composed.load())
    assert [r.prompt for r in loaded] == [r.prompt for r in sent]
    assert {r.session for r in loaded} == {None}  # no prompt says anything of an answer
    assert len(composed) == len(loaded) == 6
    by_length = {len(r.prompt.ids): (r.session, r.turn) for r in sent}
    assert by_length == {11: (0, 0), 12: (1, None), 13: (2, 0), 14: (0, 1), 15: (3, None), 16: (2, 1)}


def test_a_turn_that_failed_is_followed_by_the_next() -> None:
    (session,) = compose([row(1, 0.0, "a"), row(2, 1.0, "a", 11)]).sessions()
    next(session)
    request = session.send(Exchange("load", 0.0, 0.0, failure=Failure("http", "500")))
    assert len(request.prompt.ids) == 11


def test_sessions_that_are_called_like_numbers_are_no_others() -> None:
    composed = compose([row(1), row(2, session="0"), row(3, session="1"), row(4, session="0")], clock=False)
    assert [[r.session for r in session] for session in listed(composed)] == [[0], [1, 1], [2]]


# --- when ------------------------------------------------------------------------------------------------------------


def test_a_trace_without_times_has_no_clock() -> None:
    with pytest.raises(WorkloadError, match=r"trace t: line 2 has no time, so it is never due; a closed loop"):
        compose([row(1, 0.0), row(2)])
    assert len(compose([row(1, 0.0), row(2)], clock=False)) == 2


def test_time_that_runs_backwards_within_a_session_is_named() -> None:
    rows = [row(1, 5.0, "a"), row(2, 1.0, "b"), row(7, 4.5, "a")]
    with pytest.raises(WorkloadError, match=r"trace t: line 7 is 0.5 s before the turn before it in its session"):
        compose(rows)
    assert len(compose(rows, clock=False)) == 3
    assert lengths(compose([row(1, 5.0, "a", 11), row(2, 1.0, "b", 12), row(3, 5.0, "a", 13)])) == [[12], [11, 13]]
    backwards = [row(1, 5.0, None, 11), row(2, 1.0, None, 12)]  # between sessions the order of the file means nothing
    assert [[r.due for r in session] for session in listed(compose(backwards))] == [[0.0], [4.0]]


def test_a_delay_stands_for_the_time_of_a_later_turn() -> None:
    rows = [row(1, 3.0, "a"), row(2, None, "a", delay=4.0), row(3, 20.0, "a", delay=4.0)]
    (session,) = listed(compose(rows, speed=2.0))
    assert [(r.due, r.pause) for r in session] == [(0.0, 0.0), (None, 2.0), (8.5, 0.0)]
    with pytest.raises(WorkloadError, match="line 1 has no time"):
        compose([row(1, None, "a", delay=1.0), row(2, 3.0, "a")])


def test_thinking_is_waited_for_when_it_is_asked_for() -> None:
    rows = [row(1, 0.0, "a", delay=9.0), row(2, 3.0, "a", delay=4.0), row(3, 4.0, "a"), row(4, 4.0, delay=2.0)]
    pauses = [[r.pause for r in session] for session in listed(compose(rows, clock=False, think=True, speed=2.0))]
    assert pauses == [[0.0, 2.0, 0.0], [0.0]]
    without = [r for session in listed(compose(rows, clock=False)) for r in session]
    assert {(r.pause, r.due) for r in without} == {(0.0, None)}


@pytest.mark.parametrize(("seconds", "told"), [(0.25, ()), (2.0, ("1 later turn waited", "up to 1 s behind"))])
def test_turns_that_cannot_keep_to_the_clock_are_told(seconds: float, told: tuple[str, ...]) -> None:
    composed = compose([row(1, 100.0), row(2, 103.0, "a"), row(3, 104.0, "a"), row(4, 109.0, "a")])
    done: dict[Place, Exchange] = {}

    async def work(now: Now) -> list[float]:
        async def send(_: Request) -> Exchange:
            sent = now()
            await asyncio.sleep(seconds)
            return Exchange("load", sent, now(), sent=sent)

        start = now()
        await drive(composed.sessions(), send, Pace(None), into=done, now=now)
        return [(e.scheduled or 0.0) - start for e in in_order(done)]

    late = max(0.0, seconds - 1)
    assert play(work) == [0.0, 3.0, 4.0 + late, 9.0]
    assert len(composed.notes) == 2 + len(told[:1])
    for text in told:
        assert text in composed.notes[-1]
    composed.sessions()
    assert len(composed.notes) == 2  # of the run that comes


@settings(max_examples=60, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from([None, "a", "b"])), min_size=1, max_size=12),
    st.sampled_from([0.5, 1.0, 4.0]),
)
def test_a_server_that_is_fast_enough_sees_the_traces_times(made: list[tuple[int, str | None]], speed: float) -> None:
    rows = [
        row(line, float(at), session, 10 + line) for line, (at, session) in enumerate(sorted(made, key=lambda m: m[0]))
    ]
    composed, done = compose(rows, speed=speed), dict[Place, Exchange]()

    async def work(now: Now) -> dict[int, float]:
        async def send(request: Request) -> Exchange:
            return Exchange("load", now(), now(), sent=now(), prompt_len=len(request.prompt.ids))

        start = now()
        await drive(composed.sessions(), send, Pace(None), into=done, now=now)
        return {e.prompt_len or 0: (e.scheduled or 0.0) - start for e in in_order(done)}

    found = play(work)
    assert found == {r.input_length: ((r.time or 0.0) - (rows[0].time or 0.0)) / speed for r in rows}
    exchanges = in_order(done)
    lookups = load_lookups(composed, exchanges, lambda _: None)
    assert lookups is not None
    assert [len(lookup.ids) for lookup in lookups] == [e.prompt_len for e in exchanges]
    sent = [exchanges[at].sent or 0.0 for at in by_time(exchanges)]
    assert sent == sorted(sent)


# --- what is sent ----------------------------------------------------------------------------------------------------


def test_answers_are_as_long_as_the_trace_says_and_the_model_allows() -> None:
    rows = [row(n, length=length, output_length=out) for n, (length, out) in enumerate(OUTPUTS, 1)]
    composed = compose(rows, clock=False)
    assert [r.max_tokens for r in composed.load()] == [7, 1, 1, 1, 1, 10, 10]
    assert composed.notes == (
        "2 requests of the trace (line 6 first): left out, too long for the 100 tokens that 'a model' takes",
        "2 requests of the trace (line 5 first): answers cut to what fits 100 tokens",
        "2 requests of the trace (line 2 first): 1 token generated, the trace says 0 or nothing",
        "7 requests of the trace (line 1 first): without block ids, so they share nothing with any other",
    )
    composed = compose(rows, clock=False, output_len=8)
    assert [r.max_tokens for r in composed.load()] == [8, 8, 8, 8, 1, 8, 8]
    assert composed.notes[1:-1] == ("1 request of the trace (line 5): answers cut to what fits 100 tokens",)
    free = compose(rows, replace(FACTS, max_model_len=None), clock=False)
    assert [r.max_tokens for r in free.load()] == [7, 1, 1, 1, 5, 1, 3, 11, 10]
    assert len(free.notes) == 2
    some = compose([row(1, ids=[1, 2, 3], output_length=1), row(2, output_length=1)], clock=False)
    assert some.notes == ("1 request of the trace (line 2): without block ids, so they share nothing with any other",)
    assert compose([row(1, ids=[1, 2, 3], output_length=1)], clock=False).notes == ()


OUTPUTS = [(10, 7), (10, 0), (10, None), (10, 1), (99, 5), (100, 1), (101, 3), (90, 11), (90, 10)]


def test_who_is_left_out_keeps_no_place_in_time() -> None:
    rows = [row(1, 3.0, "a", 200), row(2, 5.0, "a", 11), row(3, 7.0, None, 12)]
    composed = compose(rows)
    assert [[(r.due, r.turn) for r in session] for session in listed(composed)] == [[(0.0, 0)], [(2.0, None)]]
    assert len(composed) == 2


@pytest.mark.parametrize(
    ("rows", "seats"),
    [
        ([row(1, 3.0, "a", 200), row(2, None, "a", 11, delay=4.0)], [(2.0, 0.0)]),
        ([row(1, 3.0, "a", 200), row(2, None, "a", 200, delay=4.0), row(3, None, "a", delay=2.0)], [(3.0, 0.0)]),
        ([row(1, 3.0, "a", 200), row(2, 9.0, "a", delay=4.0)], [(3.0, 0.0)]),  # what it says itself is what counts
        (
            [
                row(1, 3.0, "a"),
                row(2, None, "a", 200, delay=4.0),
                row(3, None, "a", delay=2.0),
                row(4, None, "a", delay=1.0),
            ],
            [(0.0, 0.0), (None, 3.0), (None, 0.5)],
        ),
        ([row(1, 3.0, "a"), row(2, 9.0, "a", 200), row(3, None, "a", delay=2.0)], [(0.0, 0.0), (4.0, 0.0)]),
    ],
    ids=["first", "first two", "timed itself", "between", "timed between"],
)  # fmt: skip
def test_who_waits_after_a_turn_that_is_left_out_waits_from_then(
    rows: list[Row], seats: list[tuple[float | None, float]]
) -> None:
    sessions = listed(compose([row(0, 3.0), *rows], speed=2.0))
    assert [(r.due, r.pause) for session in sessions for r in session if r.turn is not None] == seats


def test_prompts_that_are_shorter_than_what_stands_around_them_are_left_out() -> None:
    rows = [row(1, length=2), row(2, length=3), row(3, length=1)]
    composed = TraceReplay(Listed(rows), clock=False, send="text").compose(FACTS, with_bos_and_eos(), "n", as_ids=True)
    assert [len(r.prompt.ids) for r in composed.load()] == [3]
    assert composed.notes[0] == (
        "2 requests of the trace (line 1 first): left out, no room beside the 2 special tokens that tokenizer 'bos-eos'"
        " puts around a text"
    )


def test_a_trace_of_which_nothing_fits_is_refused() -> None:
    with pytest.raises(
        WorkloadError, match=r"trace t: there is no request to send; 1 request of the trace \(line 1\): lef"
    ):
        compose([row(1, length=100)], clock=False)
    with pytest.raises(WorkloadError, match=r"trace t: there is no request to send$"):
        compose([], clock=False)


def test_ids_without_a_block_size_mean_nothing() -> None:
    trace = Listed([row(1, ids=[1, 2])], block_size=None)
    with pytest.raises(WorkloadError, match="trace t: nothing tells how many tokens its blocks have; give block_size="):
        TraceReplay(trace, clock=False).compose(FACTS, builtin(), "n", as_ids=True)
    trace = Listed([row(1), row(2)], block_size=None)
    assert len(TraceReplay(trace, clock=False).compose(FACTS, builtin(), "n", as_ids=True)) == 2


def test_what_is_wrong_with_a_trace_is_said_by_it() -> None:
    class Broken(Listed):
        def __iter__(self) -> Iterator[Row]:
            raise TraceError("line 3: no number")

    with pytest.raises(TraceError, match="line 3: no number"):
        TraceReplay(Broken([])).compose(FACTS, builtin(), "n", as_ids=True)


# --- what is told ----------------------------------------------------------------------------------------------------

MANY = [row(n, n / 3000) for n in range(1500)]


@pytest.mark.parametrize(
    ("rows", "how", "title"),
    [
        ([row(1, 0.0), row(2, 50.0)], {}, "2 requests, 20 tokens, span 50 s at speed 1, 0.04 requests/s"),
        ([row(1, 9.0), row(2, 809.0)], {"speed": 9}, "2 requests, 20 tokens, span 800 s at speed 9, 0.0225 requests/s"),
        (MANY, {"speed": 0.5}, "1,500 requests, 15,000 tokens, span 0.5 s at speed 0.5, 1,501 requests/s"),
        ([row(1, 9.0)], {}, "1 request, 10 tokens, span 0 s at speed 1"),
        ([row(1, 9.0)], {"clock": False}, "1 request, 10 tokens, each session at its own pace"),
        ([row(1, 9.0)], {"clock": False, "users": 1}, "1 request, 10 tokens, one after the other"),
    ],
)  # fmt: skip
def test_titles(rows: list[Row], how: dict[str, Any], title: str) -> None:
    composed = compose(rows, **how)
    assert composed.title == f"trace t: {title}, as ids"
    assert (composed.prefix_len, composed.warms, composed.append_only, composed.fresh) == (0, None, False, True)
    assert list(composed.warmed()) == list(composed.prefill()) == []


@pytest.mark.parametrize(
    ("wrong", "allowed"),
    [
        ({"speed": 0}, "speed=0 must be a number above 0"),
        ({"speed": float("inf")}, "speed=inf must be a number above 0"),
        ({"speed": "2"}, "speed='2' must be a number above 0"),
        ({"clock": 1}, "clock=1 must be True or False"),
        ({"think": None}, "think=None must be True or False"),
        ({"users": 0, "clock": False}, "users=0 must be a whole number of at least 1, or None"),
        ({"output_len": 0}, "output_len=0 must be a whole number of at least 1, or None"),
        ({"seed": 1.5}, "seed=1.5 must be a whole number or None"),
        ({"send": "words"}, "send='words' must be"),
        ({"users": 2}, "users=2 means a closed loop: give clock=False too"),
        ({"think": True}, "think=True means a closed loop: give clock=False too"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_named_with_what_is_allowed(wrong: dict[str, Any], allowed: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        WorkloadBuilder().trace(Listed([]), **wrong)
    assert allowed in str(caught.value)


def test_the_builder_hands_on_what_it_is_given() -> None:
    trace = Listed([row(1)])
    built = WorkloadBuilder().trace(
        trace, speed=2.0, clock=False, users=3, think=True, output_len=4, seed=5, send="text"
    )
    assert built == TraceReplay(trace, speed=2.0, clock=False, users=3, think=True, output_len=4, seed=5, send="text")
    assert WorkloadBuilder().trace(trace) == TraceReplay(trace)
