"""What a ledger keeps of exchanges: all but stamps and what is too long, in the order of their places."""

from __future__ import annotations

import tracemalloc
from array import array
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.ledger import Exchanges, Ledger
from pytest_kvcache.model import Exchange, Failure

STAMPS = st.none() | st.floats(0, 1e9)
COUNTS = st.none() | st.integers(0, 1 << 40)
FAILED = Exchange("load", 0.0, 1.0, failure=Failure("http", "HTTP 429", 1.5), status=429)
ANY: dict[str, st.SearchStrategy[Any]] = {
    "queued": st.floats(0, 1e9),
    "end": st.floats(0, 1e9),
    **dict.fromkeys(("scheduled", "sent", "first_content", "last_content"), STAMPS),
    **dict.fromkeys(
        ("prompt_len", "prompt_tokens", "cached_tokens", "completion_tokens", "written_tokens", "session", "turn"),
        COUNTS,
    ),
    "lookups": st.integers(0, 8),
    "status": st.none() | st.integers(100, 599),
    "partial": st.booleans(),
    "finish_reason": st.sampled_from([None, "length", "stop"]),
    "failure": st.sampled_from([None, FAILED.failure]),
    "text": st.text(max_size=5),
    "reasoning": st.text(max_size=5),
    "tool_calls": st.sampled_from([(), ({"id": "1"},)]),
    "prompt_ids": st.sampled_from([None, array("I", [1, 2])]),
    "output_ids": st.sampled_from([None, array("I", [3])]),
    "earlier": st.sampled_from([(), (FAILED,)]),
}


def test_every_field_is_drawn() -> None:
    assert {field.name for field in fields(Exchange)} == {*ANY, "phase", "chunks"}


@given(st.lists(st.fixed_dictionaries(ANY), max_size=8), st.randoms())
def test_exchanges_come_back_as_they_were_in_the_order_of_their_places(told: list[dict[str, Any]], order: Any) -> None:
    made = [Exchange("prefill", **one) for one in told]
    places = [(at // 3, at % 3) for at in range(len(made))]
    ledger, ended = Ledger("prefill"), list(range(len(made)))
    order.shuffle(ended)
    for at in ended:
        ledger[places[at]] = made[at]
    assert list(ledger.exchanges) == made
    assert (len(ledger), len(ledger.exchanges)) == (len(made), len(made))
    for at in range(-len(made), len(made)):
        assert ledger.exchanges[at] == made[at]
    assert ledger.exchanges[1:5:2] == made[1:5:2]


def test_exchanges_are_ordered_anew_when_there_are_more() -> None:
    ledger = Ledger()
    assert list(ledger.exchanges) == []
    ledger[1, 0] = Exchange("load", 1.0, 2.0)
    seen = ledger.exchanges
    assert ledger.exchanges is seen
    ledger[0, 0] = Exchange("load", 0.0, 3.0)
    assert [e.queued for e in ledger.exchanges] == [0.0, 1.0]
    assert [e.queued for e in seen] == [1.0]


def test_a_place_that_is_not_there_is_an_error() -> None:
    with pytest.raises(IndexError):
        Ledger().exchanges[0]
    assert list(Exchanges("load")) == []


def test_stamps_become_gaps_and_tokens_over_time() -> None:
    ledger = Ledger()
    whole = Exchange("load", 0.0, 3.0, sent=0.0, completion_tokens=8, chunks=array("d", [1.0, 1.0, 1.5, 2.000001]))
    ledger[0, 0] = whole
    ledger[1, 0] = replace(whole, failure=Failure("cut", "x"), chunks=array("d", [1.0, 9.0]))  # its gaps are no ITL
    assert [ledger.gaps.ranked(at) for at in range(len(ledger.gaps))] == [0.0, 0.5, 0.500001]
    assert ledger.produced.between(0.0, 1.2) == 4 + 1  # two of four chunks of 8 tokens, and a chunk of the broken one
    assert ledger.produced.between(0.0, 10.0) == 8 + 2
    assert [e.chunks for e in ledger.exchanges] == [(), ()]


def test_texts_are_kept_up_to_a_bound() -> None:
    ledger = Ledger()
    for at in range(3):
        ledger[at, 0] = Exchange("load", 0.0, 1.0, text="x" * (3 << 20), reasoning="because")
    assert [len(e.text) for e in ledger.exchanges] == [3 << 20, 3 << 20, 0]
    assert [e.reasoning for e in ledger.exchanges] == ["because", "because", ""]


def test_a_request_takes_little_memory_however_long_its_answer_is() -> None:
    ledger = Ledger()
    tracemalloc.start()
    for at in range(3_000):
        stamps = array("d", [at / 100 + token / 100 for token in range(100)])
        ledger[at, 0] = Exchange(
            "load",
            at / 100,
            at / 100 + 2,
            None,
            at / 100,
            stamps[0],
            stamps[-1],
            stamps,
            500,
            500,
            256,
            100,
            status=200,
        )
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held / 3_000 < 250  # bytes; the stamps alone would be 800
