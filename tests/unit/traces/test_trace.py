"""Traces as tests hold them."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_kvcache.capacity.rules import Rules
from pytest_kvcache.errors import TraceError
from pytest_kvcache.rows import Row
from pytest_kvcache.traces import Trace, open_trace
from pytest_kvcache.traces import trace as module

from .files import DATA, jsonl, mooncake, row

CONVERSATION = "mooncake_conversation_trace.jsonl.gz"
SHAPES = [
    # file, block size, requests, input tokens, block events, most blocks of one request, uncovered tokens
    (CONVERSATION, 512, 12_031, 144_793_823, 288_500, 247, 0),
    ("mooncake_synthetic_trace.jsonl", 512, 3_993, 61_194_628, 121_877, 374, 0),
    ("agentic_8_sessions_block64.jsonl.gz", None, 163, 9_271_735, 144_791, 2_035, 5_111),
    ("agentic", None, 163, 9_271_735, 144_791, 2_035, 5_111),
    ("aiperf_precise_schedule.jsonl", 512, 8, 2_800, 10, 2, 0),
]


@pytest.mark.parametrize(("file", "size", *["requests", "tokens", "events", "most", "uncovered"]), SHAPES)
def test_the_shape_of_a_trace(
    file: str, size: int | None, requests: int, tokens: int, events: int, most: int, uncovered: int
) -> None:
    trace = open_trace(DATA / file, block_size=size)
    assert (len(trace), trace.input_tokens, trace.block_events) == (requests, tokens, events)
    assert (trace.max_blocks, trace.uncovered_tokens) == (most, uncovered)
    rows = list(trace)
    assert len(rows) == requests
    assert sum(row.input_length for row in rows) == tokens
    assert sum(len(row.ids) for row in rows) == events


def test_a_file_is_the_same_plain_and_packed(tmp_path: Path) -> None:
    plain = DATA / "mooncake_conversation_first1000.jsonl"
    packed = open_trace(DATA / CONVERSATION, block_size=512)
    assert list(open_trace(plain, block_size=512)) == list(packed)[:1000]


@pytest.mark.parametrize(
    ("file", "size", "said"),
    [
        (CONVERSATION, 512, "12,031 requests, 144,793,823 input tokens, span 3537 s (3.4 requests/s), block size 512"),
        (
            "azure_llm_2023_code.csv",
            None,
            "2,000 requests, 3,973,157 input tokens, span 853 s (2.34 requests/s), no block ids",
        ),
        (
            "aiperf_precise_schedule.jsonl",
            512,
            "8 requests, 2,800 input tokens, span 5 s (1.6 requests/s), block size 512",
        ),
    ],
)
def test_a_trace_says_what_it_is(file: str, size: int | None, said: str) -> None:
    trace = open_trace(DATA / file, block_size=size)
    assert str(trace) == f"{file}: {said}"
    assert repr(trace) == f"<Trace {file}: {said}>"
    assert trace.name == file


def test_times_and_outputs_that_are_not_told_are_none(tmp_path: Path) -> None:
    trace = open_trace(jsonl(tmp_path / "t.jsonl", {"block_size": 4, "hash_ids": [1], "input_length": 4}))
    assert (trace.span, trace.request_rate, trace.output_tokens, trace.recorded_hit_rate) == (None, None, None, None)
    assert str(trace) == "t.jsonl: 1 request, 4 input tokens, no times, block size 4"
    at_once = open_trace(jsonl(tmp_path / "u.jsonl", mooncake(4, 1), mooncake(4, 2, output=0)), block_size=4)
    assert (at_once.span, at_once.request_rate, at_once.output_tokens) == (0.0, None, 1)
    assert str(at_once) == "u.jsonl: 2 requests, 8 input tokens, span 0 s, block size 4"


def test_rows_without_a_time_make_no_rate(tmp_path: Path) -> None:
    turns = [{"input_length": 4, **when} for when in ({"timestamp": 0}, {"delay": 50_000}, {"timestamp": 2_000})]
    trace = open_trace(jsonl(tmp_path / "t.jsonl", *turns))
    assert (trace.span, trace.request_rate) == (2.0, None)
    assert str(trace) == "t.jsonl: 3 requests, 12 input tokens, span 2 s, no block ids"


def test_the_recorded_hit_rate_is_that_of_the_rows_that_tell() -> None:
    rows = [row(1, 100, cached=50), row(2, 700), row(3, 100, cached=0)]
    assert Trace.of(rows, block_size=None).recorded_hit_rate == 0.25
    with pytest.raises(TraceError, match="rows, line 2: 101 cached tokens of 100 input tokens"):
        Trace.of([row(1, 100, cached=50), row(2, 100, cached=101)], block_size=None)


# --- rows that are kept, and rows that are read again ----------------------------------------------------------------


@pytest.fixture
def not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 0)


def test_rows_are_the_same_kept_or_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = jsonl(tmp_path / "t.jsonl", mooncake(20, 1), mooncake(0), mooncake(40, 1, 2, 3, time=-5, output=0))
    kept = open_trace(path, block_size=16)
    monkeypatch.setattr(module, "_KEPT", 0)
    again = open_trace(path, block_size=16)
    assert list(kept) == list(again) == list(again)
    assert kept.notes == again.notes
    assert {note.reason for note in kept.notes} == {"zero_input", "uncovered", "time_backwards", "zero_output"}
    path.unlink()
    assert len(list(kept)) == 2
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        list(again)


@pytest.mark.usefixtures("not_kept")
@pytest.mark.parametrize(
    "given",
    [
        {"chat_id": 1, "parent_chat_id": -1, "timestamp": 5, "input_length": 20, "hash_ids": [1, 2]},
        {"input_length": 20, "hash_ids": [1, 2], "block_size": 16},
        {"input_length": 20},
    ],
)
def test_a_block_size_is_found_again_where_it_was_found(tmp_path: Path, given: dict[str, object]) -> None:
    trace = open_trace(jsonl(tmp_path / "t.jsonl", given, given))
    assert len(list(trace)) == len(list(trace)) == 2
    assert trace.block_size == (16 if "hash_ids" in given else None)


@pytest.mark.usefixtures("not_kept")
def test_a_file_that_changes_between_two_readings_is_an_error(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", mooncake(16, 1), mooncake(16, 2))
    trace = open_trace(path, block_size=16)
    jsonl(path, mooncake(16, 1), mooncake(16, 2), mooncake(16, 3))
    changed = r"t\.jsonl: it changed while it was in use, from \d+ to \d+ bytes"
    with pytest.raises(TraceError, match=changed):
        list(trace)
    path.write_text("{")
    with pytest.raises(TraceError, match=changed):  # and not what is wrong with its rows
        list(trace)


@pytest.mark.usefixtures("not_kept")
def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", mooncake(16, 1), mooncake(16, 2))
    rows = iter(open_trace(path, block_size=16))
    next(rows)
    os.utime(path, (0, 0))
    with pytest.raises(TraceError, match="it changed while it was in use"):
        list(rows)


@pytest.mark.usefixtures("not_kept")
def test_rows_of_ones_own_must_be_the_same_each_time() -> None:
    lengths = iter([16, 16, 17])
    trace = Trace.of(lambda: [row(1, next(lengths), 1)], block_size=16)
    assert len(list(trace)) == 1
    with pytest.raises(TraceError, match="rows: reading it again gave other rows than at first"):
        list(trace)


def test_rows_are_kept_up_to_a_number_of_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def rows() -> Iterator[Row]:
        calls.append(1)
        return (row(at, 16 * 10, *range(10)) for at in range(1, 4))

    monkeypatch.setattr(module, "_KEPT", 3 * (10 + 40))
    trace = Trace.of(rows, block_size=16)
    assert len(list(trace)) == len(list(trace)) == 3
    assert len(calls) == 1
    monkeypatch.setattr(module, "_KEPT", 3 * (10 + 40) - 1)
    trace = Trace.of(rows, block_size=16)
    assert len(list(trace)) == len(list(trace)) == 3
    assert len(calls) == 4


def test_two_readings_at_once_do_not_disturb_each_other(tmp_path: Path, not_kept: None) -> None:
    path = jsonl(tmp_path / "t.jsonl.gz", *(mooncake(16, at) for at in range(50)))
    trace = open_trace(path, block_size=16)
    assert [(a.line, b.line) for a, b in zip(trace, trace, strict=True)] == [(at, at) for at in range(1, 51)]


# --- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 10**6])
def test_rows_sorted_by_time_keep_their_order_where_it_is_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(module, "_KEPT", limit)
    path = jsonl(tmp_path / "t.jsonl", *(mooncake(16, at, time=time) for at, time in enumerate([3000, 0, 3000, 0])))
    trace = open_trace(path, block_size=16, order="time")
    assert [row.line for row in trace] == [2, 4, 1, 3]
    assert (trace.order, trace.span) == ("time", 3.0)
    assert [(note.reason, note.count, note.line) for note in trace.notes] == [("time_backwards", 2, 2)]
    for order in (None, "file"):
        assert [row.line for row in open_trace(path, block_size=16, order=order)] == [1, 2, 3, 4]


def test_rows_without_a_time_cannot_be_sorted(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", mooncake(16, 1), {"input_length": 5}, {"input_length": 5})
    with pytest.raises(TraceError, match=r"t\.jsonl: order='time' needs the time of every row, and 2 of 3 have none"):
        open_trace(path, block_size=16, order="time")


# --- rows of one's own -----------------------------------------------------------------------------------------------


def test_rows_of_ones_own_are_checked_and_may_be_lists() -> None:
    given = [Row(1, 20, [1, 2]), Row(2, 16, (3,)), Row(3, 20, array("I", [1, 2]))]  # type: ignore[arg-type] # as users do
    trace = Trace.of(given, block_size=16, name="mine", bytes_per_token=2.5)
    assert [(row.ids.typecode, list(row.ids)) for row in trace] == [("q", [1, 2]), ("q", [3]), ("q", [1, 2])]
    assert (trace.name, trace.format, trace.block_size, trace.bytes_per_token) == ("mine", "rows", 16, 2.5)
    assert trace.files == ()
    with pytest.raises(TraceError, match="mine, line 7: 2 ids need more than 16 tokens at block size 16"):
        Trace.of([row(7, 16, 1, 2)], block_size=16, name="mine")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (Row(1, 5, ["a"]), "its ids are no whole numbers of 64 bits"),  # type: ignore[arg-type]
        (Row(1, 5, [2**64]), "its ids are no whole numbers of 64 bits"),  # type: ignore[arg-type]
        (Row(1, 5, array("q"), weights=["a"]), "its weights are no whole numbers of 64 bits"),  # type: ignore[arg-type]
        (Row(1, "secret", array("q")), "its input_length is no whole number"),  # type: ignore[arg-type]
        (Row(1, 5.5, array("q")), "its input_length is no whole number"),  # type: ignore[arg-type]
        (Row(1, 5, array("q"), 1.0), "its output_length is no whole number"),  # type: ignore[arg-type]
        (row(1, 5, cached=1.0), "its cached is no whole number"),
        (row(1, 5, time=float("nan")), "its time is no finite number"),
        (row(1, 5, time="secret"), "its time is no finite number"),
        (row(1, 5, delay=float("inf")), "its delay is no finite number"),
    ],
)
def test_rows_of_ones_own_that_are_none(given: Row, what: str) -> None:
    with pytest.raises(TraceError, match=f"^rows, line 1: {what}$"):
        Trace.of([given], block_size=16)
    trace = Trace.of([given, row(2, 5, 1)], block_size=16, strict=False, ids="content")
    assert [row.line for row in trace] == [2]
    assert trace.notes[0].sentence == f"1 row left out, the first in line 1: {what}"


class Number:
    """A whole number of somebody else's."""

    def __index__(self) -> int:
        return 20


