"""Traces from traces."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.errors import TraceError
from pytest_kvcache.traces import Trace, open_trace
from pytest_kvcache.traces import trace as module

from .files import DATA, jsonl, mooncake, row


@pytest.fixture(scope="module")
def conversation() -> Trace:
    return open_trace(DATA / "mooncake_conversation_trace.jsonl.gz", block_size=512, ids="prefix")


def lines(trace: Trace) -> list[int]:
    return [row.line for row in trace]


# --- first -----------------------------------------------------------------------------------------------------------


def test_the_first_rows_say_what_they_are_and_at_which_rate(conversation: Trace) -> None:
    first = conversation.first(1_000)
    assert list(first) == list(open_trace(DATA / "mooncake_conversation_first1000.jsonl", block_size=512))
    assert first.name == "first 1,000 of mooncake_conversation_trace.jsonl.gz (3.03 requests/s)"  # in 330 s
    assert str(first) == (
        "first 1,000 of mooncake_conversation_trace.jsonl.gz: 1,000 requests, 13,732,944 input tokens, span 330 s"
        " (3.03 requests/s), block size 512"
    )
    assert (first.format, first.block_size, first.ids, first.span) == ("mooncake", 512, "prefix", 330.0)
    assert first.files == conversation.files == (DATA / "mooncake_conversation_trace.jsonl.gz",)


def test_more_rows_than_there_are_is_all_of_them() -> None:
    trace = Trace.of([row(1, 5), row(2, 5)], block_size=None)
    assert lines(trace.first(2)) == lines(trace.first(9)) == [1, 2]
    assert trace.first(9).name == "first 2 of rows"


@pytest.mark.parametrize("count", [0, -1, True, 2.0, "3"])
def test_a_number_of_rows_that_is_none(count: Any) -> None:
    with pytest.raises(TraceError, match=r"first\(.*\): expected a whole number of at least 1"):
        Trace.of([row(1, 5)], block_size=None).first(count)


def test_a_part_of_a_part_names_both() -> None:
    trace = Trace.of([row(at, 5, time=at) for at in range(6)], block_size=None)
    assert trace.first(5).first(3).name == "first 3 of first 5 of rows (1.5 requests/s)"


# --- between ---------------------------------------------------------------------------------------------------------


def test_a_while_begins_with_the_trace_and_its_end_is_outside() -> None:
    trace = Trace.of([row(at, 5, time=1_000 + at) for at in (3, 1, 2, 0, 4)], block_size=None)
    assert lines(trace.between(1, 3)) == [1, 2]
    assert lines(trace.between(0, 100)) == [3, 1, 2, 0, 4]
    assert trace.between(1, 3).name == "1 s to 3 s of rows (2 requests/s)"
    assert lines(trace.between(1, 4).between(1, 2)) == [2]  # from the beginning of the part


def test_a_while_that_is_none_or_empty() -> None:
    trace = Trace.of([row(at, 5, time=at) for at in range(3)], block_size=None)
    for start, end in ((2, 2), (3, 2), (0, float("nan")), ("0", "1"), (None, 1)):
        with pytest.raises(TraceError, match=r"between\(.*\): expected seconds, the second after the first"):
            trace.between(start, end)  # type: ignore[arg-type] # as users do
    with pytest.raises(TraceError, match="7 s to 9 s of rows: it holds no requests"):
        trace.between(7, 9)
    with pytest.raises(TraceError, match=r"rows: between\(\) needs the time of every row, and 1 of 2 have none"):
        Trace.of([row(1, 5, time=None), row(2, 5)], block_size=None).between(0, 1)
    with pytest.raises(TraceError, match="and 1 of 1 have none"):
        Trace.of([row(1, 5, time=None)], block_size=None).between(0, 1)


# --- sampled ---------------------------------------------------------------------------------------------------------


def sessions(count: int) -> Trace:
    rows = [row(turn * count + at, 16, at, time=turn, session=f"s{at}") for turn in range(3) for at in range(count)]
    return Trace.of(rows, block_size=16)


def test_sessions_are_drawn_whole_and_by_their_names() -> None:
    trace = sessions(400)
    some = trace.sampled(0.25)
    drawn = {item.session for item in some}
    assert len(some) == 3 * len(drawn)
    assert 70 <= len(drawn) <= 130  # of 400 a quarter, within 3.5 standard deviations
    reverse = Trace.of(list(trace)[::-1], block_size=16).sampled(0.25)
    assert {item.session for item in reverse} == drawn
    assert drawn < {item.session for item in trace.sampled(0.5)}
    assert {item.session for item in trace.sampled(0.25, seed=1)} != drawn
    rate = len(some) / 2
    assert some.name == f"0.25 of the sessions (seed 0) of rows ({rate:.0f} requests/s)"
    assert lines(trace.sampled(1)) == lines(trace)


def test_rows_without_a_session_are_drawn_one_by_one() -> None:
    rows = [row(at, 16, 1, time=at) for at in range(1_000)]
    some = Trace.of(rows, block_size=16).sampled(0.3)
    assert 250 <= len(some) <= 350
    scopes = [row(5, 16, 1, time=1.0, scope=scope) for scope in range(1_000)]  # lines of many files
    assert 250 <= len(Trace.of(scopes, block_size=16).sampled(0.3)) <= 350


@pytest.mark.parametrize("share", [0, -1, 1.1, True, "0.5", float("nan")])
def test_a_share_that_is_none(share: Any) -> None:
    with pytest.raises(TraceError, match=r"sampled\(.*\): expected a share above 0, up to 1"):
        sessions(3).sampled(share)


# --- scaled ----------------------------------------------------------------------------------------------------------


def test_blocks_keep_their_identity_and_get_another_size() -> None:
    trace = Trace.of(
        [
            row(1, 1_024, 1, 2, output_length=512, cached=1_024),
            row(2, 1_300, 1, 2, 3, output_length=1, cached=512),
            row(3, 1_025, 1, 2, 4, output_length=0),
            row(4, 1_300, 1, 2, session="s", delay=2.5),
            row(5, 5_000),
        ],
        block_size=512,
        name="t",
    )
    scaled = trace.scaled(16)
    assert [(item.input_length, list(item.ids), item.output_length, item.cached) for item in scaled] == [
        (32, [1, 2], 16, 32),
        (40, [1, 2, 3], 1, 16),  # 276 of 512 are 8.6 of 16
        (33, [1, 2, 4], 0, None),  # 1 of 512, and no less than 1
        (40, [1, 2], None, None),  # 276 uncovered tokens
        (156, [], None, None),
    ]
    assert scaled.block_size == 16
    assert (list(scaled)[3].session, list(scaled)[3].delay) == ("s", 2.5)
    assert scaled.name.startswith("scaled from 512 to 16 tokens a block: t")
    assert [note.reason for note in scaled.notes] == [note.reason for note in trace.notes]


def test_weights_are_scaled_each() -> None:
    rows = [row(1, 100, 1, 2, 3, weights=array("q", [64, 20, 1]), block_size=64)]
    (made,) = Trace.of(rows, block_size=None).scaled(16)
    assert (list(made.weights or ()), made.input_length, made.block_size) == ([16, 5, 1], 22 + 3, 16)


ROWS = st.lists(
    st.tuples(st.integers(1, 300), st.sampled_from(["ceil", "floor", "none", "weights"]), st.integers(0, 3)),
    min_size=1,
    max_size=12,
)


@given(rows=ROWS, size=st.integers(1, 40), to=st.integers(1, 40))
def test_a_scaled_trace_fits_its_block_size_and_hits_the_same_blocks(
    rows: list[tuple[int, str, int]], size: int, to: int
) -> None:
    made = []
    for at, (length, style, first) in enumerate(rows, 1):
        count = {"ceil": -(-length // size), "floor": length // size, "none": 0, "weights": -(-length // size)}[style]
        weights = None
        if style == "weights":
            weights = array("q", [max(1, min(size, length - place * size) - place % 2) for place in range(count)])
            length = sum(weights)
        made.append(row(at, length, *range(first, first + count), weights=weights, output_length=length))
    trace = Trace.of(made, block_size=size)
    scaled = trace.scaled(to)  # and each row fits, or it would be refused
    for old, new in zip(trace, scaled, strict=True):
        assert new.ids == old.ids
        full = sum(weight == size for weight in old.weights) if old.weights else old.input_length // size
        assert new.input_length >= full * to
        if old.input_length % size == 0 and not old.weights:
            assert new.input_length == old.input_length // size * to
    found = scaled.simulate() if scaled.block_events else None
    if found is not None:
        assert found.hit_tokens + found.miss_tokens + found.uncovered_tokens == found.input_tokens
        before = trace.simulate()
        assert [bool(hit) for hit in found.per_request] == [bool(hit) for hit in before.per_request]


def test_a_whole_trace_scaled_to_blocks_of_16_shares_as_before(conversation: Trace) -> None:
    small = conversation.scaled(16)
    assert (small.block_events, small.max_blocks, small.span) == (288_500, 247, conversation.span)
    assert small.sweep(rules="engine").ceiling_tokens * 32 == 54_063_104


def test_without_a_block_size_there_is_nothing_to_scale_by() -> None:
    trace = Trace.of([row(1, 5)], block_size=None)
    with pytest.raises(
        TraceError, match="rows: it has no block size to be scaled from; give block_size= with the trace"
    ):
        trace.scaled(16)
    with pytest.raises(TraceError, match=r"scaled\(0\): expected a whole number of at least 1"):
        trace.scaled(0)


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_notes_of_the_file_stay_and_those_of_rows_are_counted_anew(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "t.jsonl",
        *(mooncake(0), mooncake(20, 1, time=5), mooncake(20, 1, time=3, output=0), mooncake(20, 1, time=6), "{"),
    )
    trace = open_trace(path, block_size=16, strict=False, order="time")
    counted = {note.reason: (note.count, note.line) for note in trace.notes}
    assert counted == {
        "zero_input": (1, 1),
        "uncovered": (3, 2),
        "time_backwards": (1, 3),
        "zero_output": (1, 3),
        "no_json": (1, 5),
    }
    part = trace.first(2)
    assert part.order == "time"
    assert lines(part) == [3, 2]
    assert {note.reason: (note.count, note.line) for note in part.notes} == {
        "zero_input": (1, 1),
        "no_json": (1, 5),
        "uncovered": (2, 3),
        "zero_output": (1, 3),
    }


def test_parts_of_a_trace_that_is_not_kept_are_read_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_KEPT", 0)
    path = jsonl(tmp_path / "t.jsonl", *(mooncake(16, at, time=at * 1_000) for at in range(9)))
    part = open_trace(path, block_size=16).between(2, 8).first(4).scaled(4)
    assert [(item.line, item.input_length) for item in part] == [(at, 4) for at in (3, 4, 5, 6)]
    assert lines(part) == [3, 4, 5, 6]


def test_bytes_of_a_token_are_those_of_the_whole() -> None:
    trace = Trace.of([row(1, 16, 1), row(2, 16, 1)], block_size=16, bytes_per_token=2**20)
    assert trace.first(2).scaled(8).bytes_per_token == 2**20
