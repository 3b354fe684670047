"""What was saved, summed over runs and tests and told in one line."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.figures import money
from pytest_kvcache.model import Tokens, Verdict
from pytest_kvcache.report.record import check_record
from pytest_kvcache.report.saved import line, line_of_test, of_session, saved, session_line, together
from pytest_kvcache.savings.saving import Saving

from .made import measured

D = Decimal
HOW = "how"


def record(tokens: int | None = 700, seconds: float | None = 1.5, amount: str | None = "0.0123", **more: Any) -> Any:
    told = {"prefill_s_from": HOW, "cost": "0.05", "currency": "USD", "price_from": "a list"}
    return {"prefill_tokens": tokens, "prefill_s": seconds, "money": amount, **told, **more}


def test_a_record_has_amounts_as_they_are() -> None:
    found = saved(Saving(7, 0.5, HOW, D("-1.50E-7"), D(100), "EUR", "a\x1blist"))
    assert found == {
        "prefill_tokens": 7,
        "prefill_s": 0.5,
        "prefill_s_from": HOW,
        "money": "-0.00000015",
        "cost": "100",
        "currency": "EUR",
        "price_from": "a\\x1blist",
    }
    assert saved(Saving())["money"] is None


def test_sums() -> None:
    assert together([record(), record(300, 0.5, "0.00000000000000000001", price_from="b")]) == record(
        1000, 2.0, "0.01230000000000000001", cost="0.1", price_from="a list; b"
    )
    assert together([]) is None
    assert together([None, None]) is None
    assert together([None, record()]) == record()


def test_who_cannot_tell_tokens_is_left_out_of_all_but_the_cost() -> None:
    inconclusive = record(None, None, None, cost="1", prefill_s_from="")
    assert together([record(), inconclusive]) == record(cost="1.05")
    assert together([inconclusive]) == record(None, None, None, cost="1", prefill_s_from="")


def test_a_part_is_not_told_as_the_whole() -> None:
    assert together([record(), record(seconds=None, prefill_s_from="b")])["prefill_s"] is None  # type: ignore[index]
    assert together([record(), record(amount=None)])["money"] is None  # type: ignore[index]
    assert together([record(), record(cost=None)])["cost"] is None  # type: ignore[index]


def test_two_currencies_make_no_sum() -> None:
    found = together([record(), record(currency="EUR")])
    assert found == record(1400, 3.0, None, cost=None, currency=None)


def test_runs_that_are_inconclusive_together() -> None:
    assert together([record(), record()], valid=False) == record(None, None, None, cost="0.1", prefill_s_from="")


def test_a_test_that_is_inconclusive_with_runs_that_are_not() -> None:
    run = measured({"0": Tokens(1000, {"local": 700})})
    passed = Verdict("pass", "", 0.7, 700, 1000, source="counters")
    for status, wanted in (("pass", 1400), ("fail", 1400), ("inconclusive", None)):
        found = check_record("t", replace(passed, status=status), [(run, passed)] * 2)  # type: ignore[arg-type]
        assert [single["saved"]["prefill_tokens"] for single in found["runs"]] == [700, 700]
        assert found["saved"]["prefill_tokens"] == wanted
    assert check_record("t", passed, [])["saved"] is None


def test_of_a_session() -> None:
    checks: list[Any] = [{"saved": record()}, {"saved": None}, {"saved": record(None, None, None)}, {}]
    assert of_session(checks) == record(cost="0.1") | {"tests": 1}
    assert of_session([]) is None
    assert of_session([{"saved": None}]) is None


amounts = st.decimals(-(10**6), 10**6, places=20)


@given(st.lists(st.tuples(st.integers(0, 1 << 50), amounts, amounts), min_size=1), st.integers(0, 100))
def test_sums_do_not_depend_on_how_tests_are_grouped(parts: list[tuple[int, Decimal, Decimal]], at: int) -> None:
    records = [record(tokens, None, str(amount), cost=str(cost)) for tokens, amount, cost in parts]
    whole = together(records)
    assert together([together(records[:at]), together(records[at:])]) == whole
    assert whole is not None
    assert Fraction(whole["money"]) == sum(Fraction(amount) for _, amount, _ in parts)


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        (None, ""),
        (record(), "saved 700 tokens of prefill (about 1500 ms of prefill work), $0.0123; what was sent cost $0.0500"),
        (record(cost=None), "saved 700 tokens of prefill (about 1500 ms of prefill work), $0.0123"),
        (record(14_400, None, None, cost=None, price_from=""), "saved 14,400 tokens of prefill"),
        (record(7, None, "0", cost="0"), "saved 7 tokens of prefill, $0.00; what was sent cost $0.00"),
        (
            record(7, None, None, cost=None, price_from="a list; a price is missing"),
            "saved 7 tokens of prefill (no money: a list; a price is missing)",
        ),
        (
            record(0, 0.0, "-0.00075", cost=None),
            "saved 0 tokens of prefill, -$0.00075 because writing to the cache cost more than reading saved",
        ),
        (record(0, 0.0, "0"), "what was sent cost $0.0500"),
        (record(None, None, None), "what was sent cost $0.0500"),
        (record(None, None, None, cost=None), ""),
    ],
)
def test_in_one_line(told: Any, wanted: str) -> None:
    assert line(told) == wanted


def test_a_test_whose_hit_tokens_are_all_that_is_known_has_no_line_of_its_own() -> None:
    bare = record(7, None, None, cost=None, price_from="")
    assert (line_of_test(bare), line_of_test(None)) == ("", "")
    assert line_of_test(record(7, 1.0, None, cost=None, price_from="")).startswith("saved 7")
    assert line_of_test(record(None, None, None)) == "what was sent cost $0.0500"
    assert (
        line_of_test(record(7, None, None, cost=None, price_from="why")) == "saved 7 tokens of prefill (no money: why)"
    )


def test_a_session_says_of_how_many_tests() -> None:
    told = record(amount=None, seconds=None, cost=None, price_from="")
    checks = [{"engine": {}}, {"engine": {}}, {"engine": None}]  # the last one measured nothing
    assert session_line(told | {"tests": 2}, checks) == "saved 700 tokens of prefill"
    more = [*checks, {"engine": {}}]
    assert session_line(told | {"tests": 2}, more) == "saved 700 tokens of prefill (2 of 3 tests)"
    assert session_line(None, []) == ""


@pytest.mark.parametrize(
    ("amount", "currency", "wanted"),
    [
        ("0", "USD", "$0.00"),
        ("0.0123", "USD", "$0.0123"),
        ("0.05", "USD", "$0.0500"),
        ("0.00001234", "USD", "$0.000012"),
        ("0.000000001", "USD", "$0.0000000010"),
        ("1", "USD", "$1.00"),
        ("-1234.567", "USD", "-$1,234.57"),
        ("0.5", "EUR", "EUR 0.5000"),
        ("-0.5", "CNY", "CNY -0.5000"),
    ],
)
def test_money_for_people(amount: str, currency: str, wanted: str) -> None:
    assert money(D(amount), currency) == wanted
