"""Ids of any writing as 64-bit integers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.traces.ids import as_ids

SIGNED = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(SIGNED))
def test_signed_integers_are_themselves(values: list[int]) -> None:
    assert list(as_ids(values)) == values


@given(st.lists(st.integers(0, 2**64 - 1), unique=True), st.booleans())
def test_unsigned_integers_keep_their_bits_also_as_text(values: list[int], text: bool) -> None:
    made = as_ids([str(value) if text else value for value in values])
    assert [value % 2**64 for value in made] == values


@given(st.lists(st.text() | st.integers(2**64, 2**80).map(str), unique=True))
def test_other_texts_are_told_apart(values: list[str]) -> None:
    made = as_ids(values)
    assert len(set(made)) == len(values)
    assert as_ids(values[::-1])[::-1] == made
    assert [as_ids([value])[0] for value in values] == list(made)


def test_digests_are_the_same_in_every_run() -> None:
    assert list(as_ids(["a3f", "007", "-1", 2**64, str(2**64), ""])) == [
        8083258433873624422,
        2636083598628110558,
        -1,
        8352153672826200736,
        8352153672826200736,
        8238016292129134938,
    ]


def test_numbers_that_are_written_otherwise_are_texts() -> None:
    assert list(as_ids(["7", 7])) == [7, 7]
    assert 7 not in as_ids(["07", "+7", " 7", "7.0", "٧"])


@pytest.mark.parametrize("values", [[1, True], [False], [1, 2.0], [None], [1, [2]], ["a", {}]])
def test_anything_else_is_refused_by_its_place(values: list[Any]) -> None:
    with pytest.raises(ValueError, match=f"id {len(values)} is neither a whole number nor a text"):
        as_ids(values)