def test_whole_numbers_of_other_kinds_are_numbers() -> None:
    (made,) = Trace.of([row(1, Number(), 1, 2, weights=[16, 4])], block_size=16)  # type: ignore[arg-type]
    assert type(made.input_length) is int
    assert made == row(1, 20, 1, 2, weights=array("q", [16, 4]))


def test_an_iterator_of_rows_can_be_gone_through_again(not_kept: None) -> None:
    trace = Trace.of((row(at, 16, at) for at in range(1, 4)), block_size=16)
    assert [row.line for row in trace] == [row.line for row in trace] == [1, 2, 3]


# --- nothing ---------------------------------------------------------------------------------------------------------


def test_a_trace_without_requests_is_an_error_that_says_what_was_left_out(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", mooncake(0), mooncake(0))
    with pytest.raises(
        TraceError, match=r"t\.jsonl: it holds no requests \(2 rows left out, the first in line 1: it has"
    ):
        open_trace(path, block_size=16)
    with pytest.raises(TraceError, match=r"^rows: it holds no requests$"):
        Trace.of([], block_size=16)


# --- caches ----------------------------------------------------------------------------------------------------------


def test_without_ids_there_is_no_hit_rate() -> None:
    trace = open_trace(DATA / "azure_llm_2023_code.csv")
    for ask in (trace.simulate, trace.sweep):
        with pytest.raises(
            TraceError, match=r"azure_llm_2023_code\.csv: (simulate|sweep)\(\) needs block ids.*no hit rate"
        ):
            ask()


@pytest.fixture(scope="module")
def synthetic() -> Trace:
    return open_trace(DATA / "mooncake_synthetic_trace.jsonl", block_size=512, kv_bytes_per_token=2**30 / 512 / 100)


def test_every_budget_of_a_whole_trace(synthetic: Trace) -> None:
    curve = synthetic.sweep()
    known = {256: 1_490_232, 1_000: 5_245_479, 4_000: 14_617_729, 16_000: 33_020_483, 128_000: 39_852_661}
    assert {blocks: curve.hit_tokens(blocks=blocks) for blocks in known} == known
    assert (curve.ceiling_tokens, curve.input_tokens) == (39_852_661, 61_194_628)
    fifo = synthetic.sweep("fifo", budgets=[256, 16_000])
    assert (fifo.hit_tokens(blocks=256), fifo.hit_tokens(blocks=16_000)) == (1_346_360, 31_068_168)


def test_a_budget_in_blocks_tokens_or_gib(synthetic: Trace) -> None:
    trace = synthetic.first(1_000)
    assert trace.simulate(blocks=4_000).hit_tokens == 576_735
    assert trace.simulate(tokens=4_000 * 512 + 511).hit_tokens == 576_735
    assert trace.simulate("fifo", gib=40).hit_tokens == 605_919
    assert trace.sweep().hit_tokens(gib=40) == 576_735
    assert trace.simulate(blocks=0).hit_tokens == 0
    assert trace.simulate().hit_tokens == trace.sweep().ceiling_tokens
    with pytest.raises(TraceError, match="one of blocks=, tokens= or gib=; here: blocks=1, gib=1"):
        trace.simulate(blocks=1, gib=1)
    with pytest.raises(TraceError, match="give model= or kv_bytes_per_token= with the trace"):
        open_trace(DATA / "mooncake_conversation_first1000.jsonl", block_size=512).simulate(gib=1)


def test_warm_rows_only_fill_the_cache(synthetic: Trace) -> None:
    curve = synthetic.sweep(warm=0.5)
    assert round(curve.ceiling or 0, 6) == 0.862750
    assert round(curve.hit_rate(blocks=16_000), 6) == 0.724871
    assert round(synthetic.simulate("fifo", blocks=16_000, warm=0.5).hit_rate or 0, 6) == 0.682875


@pytest.mark.parametrize(("rows", "warm", "counted"), [(100, 0.29, 71), (3, 0.5, 2), (3, 0, 3), (10, 0.99, 1)])
def test_the_share_of_warm_rows_is_rounded_down(rows: int, warm: float, counted: int) -> None:
    trace = Trace.of([row(at, 16, at) for at in range(rows)], block_size=16)
    assert trace.simulate(warm=warm).requests == counted
    assert trace.sweep(warm=warm).requests == counted


@pytest.mark.parametrize("warm", [1, 1.5, -0.1, True, "half", float("nan")])
def test_a_share_of_warm_rows_that_is_none(warm: float) -> None:
    trace = Trace.of([row(1, 16, 1)], block_size=16)
    with pytest.raises(TraceError, match=r"warm=.*: expected a share of the rows from 0, below 1"):
        trace.simulate(warm=warm)


def test_several_engines_are_several_caches() -> None:
    trace = Trace.of([row(1, 16, 1), row(2, 16, 1), row(3, 16, 1), row(4, 16, 1)], block_size=16)
    assert trace.simulate(blocks=1).hit_tokens == 3 * 16
    fleet = trace.simulate(blocks=1, engines=2)
    assert (fleet.hit_tokens, len(fleet.engines)) == (2 * 16, 2)
    assert trace.simulate(blocks=1, engines=2, routing="prefix").hit_tokens == 3 * 16
    for engines in (0, True):
        with pytest.raises(TraceError, match="engines="):
            trace.simulate(engines=engines)


def test_rules_reach_the_cache() -> None:
    trace = Trace.of([row(1, 20, 1, 2), row(2, 20, 1, 2)], block_size=16)
    assert trace.simulate().hit_tokens == 20
    assert trace.simulate(rules="engine").hit_tokens == 16
    assert trace.sweep(rules="engine").ceiling_tokens == 16


def test_ids_that_stand_behind_two_others_are_told_or_refused() -> None:
    rows = [row(1, 32, 1, 9), row(2, 32, 2, 9)]
    trace = Trace.of(rows, block_size=16)
    for told in (trace, trace.first(2), trace.scaled(4)):
        assert [(note.reason, note.line) for note in told.notes] == [("same_id_after_another_parent", 2)]
    assert trace.first(1).notes == ()
    assert Trace.of(rows, block_size=16, ids="content").notes == ()
    with pytest.raises(TraceError, match=r"rows, line 2: id 9 stands behind 2, and stood behind 1 before"):
        Trace.of(rows, block_size=16, ids="prefix")
    (note,) = Trace.of(rows, block_size=16, ids="prefix", strict=False).notes
    assert (note.reason, note.count, note.line) == ("ids", 1, 2)


def test_a_curve_may_be_estimated() -> None:
    rows = [row(n, 64, n % 9, 100 + n % 9, 200 + n, 300 + n) for n in range(200)]
    trace = Trace.of(rows, block_size=16)
    exact, whole = trace.sweep(), trace.sweep(sample=1.0)
    assert exact.error(blocks=9) == whole.error(blocks=9) == 0.0
    assert [whole.hit_tokens(blocks=size) for size in range(60)] == [
        exact.hit_tokens(blocks=size) for size in range(60)
    ]
    assert trace.sweep(sample="auto").hit_tokens(blocks=40) == exact.hit_tokens(blocks=40)
    part = trace.sweep(sample=0.5, seed=3)
    assert part.error(blocks=40) > 0
    assert any(note.reason == "sampled" for note in part.notes)
    for wrong in ({"policy": "fifo"}, {"budgets": [1]}, {"rules": Rules(charge="tokens")}, {"sample": 0}):
        with pytest.raises(TraceError, match="sample="):
            trace.sweep(**{"sample": 0.5, **wrong})  # type: ignore[arg-type] # several kinds of arguments
