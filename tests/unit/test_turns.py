"""Turns by hand: rows, rates, what is left out, and checks whose sentence says where they fail."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kvcache.model import Exchange, Failure, Grain, Measurement, Prediction, ServerFacts
from pytest_kvcache.result import Result
from pytest_kvcache.simulate.turns_forecast import predict_by_usage
from pytest_kvcache.turns import Check, Turn, Turns

FACTS = ServerFacts(engine="usage", model="m", block_size=16)


def by_usage(exchanges: list[Exchange], grain: Grain, *, exact: bool = True) -> Prediction:
    found = predict_by_usage(exchanges, grain, exact=exact, head=0)
    assert found is not None
    return found


def exchange(
    session: int | None,
    turn: int | None,
    prompt: int | None = 100,
    cached: int | None = 0,
    completion: int | None = 8,
    **more: Any,
) -> Exchange:
    seen = {"sent": float(turn or 0), "first_content": (turn or 0) + 0.25, **more}
    told = {"prompt_tokens": prompt, "cached_tokens": cached, "completion_tokens": completion}
    return Exchange(phase="load", queued=0.0, end=9.0, session=session, turn=turn, **{**told, **seen})


def failed(session: int, turn: int) -> Exchange:
    return exchange(session, turn, None, None, None, failure=Failure("http", "no"))


def turns(*cached: int | None, session: int = 0, prompt: int | None = 1000) -> tuple[Turn, ...]:
    return tuple(Turn(session, number, prompt, tokens, tokens) for number, tokens in enumerate(cached))


def measured(*exchanges: Exchange, **more: Any) -> Measurement:
    return Measurement(title="t", facts=FACTS, engines={}, exchanges=exchanges, **more)


# --- rows ------------------------------------------------------------------------------------------------------------


def test_rows_come_in_the_order_of_sessions_and_turns_with_their_predictions() -> None:
    exchanges = (exchange(1, 1, 200, 96), exchange(None, None), exchange(0, 0, 100, 0), failed(0, 1))
    told = Turns.of(measured(*exchanges, prediction=Prediction(99, 400, (96, 3, 0, 0), 16), planned=6))
    assert told.rows == (
        Turn(0, 0, 100, 0, 0, 0, 0.25),
        Turn(0, 1, None, None, 0, 0, 0.25, ok=False),
        Turn(1, 1, 200, 96, 96, 0, 0.25),
    )
    assert (told.exact, told.missing, len(told)) == (True, 2, 3)
    assert repr(told) == "<Turns: 3 of 2 sessions, 2 missing>"
    assert [row.hit_rate for row in told] == [0.0, None, 0.48]


def test_without_a_conversation_there_are_no_turns_and_no_check_holds() -> None:
    none = Turns.of(measured(exchange(None, None), planned=1))
    assert not none
    assert (none.rows, none.hit_rate, none.missing) == ((), None, None)
    for check in (none.cached_tokens_never_drop(), none.never_zero(), none.grows(), none.as_predicted()):
        assert not check
        assert str(check) == "there are no turns: nothing here was sent as a conversation"
    assert not none.same_as(none)


def test_what_is_predicted_is_only_taken_for_as_many_requests() -> None:
    told = Turns.of(measured(exchange(0, 0), prediction=Prediction(0, 0, (), 16)))
    assert [(row.predicted, row.room) for row in told] == [(None, None)]
    told = Turns.of(measured(exchange(0, 0), prediction=Prediction(0, 100, (0,), 16, slack=16)))
    assert [(row.predicted, row.room) for row in told] == [(0, None)]
    told = Turns.of(measured(exchange(0, 0), prediction=Prediction(0, 100, (0,), 16, slack=16, room=(16,))))
    assert [(row.predicted, row.room) for row in told] == [(0, 16)]


def test_only_an_exact_prediction_is_one_of_the_turns() -> None:
    def exact(prediction: Prediction | None) -> bool:
        return Turns.of(measured(exchange(0, 0), prediction=prediction)).exact

    assert exact(Prediction(0, 100, (0,), 16))
    assert not exact(Prediction(0, 100, (0,), 1, exact=False))
    assert not exact(None)


def test_a_result_has_turns() -> None:
    result = Result(measured(exchange(0, 0), exchange(0, 1, 150, 96)))
    assert [row.cached for row in result.turns] == [0, 96]
    assert result.turns.cached_tokens_never_drop()


# --- rates -----------------------------------------------------------------------------------------------------------


def test_the_rate_is_of_sums_and_unknown_with_any_number() -> None:
    rows = (Turn(0, 0, 100, 0), Turn(0, 1, 300, 96), Turn(1, 0, 100, 54))
    assert Turns(rows).hit_rate == 150 / 500
    assert Turns(rows).skip(1).hit_rate == 96 / 300
    assert Turns(rows).skip(2).hit_rate is None
    assert Turns((*rows, Turn(1, 1, 100, None))).hit_rate is None
    assert Turns((*rows, Turn(1, 1, None, 0))).hit_rate is None
    assert Turns((Turn(0, 0, 0, 0),)).hit_rate is None


def test_skipped_turns_are_those_of_each_session() -> None:
    told = Turns((*turns(0, 1, 2), *turns(0, 4, session=1)), exact=False, missing=1)
    kept = told.skip(1)
    assert [(row.session, row.turn) for row in kept] == [(0, 1), (0, 2), (1, 1)]
    assert (kept.exact, kept.missing) == (False, 1)
    assert told.skip(0) == told


# --- checks ----------------------------------------------------------------------------------------------------------

FALLS = Turns((*turns(0, 64, 64), *turns(64, 1024, 0, session=2)))


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        (Turns(turns(0, 64, 64, 96)).cached_tokens_never_drop(), None),
        (Turns((*turns(0, 64), *turns(0, 64, session=1))).cached_tokens_never_drop(), None),
        (FALLS.cached_tokens_never_drop(), "session 2, turn 2: cached tokens fell from 1,024 to 0"),
        (FALLS.skip(2).cached_tokens_never_drop(), None),
        (Turns(turns(0, 64, 96)).grows(), None),
        (Turns(turns(0, 64, 64)).grows(), "session 0, turn 2: cached tokens did not grow, from 64 to 64"),
        (Turns(turns(0, 64, 48)).grows(), "session 0, turn 2: cached tokens did not grow, from 64 to 48"),
        (Turns(turns(0, 64, 32)).never_zero(), None),
        (Turns(turns(0, 64, 0)).never_zero(), "session 0, turn 2: no cached tokens of 1,000"),
        (FALLS.never_zero(), "session 2, turn 2: no cached tokens of 1,000"),
        (
            Turns(turns(0, None)).never_zero(),
            "session 0, turn 1: the server reports no cached tokens there, so nothing can be said",
        ),
        (
            Turns(turns(None, 64)).cached_tokens_never_drop(),
            "session 0, turn 0: the server reports no cached tokens there, so nothing can be said",
        ),
        (
            Turns(turns(0, prompt=None)).grows(),
            "session 0, turn 0: the server reports no prompt tokens there, so nothing can be said",
        ),
        (
            Turns((*turns(0), Turn(0, 1, None, None, ok=False))).cached_tokens_never_drop(),
            "session 0, turn 1: the request failed, and its conversation ended there",
        ),
    ],
)
def test_checks_say_where_they_fail(check: Check, sentence: str | None) -> None:
    assert bool(check) is (sentence is None)
    if sentence is not None:
        assert str(check) == repr(check) == sentence


def test_predicted_to_the_token() -> None:
    assert Turns(turns(0, 64)).as_predicted()
    off = Turns((Turn(0, 0, 100, 0, 0), Turn(0, 1, 2000, 1040, 1024)))
    assert str(off.as_predicted()) == "session 0, turn 1: 1,040 cached tokens, predicted were 1,024"
    assert (
        str(Turns((Turn(0, 0, 100, 0, 16),)).as_predicted()) == "session 0, turn 0: 0 cached tokens, predicted were 16"
    )


def test_predicted_within_the_room_of_each_turn() -> None:
    def one(cached: int) -> Check:
        return Turns((Turn(0, 1, 2000, cached, 1024, room=32),)).as_predicted()

    assert [bool(one(cached)) for cached in (1023, 1024, 1040, 1056, 1057)] == [False, True, True, True, False]
    assert str(one(16)) == "session 0, turn 1: 16 cached tokens, predicted were 1,024 to 1,056"


@pytest.mark.parametrize("row", [Turn(0, 0, 10, 0, None), Turn(0, 0, 10, 0, 0, room=None)])
def test_what_is_not_predicted_is_not_as_predicted(row: Turn) -> None:
    assert str(Turns((row,)).as_predicted()) == "session 0, turn 0: it is not known what this turn may reuse"
    bound = Turns(turns(0), exact=False).as_predicted()
    assert str(bound) == "there is no exact prediction: the block size or the tokens are not known"


def first(session: int, cached: int, predicted: int, **more: Any) -> Turn:
    return Turn(session, 0, 100, cached, predicted, **more)


def test_first_turns_may_have_each_others_numbers() -> None:
    assert Turns((first(0, 64, 0), first(1, 0, 64))).as_predicted()
    assert Turns((first(0, 64, 0), first(1, 0, 64), first(2, 16, 0, room=32))).as_predicted()
    assert not Turns((first(0, 64, 0), first(1, 64, 64))).as_predicted()
    assert not Turns((first(0, 64, 0), first(1, 0, 0, room=32), first(2, 0, 64, room=1))).as_predicted()
    assert not Turns((first(0, 64, 0), first(1, 0, 64), first(2, 64, 0, room=32))).as_predicted()
    assert not Turns((Turn(0, 1, 100, 64, 0), Turn(1, 1, 100, 0, 64))).as_predicted()
    here, there = Turns((first(0, 64, 0), first(1, 0, 0))), Turns((first(0, 0, 0), first(1, 64, 0)))
    assert here.same_as(there)
    assert not here.same_as(Turns((first(0, 0, 0), first(1, 0, 0))))
    assert not Turns((Turn(0, 1, 9, 1), Turn(1, 1, 9, 2))).same_as(Turns((Turn(0, 1, 9, 2), Turn(1, 1, 9, 1))))


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (turns(0, 64, 96), None),
        (turns(0, 64, 64), "session 0, turn 2: 96 cached tokens, and 64 in the other run"),
        (turns(16, 64, 96), "session 0, turn 0: 0 cached tokens, and 16 in the other run"),
        (turns(0, 64, 96, prompt=1001), "session 0, turn 0: 1,000 prompt tokens, and 1,001 in the other run"),
        (turns(0, 64), "session 0, turn 2: only one of the two runs has it"),
        (turns(0, 64, 96, 97), "session 0, turn 3: only one of the two runs has it"),
        (turns(0, 64, 96)[1:], "session 0, turn 0: only one of the two runs has it"),
        (
            turns(0, 64, None),
            "session 0, turn 2: the server reports no cached tokens there, so nothing can be said",
        ),
        ((), "there are no turns: nothing here was sent as a conversation"),
    ],
)
def test_the_first_difference_of_two_runs_is_named(other: tuple[Turn, ...], sentence: str | None) -> None:
    here = Turns(turns(0, 64, 96))
    check = here.same_as(Turns(other))
    assert bool(check) is (sentence is None)
    assert sentence is None or str(check) == sentence


# --- prediction by usage ---------------------------------------------------------------------------------------------


def test_a_turn_hits_the_prompt_before_it_and_at_most_its_answer_too() -> None:
    # blocks of 16: 100 -> 96; 100 + 40 - 1 = 139 -> 128; the last prompt begins with 300, and all of it is 304 - 1
    exchanges = [exchange(0, 0, 100, completion=40), exchange(0, 1, 300, completion=9), exchange(0, 2, 304)]
    found = by_usage(exchanges, Grain(16))
    assert (found.per_request, found.room) == ((0, 96, 288), (0, 32, 0))
    assert (found.hit_tokens, found.query_tokens, found.slack, found.block_size) == (384, 704, 32, 16)
    assert found.exact


def test_first_turns_of_later_sessions_may_find_anything() -> None:
    exchanges = [exchange(0, 0, 100, sent=2.0), exchange(1, 0, 120, sent=1.0), exchange(1, 1, 200, sent=3.0)]
    found = by_usage(exchanges, Grain(16), exact=False)
    assert (found.per_request, found.room, found.exact) == ((0, 0, 112), (96, 0, 0), False)  # 119 + 8 - 1 = 127 -> 112


def test_a_head_that_an_earlier_run_may_have_cached_is_room_of_the_earliest_first_turn() -> None:
    exchanges = [exchange(0, 0, 400, sent=1.0), exchange(1, 0, 40, sent=2.0)]

    def room(grain: Grain, **more: int) -> tuple[int, ...]:
        found = predict_by_usage(exchanges, grain, exact=True, **more)
        assert found is not None
        assert found.per_request == (0, 0)
        return found.room

    assert room(Grain(16), head=50) == (48, 32)
    assert room(Grain(16)) == (256, 32)  # as much as a template may put there
    assert room(Grain(128, minimum=1024)) == (0, 0)


def test_an_answer_of_unknown_length_leaves_everything_behind_the_prompt_open() -> None:
    found = by_usage([exchange(0, 0, 100, completion=None), exchange(0, 1, 300)], Grain(16))
    assert (found.per_request, found.room) == ((0, 96), (0, 192))


def test_hosted_caches_credit_nothing_below_their_minimum() -> None:
    grain = Grain(128, minimum=1024)
    exchanges = [exchange(0, 0, 1000, completion=60), exchange(0, 1, 1100, completion=1), exchange(0, 2, 2000)]
    found = by_usage(exchanges, grain)
    assert (found.per_request, found.room) == ((0, 0, 1024), (0, 1024, 0))  # 1,059 is enough with the answer


def test_failed_turns_are_in_no_sum_and_unknown_prompts_leave_no_prediction() -> None:
    cut = exchange(1, 0, 50, failure=Failure("cut", "no"))
    found = by_usage([exchange(0, 0, 100), failed(0, 1), cut], Grain(16))
    assert (found.per_request, found.room, found.query_tokens) == ((0, 0, 0), (0, 0, 0), 100)
    assert predict_by_usage([exchange(0, 0, None)], Grain(16), exact=True) is None
    assert predict_by_usage([exchange(None, None, 100)], Grain(16), exact=True) is None
