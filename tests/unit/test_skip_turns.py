"""Rates without the first turns of each conversation, by hand: two sessions of three turns.

::

    session    turn 0    turn 1     turn 2      cached / prompt
       0      0 / 100   96 / 200   192 / 300
       1     64 / 120  112 / 220   208 / 320

    all 672 / 1260; without turn 0: 608 / 1040; without turns 0 and 1: 400 / 620
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_kvcache.expected import ceiling_rate, predicted_rate, predicted_slack
from pytest_kvcache.judge import judge
from pytest_kvcache.model import Exchange, Expectation, Failure, Finding, Measurement, Prediction, ServerFacts, Tokens
from pytest_kvcache.rate import Rate, rate_of

FACTS = ServerFacts(engine="vllm", model="m", variant="v1-admission", version="0.32.0", block_size=16, caching=True)
CACHED = ((0, 100), (96, 200), (192, 300)), ((64, 120), (112, 220), (208, 320))


def exchange(session: int | None, turn: int | None, cached: int | None, prompt: int | None, **more: Any) -> Exchange:
    told = {"prompt_tokens": prompt, "cached_tokens": cached, "sent": 0.0, "session": session, "turn": turn, **more}
    return Exchange(phase="load", queued=0.0, end=1.0, **told)


EXCHANGES = tuple(exchange(s, t, *numbers) for s, turns in enumerate(CACHED) for t, numbers in enumerate(turns))
HITS = tuple(e.cached_tokens or 0 for e in EXCHANGES)


def measured(**more: Any) -> Measurement:
    seen: dict[str, Any] = {
        "engines": {"0": Tokens(1260, {"local": 672}, 1260)},
        "exchanges": EXCHANGES,
        "prediction": Prediction(672, 1260, HITS, 16),
    }
    return Measurement(title="t", facts=FACTS, **{**seen, **more})


def rate(m: Measurement, **asked: Any) -> tuple[int, int, str]:
    found = rate_of(Expectation(**asked), [m])
    assert isinstance(found, Rate), found
    return found.hit, found.query, found.source


def problem(m: Measurement, **asked: Any) -> str:
    found = rate_of(Expectation(**asked), [m])
    assert isinstance(found, Finding), found
    return f"{found.code} {found.sentence}"


@pytest.mark.parametrize("source", ["counters", "usage"])
@pytest.mark.parametrize(("skip", "hit", "query"), [(0, 672, 1260), (1, 608, 1040), (2, 400, 620), (3, 0, 0)])
def test_both_sums_leave_the_turns_out(source: Any, skip: int, hit: int, query: int) -> None:
    assert rate(measured(), source=source, skip_turns=skip) == (hit, query, source)
    for forecast in (predicted_rate, ceiling_rate):
        expected = hit / query if query else None
        assert forecast(Expectation(source=source, skip_turns=skip), [measured()]) == expected


def test_only_counters_see_what_others_sent_so_only_its_own_turns_are_taken_off() -> None:
    m = measured(engines={"0": Tokens(1300, {"local": 680}, 1300)})
    assert rate(m, skip_turns=1) == (616, 1080, "counters")


def test_nothing_left_is_no_rate() -> None:
    verdict = judge(Expectation(min=0.1, skip_turns=3), [measured()])
    assert (verdict.status, verdict.hit_rate) == ("inconclusive", None)
    assert "0 of 0" in verdict.sentence


def test_the_verdict_is_that_of_the_kept_turns() -> None:
    verdict = judge(Expectation(tol=0.0, skip_turns=1), [measured()])
    assert (verdict.status, verdict.hit_tokens, verdict.query_tokens) == ("pass", 608, 1040)
    assert verdict.predicted == verdict.ceiling == 608 / 1040
    assert verdict.warm == 608 / 1040


def test_with_warm_a_request_is_taken_off_once() -> None:
    # warm leaves out the cold turn 0 of session 0; skipping leaves out both turns 0
    assert rate(measured(), requests="warm") == (672, 1160, "counters")
    assert rate(measured(), requests="warm", skip_turns=1) == (608, 1040, "counters")
    asked = Expectation(requests="warm", skip_turns=1)
    assert ceiling_rate(asked, [measured()]) == 608 / 1040


def test_what_may_have_been_warm_is_not_cold() -> None:
    loose = Prediction(608, 1260, (0, 96, 192, 0, 112, 208), 16, slack=112, room=(0, 0, 0, 112, 0, 0))
    assert rate(measured(prediction=loose), requests="warm") == (672, 1160, "counters")


def test_requests_by_number() -> None:
    assert rate(measured(), weight="request") == (5, 6, "usage")
    assert rate(measured(), weight="request", skip_turns=1) == (4, 4, "usage")
    assert ceiling_rate(Expectation(weight="request"), [measured()]) == 5 / 6
    assert ceiling_rate(Expectation(weight="request", skip_turns=1), [measured()]) == 1.0
    loose = measured(prediction=Prediction(608, 1260, (0, *HITS[1:]), 16, slack=64))
    assert ceiling_rate(Expectation(weight="request"), [loose]) is None


def test_requests_outside_of_conversations_stay() -> None:
    other = (*EXCHANGES, exchange(None, None, 10, 50))
    m = measured(exchanges=other, engines={"0": Tokens(1310, {"local": 682}, 1310)}, prediction=None)
    assert rate(m, skip_turns=1) == (618, 1090, "counters")
    assert rate(m, skip_turns=1, source="usage") == (618, 1090, "usage")
    assert ceiling_rate(Expectation(skip_turns=1), [m]) is None


def test_without_any_conversation_skipping_is_a_mistake() -> None:
    m = measured(exchanges=(exchange(None, None, 10, 50),))
    assert problem(m, skip_turns=1) == "KV115 skip_turns=1: nothing here was sent as a conversation"
    assert problem(measured(exchanges=(), own_traffic=False), skip_turns=2).startswith("KV115")
    assert problem(m, skip_turns=1, weight="request").startswith("KV115")


def test_a_tier_is_not_told_of_the_turns_left_out() -> None:
    assert problem(measured(), skip_turns=1, tier="local").startswith("KV115 skip_turns=1 needs tier='total'")


def test_counters_need_the_usage_of_the_turns_left_out_and_usage_does_not() -> None:
    first = replace(EXCHANGES[0], cached_tokens=None)
    m = measured(exchanges=(first, *EXCHANGES[1:]))
    assert problem(m, skip_turns=1).startswith("KV111 a rate over some of the requests needs cached_tokens")
    assert rate(m, skip_turns=1, source="usage") == (608, 1040, "usage")
    second = replace(EXCHANGES[1], cached_tokens=None)
    m = measured(exchanges=(EXCHANGES[0], second, *EXCHANGES[2:]))
    assert problem(m, skip_turns=1, source="usage").startswith("KV111 only 3 of 4 replies report cached_tokens")
    assert rate(m, skip_turns=1) == (608, 1040, "counters")


def test_failed_first_turns_take_nothing_off_and_leave_the_rate_open() -> None:
    broken = exchange(2, 0, None, None, failure=Failure("cut", "no"), prompt_len=130)
    prediction = Prediction(672, 1260, (*HITS, 0), 16)
    m = measured(exchanges=(*EXCHANGES, broken), prediction=prediction)
    assert rate(m, skip_turns=1) == (608, 1040, "counters")


def test_a_prompt_that_was_looked_up_more_or_less_often_is_taken_off_as_often() -> None:
    odd = (replace(EXCHANGES[0], lookups=2), replace(EXCHANGES[3], lookups=0, cached_tokens=0), *EXCHANGES[1:3])
    m = measured(exchanges=odd, engines={"0": Tokens(700, {"local": 288}, 700)}, prediction=None)
    assert rate(m, skip_turns=1) == (288, 500, "counters")


def test_the_room_of_a_prediction_is_that_of_the_kept_turns() -> None:
    room = (0, 16, 16, 96, 0, 32)
    m = measured(prediction=Prediction(500, 1260, (0, 80, 176, 0, 100, 144), 16, slack=160, room=room))
    assert predicted_slack(Expectation(), [m]) == 160 / 1260
    assert predicted_slack(Expectation(skip_turns=1), [m]) == 64 / 1040
    assert predicted_rate(Expectation(skip_turns=1), [m]) == 500 / 1040
    total_only = measured(prediction=replace(m.prediction, room=()) if m.prediction else None)
    assert predicted_slack(Expectation(skip_turns=1), [total_only]) == 160 / 1040
    assert predicted_slack(Expectation(), [measured(), measured(prediction=None)]) == 0.0


@pytest.mark.parametrize(
    ("last", "status"), [(176, "inconclusive"), (191, "inconclusive"), (192, "pass"), (224, "pass"), (225, "fail")]
)
def test_a_prediction_with_room_is_an_interval(last: int, status: str) -> None:
    # 400 of 620 are cached in the last turns; predicted are 176 + last, and up to 32 more: 368 + 32, and 400 + 0
    m = measured(prediction=Prediction(0, 1260, (0, 0, 176, 0, 0, last), 16, slack=64, room=(0, 32, 0, 0, 0, 32)))
    assert judge(Expectation(tol=0.0, skip_turns=2), [m]).status == status
