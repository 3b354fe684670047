"""Bailian's form: seconds, blocks of 16, chats that continue chats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.errors import TraceError
from pytest_kvcache.rows import Note
from pytest_kvcache.traces import open_trace

from .files import jsonl


def chat(number: Any, parent: Any = -1, *, length: int = 521, ids: int = 33, **more: Any) -> dict[str, Any]:
    return {
        "chat_id": number,
        "parent_chat_id": parent,
        "timestamp": 61.114,
        "input_length": length,
        "output_length": 132,
        "type": "text",
        "turn": 1,
        "hash_ids": list(range(1089, 1089 + ids)),
        **more,
    }


def test_a_row(tmp_path: Path) -> None:
    trace = open_trace(jsonl(tmp_path / "t.jsonl", chat(159)))
    (row,) = trace
    assert (trace.format, trace.block_size) == ("bailian", 16)
    assert (row.time, row.input_length, row.output_length, row.session, row.tenant) == (61.114, 521, 132, "159", None)
    assert list(row.ids) == list(range(1089, 1122))
    assert row.weights is None
    stated = "the file does not say its block size; the documentation of its form does: 16"
    assert trace.notes == (Note("block_size_stated", 1, None, stated),)


def test_the_block_size_of_the_user_goes_before_that_of_the_documentation(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", chat(159, length=1_000, ids=32))
    with pytest.raises(
        TraceError, match="line 1: 32 ids leave 488 of 1,000 input tokens without one, more than a block of 16"
    ):
        open_trace(path)
    trace = open_trace(path, block_size=32)
    assert (trace.block_size, trace.notes) == (32, ())


def test_a_chain_of_chats_is_a_session(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "t.jsonl",
        *(chat(1), chat(2), chat(3, 1), chat(4, 3), chat("5", "2"), chat(6, "-1"), chat(7, None), chat(8, 8)),
        chat(9, 4),
    )
    trace = open_trace(path)
    assert [row.session for row in trace] == ["1", "2", "1", "1", "2", "6", "7", "8", "1"]
    assert [note.reason for note in trace.notes] == ["block_size_stated"]


def test_chats_before_the_file_and_behind_their_own_continuation_are_told(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", chat(5, 4), chat(6, 4), chat(7, 6), chat(4, 2), chat(2), chat(8, 4), chat(4, 2))
    trace = open_trace(path)
    assert [row.session for row in trace] == ["4", "4", "4", "2", "2", "2", "2"]
    assert [note for note in trace.notes if note.reason != "block_size_stated"] == [
        Note(
            *("unknown_parent", 2, 1),
            "2 rows whose parent chat does not stand before (first: line 1): a session begins there",
        ),
        Note(
            *("parent_after_child", 1, 4),  # chat 2 begins the session that is called after it
            "1 row behind one that continues it (first: line 4): what continues it is a session of its own",
        ),
    ]


def test_rows_without_input_are_left_out_and_still_continued(tmp_path: Path) -> None:
    trace = open_trace(jsonl(tmp_path / "t.jsonl", "# chats", chat(1), chat(2, 1, length=0, ids=0), chat(3, 2)))
    assert [(row.line, row.session) for row in trace] == [(2, "1"), (4, "1")]
    assert ("zero_input", 1, 3) in [(note.reason, note.count, note.line) for note in trace.notes]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (chat([1]), "'chat_id' is a list; expected a number or a text"),
        (chat(None), "'chat_id' is nothing"),
        (chat(1, {}), "'parent_chat_id' is an object"),
        (chat(1, True), "'parent_chat_id' is true or false"),
        (chat(1, length=-1), "'input_length' is -1"),
        (chat(1, input_length=None), "'input_length' is nothing"),
        (chat(1, output_length=-1), "'output_length' is -1"),
        (chat(1, timestamp="now"), "'timestamp' is a text"),
        (chat(1, hash_ids=[1.5]), "'hash_ids': id 1"),
        ("{", "no JSON"),
    ],
)
def test_a_bad_row_is_an_error_or_left_out(tmp_path: Path, given: dict[str, Any] | str, what: str) -> None:
    path = jsonl(tmp_path / "t.jsonl", chat(0), given, chat(9))
    with pytest.raises(TraceError, match=f"line 2: {what}"):
        open_trace(path)
    assert [row.line for row in open_trace(path, strict=False)] == [1, 3]


def test_other_units_are_taken_when_they_are_said(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", chat(1, timestamp=1500), chat(2, timestamp=4500))
    assert open_trace(path).span == 3000.0
    assert open_trace(path, time_unit="ms").span == 3.0
    assert next(iter(open_trace(path, time_unit="ms"))).time == 1.5
