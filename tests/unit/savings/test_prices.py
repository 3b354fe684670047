"""What tokens come to, by hand and exactly."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.savings.prices import Billed, PriceList, Prices, Rates, Tier, plain, total

D = Decimal
GPT = Rates(D("2.50"), D("1.25"), None, D("10.00"))
CLAUDE = Rates(D(3), D("0.30"), D("3.75"), D(15))

prices = st.decimals(0, 10_000, places=12)
tokens = st.integers(0, 1 << 50)


def test_hit_tokens_cost_the_difference_less() -> None:
    # 14,400 x (2.50 - 1.25) / 1,000,000
    assert GPT.saved(Billed(cached=14_400)) == D("0.018")


def test_writing_costs_more_and_may_cost_all() -> None:
    # 1,000 x (3 - 0.30) = 2,700; 1,000 x (3.75 - 3) = 750, in millionths
    assert CLAUDE.saved(Billed(cached=1000, written=1000)) == D("0.00195")
    assert CLAUDE.saved(Billed(written=1000)) == D("-0.00075")


def test_without_a_price_of_its_own_a_written_token_is_an_input_token() -> None:
    assert GPT.saved(Billed(cached=0, written=1000)) == 0
    assert GPT.cost(Billed(prompt=1000, written=1000)) == D("0.0025")


def test_cost_of_what_was_sent() -> None:
    # 500 computed x 3 + 400 cached x 0.30 + 100 written x 3.75 + 20 out x 15 = 1500 + 120 + 375 + 300
    assert CLAUDE.cost(Billed(prompt=1000, cached=400, written=100, output=20)) == D("0.002295")


def test_what_is_not_told_is_not_nothing() -> None:
    bare = Rates(input=D(1))
    assert bare.saved(Billed(cached=1)) is None
    assert bare.saved(Billed(cached=0)) == 0
    assert bare.cost(Billed(prompt=10)) == D("0.00001")
    assert bare.cost(Billed(prompt=10, output=1)) is None
    assert bare.cost(Billed(prompt=10, cached=1)) is None
    assert Rates().saved(Billed()) is None
    assert Rates().cost(Billed(prompt=1)) is None
    assert Rates(output=D(1)).saved(Billed(cached=1)) is None


def test_more_read_and_written_than_there_is_has_no_cost() -> None:
    assert CLAUDE.cost(Billed(prompt=10, cached=6, written=5)) is None


def test_a_free_model_costs_nothing_and_saves_nothing() -> None:
    free = Rates(D(0), D(0), D(0), D(0))
    assert plain(free.saved(Billed(cached=5, written=5)) or D(1)) == "1"  # 0, which is not None
    assert free.saved(Billed(cached=5, written=5)) == 0
    assert free.cost(Billed(10, 5, 5, 5)) == 0


def test_no_zero_is_below_zero() -> None:
    dearer = Rates(D(1), D(2), D(3), D(1)).saved(Billed(cached=0, written=0))
    assert dearer is not None
    assert plain(dearer) == "0"


@given(st.tuples(prices, prices, prices, prices), st.lists(st.tuples(tokens, tokens, tokens, tokens), max_size=8))
def test_amounts_add_up_over_runs_and_are_exact(
    told: tuple[Decimal, ...], counts: list[tuple[int, int, int, int]]
) -> None:
    rates = Rates(*told)
    runs = [Billed(computed + cached + written, cached, written, out) for computed, cached, written, out in counts]
    whole = sum(runs, Billed())
    for what in (rates.saved, rates.cost):
        parts = [amount for amount in map(what, runs) if amount is not None]
        assert len(parts) == len(runs)
        assert total(parts) == what(whole)
    input_, cached_, write_, _ = map(Fraction, told)
    wanted = sum(cached * (input_ - cached_) - written * (write_ - input_) for _, cached, written, _ in counts)
    assert Fraction(rates.saved(whole) or 0) == wanted / 1_000_000


@given(st.decimals(-(10**9), 10**9, places=20))
def test_an_amount_keeps_its_digits(amount: Decimal) -> None:
    assert D(plain(amount)) == amount
    assert "E" not in plain(amount)


def test_the_longest_tier_that_is_reached_holds() -> None:
    short, long, longer = (Rates(D(n)) for n in (1, 2, 3))
    found = Prices(short, (Tier(200, long), Tier(1000, longer)))
    at = {prompt: found.at(prompt).input for prompt in (0, 199, 200, 201, 1000, 1001, 10**9)}
    assert at == {0: 1, 199: 1, 200: 1, 201: 2, 1000: 2, 1001: 3, 10**9: 3}


def test_a_tier_has_the_other_prices_of_what_it_is_over() -> None:
    assert Rates(output=D(9)).over(CLAUDE) == Rates(D(3), D("0.30"), D("3.75"), D(9))


@pytest.mark.parametrize(("model", "origin"), [("a/b-1", "a"), ("a/c", "b"), ("z", "c"), ("A/b", "c")])
def test_the_first_pattern_that_fits_counts(model: str, origin: str) -> None:
    known = PriceList((("a/b*", Prices(origin="a")), ("a/*", Prices(origin="b")), ("*", Prices(origin="c"))))
    found = known.of(model)
    assert found is not None
    assert found.origin == origin
    assert PriceList(known.models[:2]).of("z") is None
