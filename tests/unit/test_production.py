"""Tokens over time: what came out between two moments, whoever began before or ended after."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.model import Exchange, Failure
from pytest_kvcache.production import BIN, Production

MOMENTS = st.floats(0, 10)


def made(*chunks: float, tokens: int | None = None, failure: Failure | None = None, end: float = 20.0) -> Production:
    produced = Production()
    exchange = Exchange("load", 0.0, end, chunks=chunks, completion_tokens=tokens, failure=failure)
    produced.add(exchange, Counter(chunks))
    return produced


def test_a_chunk_carries_its_share_of_the_tokens() -> None:
    produced = made(1.005, 2.005, 3.005, tokens=9)
    assert produced.between(0.0, 2.5) == 6
    assert produced.between(1.5, 2.5) == 3


def test_an_answer_that_came_at_once_is_counted_at_its_end() -> None:
    assert made(tokens=7, end=4.005).between(4.0, 4.5) == 7
    assert not made(tokens=None)
    assert not made(tokens=0)


def test_chunks_of_a_broken_or_untold_answer_are_tokens() -> None:
    assert made(1.0, 2.0, tokens=None).between(0, 5) == 2
    assert made(1.0, 2.0, tokens=64, failure=Failure("cut", "x")).between(0, 5) == 2


def test_a_bin_counts_by_the_part_that_lies_inside() -> None:
    produced = made(1.0, tokens=4)
    assert produced.between(1.0 + BIN / 4, 2.0) == pytest.approx(3)
    assert produced.between(0.0, 1.0 + BIN / 4) == pytest.approx(1)
    assert produced.between(1.0, 1.0) == 0.0
    assert produced.between(2.0, 1.0) == 0.0


@given(st.lists(MOMENTS, min_size=1, max_size=30), MOMENTS, MOMENTS, MOMENTS)
def test_parts_add_up_to_the_whole(chunks: list[float], a: float, b: float, c: float) -> None:
    produced, (first, middle, last) = made(*chunks, tokens=len(chunks)), sorted((a, b, c))
    whole = produced.between(first, last)
    assert produced.between(first, middle) + produced.between(middle, last) == pytest.approx(whole, abs=1e-6)
    assert produced.between(0, 10 + BIN) == pytest.approx(len(chunks))
    inside = sum(first + BIN <= chunk <= last - BIN for chunk in chunks)
    touching = sum(first - BIN <= chunk <= last + BIN for chunk in chunks)
    assert inside - 1e-6 <= whole <= touching + 1e-6
