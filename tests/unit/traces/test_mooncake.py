"""Mooncake's form and those of its family."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.errors import TraceError
from pytest_kvcache.rows import Row
from pytest_kvcache.traces import open_trace
from pytest_kvcache.traces.check import RowError, Skipped
from pytest_kvcache.traces.formats import Options
from pytest_kvcache.traces.formats.mooncake import FORMATS, read
from pytest_kvcache.traces.lines import Lines

from .files import jsonl, mooncake


def rows(path: Path, *given: dict[str, Any] | str, **options: Any) -> list[Row | Skipped]:
    return list(read(Lines(jsonl(path / "trace.jsonl", *given), "trace"), Options(**options)))


def only(path: Path, given: dict[str, Any] | str, **options: Any) -> Row:
    (row,) = rows(path, given, **options)
    assert isinstance(row, Row)
    return row


def test_a_row_of_mooncake(tmp_path: Path) -> None:
    made = only(tmp_path, mooncake(6758, *range(14), time=27482, output=500))
    assert made == Row(1, 6758, array("q", range(14)), 500, 27.482)
    assert made.ids.typecode == "q"


def test_comments_blank_lines_and_unknown_fields_change_nothing(tmp_path: Path) -> None:
    lines = ["# made by hand", "", mooncake(20, 1, 2, extra={"a": [1]}, model="m"), "  # more", mooncake(8, 3)]
    assert [(row.line, list(row.ids)) for row in rows(tmp_path, *lines) if isinstance(row, Row)] == [
        (3, [1, 2]),
        (5, [3]),
    ]


@pytest.mark.parametrize(("unit", "expected"), [(None, 3.0), ("s", 3000.0), ("us", 0.003), ("ns", 3e-6), ("ms", 3.0)])
def test_times_and_delays_have_the_unit_of_the_form_or_the_user(
    tmp_path: Path, unit: str | None, expected: float
) -> None:
    made = only(tmp_path, mooncake(20, 1, time=3000, delay=3000), time_unit=unit)
    assert (made.time, made.delay) == (expected, expected)


def test_times_of_nanoseconds_since_1970_keep_what_a_float_holds(tmp_path: Path) -> None:
    made = only(tmp_path, mooncake(20, 1, time=1_700_000_000_123_456_789), time_unit="ns")
    assert made.time == 1_700_000_000_123_456_789 / 1_000_000_000


def test_the_form_of_kvcache_ai(tmp_path: Path) -> None:
    given = {"block_size": 64, "hash_ids": ["a", 7, str(2**63 + 5)], "input_length": 130, "block_tokens": [64, 60, 6]}
    made = only(tmp_path, given)
    assert made == Row(1, 130, made.ids, block_size=64, weights=array("q", [64, 60, 6]))
    assert list(made.ids[1:]) == [7, 2**63 + 5 - 2**64]
    assert made.ids[0] == only(tmp_path, {"input_length": 1, "hash_ids": ["a"]}).ids[0] >= 0


@pytest.mark.parametrize(
    ("given", "session", "tenant"),
    [
        ({"user_id": 3}, "3", "3"),
        ({"user_id": "u", "session_id": "s"}, "s", "u"),
        ({"concurrent_id": 0}, "0", None),
        ({"session_id": None, "concurrent_id": "c"}, "c", None),
        ({}, None, None),
    ],
)
def test_sessions_and_users(tmp_path: Path, given: dict[str, Any], session: str | None, tenant: str | None) -> None:
    made = only(tmp_path, {"input_length": 9, "hash_ids": [1], **given})
    assert (made.session, made.tenant) == (session, tenant)


def test_turns_of_aiperf_wait_for_an_answer(tmp_path: Path) -> None:
    options = Options()
    path = jsonl(
        tmp_path / "t.jsonl",
        {"session_id": "a", "timestamp": 5.5, "input_length": 300, "output_length": 40},
        {"session_id": "a", "delay": 2, "input_length": 150, "output_length": 20},
        {"session_id": "a", "delay_ms": 250, "input_length": 150, "output_length": 20},
    )
    first, second, third = (row for row in read(Lines(path), options) if isinstance(row, Row))
    assert (first.time, first.delay, first.session, list(first.ids)) == (0.0055, None, "a", [])
    assert (second.time, second.delay) == (None, 0.002)
    assert third.delay == 0.25
    assert [(note.reason, note.count, note.line) for note in options.notes.all()] == [("whole_prompts", 2, 2)]
    assert "2 rows after a delay in their session (first: line 2)" in options.notes.all()[0].sentence


def test_delays_that_name_their_unit_keep_it(tmp_path: Path) -> None:
    assert only(tmp_path, {"input_length": 1, "delay_ms": 250}, time_unit="s").delay == 0.25


def test_rows_of_dynamo(tmp_path: Path) -> None:
    given = {"input_tokens": 20, "output_tokens": 3, "created_time": 1500, "hash_ids": [1, 2], "session_id": "s"}
    assert only(tmp_path, given) == Row(1, 20, array("q", [1, 2]), 3, 1.5, "s")


def test_agents_of_dynamo_are_read_and_their_order_is_said_not_to_be(tmp_path: Path) -> None:
    options = Options()
    path = jsonl(
        tmp_path / "t.jsonl",
        mooncake(20, 1, 2, request_id="r1", wait_for=[], branches=[], prefix_reset=False, tool_wait_ms=None),
        mooncake(20, 1, 3, request_id="r2", wait_for=["r1"], branches=["r3"], prefix_reset=True, tool_wait_ms=9.5),
        mooncake(20, 1, 4, request_id="r3", wait_for=["r1"]),
    )
    assert len(list(read(Lines(path), options))) == 3
    assert [(note.reason, note.count, note.line) for note in options.notes.all()] == [
        ("wait_for", 2, 2),
        ("branches", 1, 2),
        ("prefix_reset", 1, 2),
    ]
    assert options.notes.all()[0].sentence == (
        "2 rows with 'wait_for' (first: line 2), which is not looked at: the order is that of the file"
    )


def test_lengths_may_be_written_as_whole_floats(tmp_path: Path) -> None:
    made = only(tmp_path, {"input_length": 20.0, "output_length": 0.0, "hash_ids": [1]})
    assert (made.input_length, type(made.input_length), made.output_length) == (20, int, 0)


def test_what_is_not_told_is_none(tmp_path: Path) -> None:
    given = dict.fromkeys(("timestamp", "output_length", "hash_ids", "session_id", "delay", "block_size"))
    assert only(tmp_path, {**given, "input_length": 5}) == Row(1, 5, array("q"))


def test_rows_without_input_are_left_out(tmp_path: Path) -> None:
    assert rows(tmp_path, mooncake(0), mooncake(0, 1, session_id="s")) == [
        Skipped(1, "zero_input", "it has no input tokens"),
        Skipped(2, "zero_input", "it has no input tokens"),
    ]


BAD: list[tuple[dict[str, Any] | str, str, str]] = [
    ("{", "no_json", "no JSON, column 2"),
    ('{"input_length": NaN}', "no_json", "NaN is no number of JSON"),
    ('{"input_length": 1' + "0" * 5000 + "}", "no_json|bad_field", "Exceeds the limit|.*"),
    ("[" * 100_000, "no_json", "nested too deeply|no JSON"),
    ("7", "no_json", "expected a JSON object, got a number"),
    ("[1, 2]", "no_json", "expected a JSON object, got a list"),
    ({"timestamp": 1}, "bad_field", "it has no 'input_length'; expected the tokens of its prompt"),
    (mooncake("7", 1), "bad_field", "'input_length' is a text; expected a whole number"),  # type: ignore[arg-type]
    (mooncake(True, 1), "bad_field", "'input_length' is true or false"),
    (mooncake(7.5, 1), "bad_field", "'input_length' is a number; expected a whole number"),  # type: ignore[arg-type]
    (mooncake(-7, 1), "bad_field", "'input_length' is -7; expected at least 0"),
    (mooncake(7, 1, output=-1), "bad_field", "'output_length' is -1"),
    (mooncake(7, 1, output="3"), "bad_field", "'output_length' is a text"),  # type: ignore[arg-type]
    (mooncake(7, 1, time="9:30"), "bad_field", "'timestamp' is a text; expected a finite number"),  # type: ignore[arg-type]
    (mooncake(7, 1, time=True), "bad_field", "'timestamp' is true or false"),
    ('{"input_length": 7, "timestamp": 1e999}', "bad_field", "'timestamp' is a number; expected a finite number"),
    ('{"input_length": 7, "timestamp": 1' + "0" * 400 + "}", "bad_field", "'timestamp' is a number"),
    (mooncake(7, delay=[]), "bad_field", "'delay' is a list"),
    ({"input_length": 7, "hash_ids": "1,2"}, "bad_field", "'hash_ids' is a text; expected a list"),
    (mooncake(7, True), "bad_field", "'hash_ids': id 1 is neither a whole number nor a text"),
    ({"input_length": 7, "hash_ids": [1, 2, 3.5]}, "bad_field", "'hash_ids': id 3 is neither"),
    ({"input_length": 7, "hash_ids": [1, None]}, "bad_field", "'hash_ids': id 2 is neither"),
    (mooncake(7, 1, block_size=0), "bad_field", "'block_size' is 0; expected at least 1"),
    (mooncake(7, 1, block_tokens=7), "bad_field", "'block_tokens' is a number; expected a list"),
    (mooncake(7, 1, block_tokens=[0]), "bad_field", "'block_tokens' is 0; expected at least 1"),
    (mooncake(7, 1, block_tokens=[2**63]), "bad_field", "'block_tokens' has numbers beyond 64 bits"),
    (mooncake(7, 1, session_id=["s"]), "bad_field", "'session_id' is a list; expected a text or a whole number"),
    (mooncake(7, 1, user_id=False), "bad_field", "'user_id' is true or false"),
    ({"text_input": "secret"}, "text", "it has 'text_input' and no 'input_length'; format='bodies' reads"),
    ({"messages": [], "hash_ids": []}, "text", "it has 'messages'"),
    ({"payload": {}}, "text", "it has 'payload'"),
]


@pytest.mark.parametrize(("given", "reason", "what"), BAD)
def test_a_bad_row_is_an_error_with_its_line_or_left_out(
    tmp_path: Path, given: dict[str, Any] | str, reason: str, what: str
) -> None:
    good = mooncake(7, 1)
    with pytest.raises(RowError, match=f"line 2: .*({what})") as error:
        rows(tmp_path, good, given, good)
    assert error.value.reason in reason.split("|")
    assert "secret" not in str(error.value)
    first, skipped, last = rows(tmp_path, good, given, good, strict=False)
    assert skipped == error.value.skipped
    assert isinstance(first, Row)
    assert isinstance(last, Row)
    assert (first.line, last.line) == (1, 3)


HALVES = (
    ('{"input_length": 7, "x": [{}', "{}]}"),  # one object over two lines
    ('{"input_length": 7, "x": "}', '{", "input_length": 8}'),
)


@pytest.mark.parametrize("halves", HALVES)
def test_lines_are_no_objects_because_there_are_as_many_of_both(tmp_path: Path, halves: tuple[str, str]) -> None:
    items = rows(tmp_path, '{"input_length": 5}, {"input_length": 6}', *halves, mooncake(7, 1), strict=False)
    assert [(item.line, type(item)) for item in items] == [(1, Skipped), (2, Skipped), (3, Skipped), (4, Row)]


def test_a_text_over_lines_is_no_object_either(tmp_path: Path) -> None:
    items = rows(tmp_path, '{"input_length": 5}, "}', '{", {"input_length": 6}', mooncake(7, 1), strict=False)
    assert [(item.line, type(item)) for item in items] == [(1, Skipped), (2, Skipped), (3, Row)]


def test_one_bad_line_among_ten_thousand(tmp_path: Path) -> None:
    lines: list[dict[str, Any] | str] = [mooncake(600, at, at + 1) for at in range(10_000)]
    lines[7_000] = '{"timestamp": 0, "input_length": 600, "output_len'
    path = jsonl(tmp_path / "t.jsonl.gz", *lines)
    with pytest.raises(TraceError) as error:
        open_trace(path, block_size=512)
    assert str(error.value) == (
        f"{path}, line 7,001: no JSON, column 39: Unterminated string starting at; expected one object a line"
    )
    trace = open_trace(path, block_size=512, strict=False, ids="content")
    assert len(trace) == 9_999
    assert [(note.reason, note.count, note.line) for note in trace.notes] == [("no_json", 1, 7_001)]


@pytest.mark.parametrize(
    ("head", "found"),
    [
        ('{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1]}', True),
        ('{"block_size": 64, "hash_ids": ["a"], "input_length": 5}', True),
        ('{"input_length": 5}', True),
        ('{"hash_ids": [' + "1, " * 9, True),
        ('{"input_tokens": 5, "created_time": 1}', True),
        ('{"input_tokens": 5, "attributes": {}}', False),
        ('{"messages": []}', False),
        ("input_length,hash_ids", False),
        ('["input_length"]', False),
        ("", False),
        ("{" * 100_000, False),
    ],
)
def test_it_is_known_by_its_fields(head: str, found: bool) -> None:
    (form,) = FORMATS
    assert form.looks_like(head) is found
