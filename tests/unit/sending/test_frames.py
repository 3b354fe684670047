"""Frames: what was told arrives whole and in order, however the socket cuts it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.sending.frames import Frame, Frames, framed

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary() | st.text()
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
FRAMES = st.lists(st.lists(VALUES, max_size=4).map(tuple), max_size=6)


def in_pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(edges)]


@given(FRAMES, st.lists(st.integers(0, 10_000), max_size=12))
def test_what_was_told_arrives(told: list[Frame], cuts: list[int]) -> None:
    frames, heard = Frames(), []
    for piece in in_pieces(b"".join(framed(*frame) for frame in told), cuts):
        heard += frames.feed(piece)
    assert heard == told


def test_byte_by_byte_each_frame_comes_with_its_last_byte() -> None:
    frames, told = Frames(), [("a", 1), (), ("b", b"x" * 300)]
    ends, at = {}, 0
    for frame in told:
        at += len(framed(*frame))
        ends[at] = frame
    data = b"".join(framed(*frame) for frame in told)
    for place in range(len(data)):
        wanted = [ends[place + 1]] if place + 1 in ends else []
        assert frames.feed(data[place : place + 1]) == wanted


def test_a_whole_frame_and_the_head_of_the_next() -> None:
    frames, first, second = Frames(), framed("first"), framed("second", "x" * 100_000)
    assert frames.feed(first + second[:3]) == [("first",)]
    assert frames.feed(second[3:10]) == []
    assert frames.feed(second[10:] + first) == [("second", "x" * 100_000), ("first",)]


@pytest.mark.parametrize("text", ["half \ud83d of a pair", "\0", "é", "\U0001f600"])
def test_every_text_that_json_may_carry(text: str) -> None:
    assert Frames().feed(framed(text)) == [(text,)]


@pytest.mark.parametrize("value", [object(), {"a": [object()]}])
def test_what_is_not_built_in_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="unmarshallable"):
        framed("call", value)
