"""Tables of lengths and times: a real one of Azure's, BurstGPT's three headers, and cells that are wrong."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from pytest_kvcache.errors import TraceError
from pytest_kvcache.rows import Row
from pytest_kvcache.traces import open_trace
from pytest_kvcache.traces.check import Skipped

from .forms import DATA, Form

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
BURST_3 = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"


@pytest.fixture
def azure(tmp_path: Path) -> Form:
    return Form(tmp_path, "azure")


@pytest.fixture
def burst(tmp_path: Path) -> Form:
    return Form(tmp_path, "burstgpt")


# --- Azure -----------------------------------------------------------------------------------------------------------


def test_a_real_table_to_the_last_digit() -> None:
    trace = open_trace(DATA / "azure_llm_2023_code.csv")
    rows = list(trace)
    assert (trace.format, len(trace), trace.block_size) == ("azure", 2_000, None)
    first = ("2023-11-16 18:17:03.9799600", "2023-11-16 18:17:04.0319600")
    assert rows[0].line == 2
    assert (rows[0].input_length, rows[0].output_length, rows[0].session) == (4808, 10, None)
    assert rows[0].time == pytest.approx(1_700_158_623.97996, abs=1e-6), first
    assert rows[1].time - rows[0].time == pytest.approx(0.052, abs=5e-7)  # type: ignore[operator] # both have one
    with (DATA / "azure_llm_2023_code.csv").open() as lines:
        cells = [line.rstrip().split(",") for line in lines][1:]
    assert [(row.input_length, row.output_length) for row in rows] == [(int(a), int(b)) for _, a, b in cells]
    assert trace.input_tokens == sum(int(cell) for _, cell, _ in cells)


def test_no_hit_rate_comes_from_a_table_without_blocks() -> None:
    trace = open_trace(DATA / "azure_llm_2023_code.csv")
    with pytest.raises(TraceError, match="no hit rate can be derived"):
        trace.simulate("lru", blocks=10)


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("1970-01-01 00:00:00", 0.0),
        ("1970-01-01 00:01:01.5", 61.5),
        ("1970-01-02T00:00:00.1234567", 86_400.1234567),
        ("1970-01-02 00:00:00.1234567+00:00", 86_400.1234567),
        ("1970-01-02 01:30:00+01:30", 86_400.0),
        ("1970-01-01 22:00:00-0200", 86_400.0),
        ("1970-01-01T23:00:00-01", 86_400.0),
        ("1970-01-02T00:00:00Z", 86_400.0),
        ("1970-01-02 00:00:00 UTC", 86_400.0),
        ("1970-01-02 00:00", 86_400.0),
        ("1972-02-29 00:00:00", 68_169_600.0),
        ('"1970-01-02 00:00:00,5"', 86_400.5),
        ("  1970-01-02 00:00:00  ", 86_400.0),
        ("1972-06-30 23:59:60", 78_796_800.0),  # a leap second
    ],
)
def test_dates_with_any_digits_and_zone(azure: Form, date: str, seconds: float) -> None:
    (row,) = azure.rows(AZURE, f"{date},10,2")
    assert row == Row(2, 10, array("q"), 2, seconds)


@pytest.mark.parametrize(
    "date",
    [
        *("2023-13-01 00:00:00", "2023-02-29 00:00:00", "2023-01-01 24:00:00", "2023-01-01 00:60:00", "2023-01-01"),
        *("2023-01-01 00:00:61", "16/11/2023 18:17", "", "2023-01-01 00:00:00.", "２023-01-01 00:00:00", "today, 5"),
    ],
)
def test_what_is_no_date(azure: Form, date: str) -> None:
    error = azure.wrong(AZURE, "1970-01-01 00:00:00,7,1", f'"{date}",10,2', "1970-01-01 00:00:01,8,1")
    assert (error.line, error.reason) == (3, "bad_time")
    assert error.sentence == "'TIMESTAMP' is no date with a time such as 2023-11-16 18:17:03.9799600"


def test_the_rows_around_a_wrong_one_are_read(azure: Form) -> None:
    lines = (AZURE, "1970-01-01 00:00:00,7,1", "yesterday,10,2", "1970-01-01 00:00:01,8,1")
    assert [item.line for item in azure.items(*lines, strict=False) if isinstance(item, Row)] == [2, 4]


def test_numbers_for_dates_need_a_unit(azure: Form) -> None:
    error = azure.wrong(AZURE, "1500,10,2")
    assert error.sentence == "'TIMESTAMP' is a number, not a date; say its unit with time_unit="
    assert azure.rows(AZURE, "1500,10,2", time_unit="ms")[0].time == 1.5


def test_columns_are_found_by_name(azure: Form) -> None:
    header = 'Region, generatedtokens ,"ContextTokens",Note,TIMESTAMP'
    for cells in ('eu,3,"10","a, ""quoted"" note",1970-01-01 00:00:01', 'eu, 3, "10", "a, b", 1970-01-01 00:00:01'):
        (row,) = azure.rows(header, cells)
        assert (row.input_length, row.output_length, row.time) == (10, 3, 1.0)


def test_images_are_noted(azure: Form) -> None:
    header = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens"
    lines = [f"1970-01-01 00:00:00,{images},100,1" for images in (0, 2, 1)]
    assert [row.input_length for row in azure.rows(header, *lines)] == [100, 100, 100]
    note = azure.told()["images"]
    assert (note.count, note.line) == (2, 3)
    assert note.sentence == (
        "2 rows with images, 3 in all (first: line 3): whether 'ContextTokens' holds their tokens is not told"
    )


# --- BurstGPT --------------------------------------------------------------------------------------------------------


def test_rows_of_failed_requests(burst: Form) -> None:
    items = burst.items(
        BURST,
        "5,ChatGPT,472,18,490,Conversation log",
        "45,ChatGPT,0,0,0,Conversation log",
        "118,GPT-4,417,0,417,API log",
    )
    assert items == [
        Row(2, 472, array("q"), 18, 5.0),
        Skipped(3, "zero_input", "'Request tokens' is 0"),
        Row(4, 417, array("q"), 0, 118.0),
    ]


def test_rows_of_failed_requests_in_a_trace(burst: Form) -> None:
    path = burst.write(BURST, "5,ChatGPT,472,18,490,Conversation log", "45,A,0,0,0,B", "118,GPT-4,417,0,417,API log")
    trace = open_trace(path)
    counts = {note.reason: note.count for note in trace.notes}
    assert (trace.format, len(trace), trace.input_tokens, trace.output_tokens, trace.span) == (
        *("burstgpt", 2, 889, 18),
        113.0,
    )
    assert (counts["zero_input"], counts["zero_output"]) == (1, 1)
    with pytest.raises(TraceError, match="no hit rate can be derived"):
        trace.simulate()


def test_sessions_of_the_third_one(burst: Form) -> None:
    rows = burst.rows(
        BURST_3,
        "0.5,abc,1.5,ChatGPT,10,2,12,Conversation log",
        "1,,0.2,GPT-4,11,3,14,API log",
        "2.25,abc,1,ChatGPT,20,4,24,Conversation log",
    )
    assert [(row.session, row.time, row.input_length) for row in rows] == [
        ("abc", 0.5, 10),
        (None, 1.0, 11),
        ("abc", 2.25, 20),
    ]


def test_numbers_as_columns_with_gaps_have_them(burst: Form) -> None:
    (row,) = burst.rows(BURST, "5.0,ChatGPT,472.0,18.0,490.0,API log")
    assert (row.input_length, row.output_length, row.time) == (472, 18, 5.0)
    assert type(row.input_length) is int


def test_another_clock(burst: Form) -> None:
    assert burst.rows(BURST, "1500,A,1,1,2,B", time_unit="ms")[0].time == 1.5


@pytest.mark.parametrize(
    ("line", "reason", "sentence"),
    [
        ("5,A,472", "bad_row", "3 fields; the header has 6"),
        ("5,A,1,000,18,490,B", "bad_row", "7 fields; the header has 6"),
        ("5,A,,18,490,B", "bad_field", "'Request tokens' is empty"),
        ("5,A,472,,490,B", "bad_field", "'Response tokens' is empty"),
        ("5,A,secret,18,490,B", "bad_field", "'Request tokens' is no whole number of tokens from 0"),
        ("5,A,-1,18,490,B", "bad_field", "'Request tokens' is no whole number of tokens from 0"),
        ("5,A,1.5,18,490,B", "bad_field", "'Request tokens' is no whole number of tokens from 0"),
        ("5,A,nan,18,490,B", "bad_field", "'Request tokens' is no whole number of tokens from 0"),
        ("5,A,1_0,18,490,B", "bad_field", "'Request tokens' is no whole number of tokens from 0"),
        ("5,A,1e30,18,490,B", "bad_field", "'Request tokens' is no whole number of tokens from 0"),
        ("5,A,٣,18,490,B", "bad_field", "'Request tokens' is no whole number of tokens from 0"),
        ("5,A," + "9" * 5000 + ",18,490,B", "bad_field", "'Request tokens' is no whole number of tokens from 0"),
        ("secret,A,472,18,490,B", "bad_time", "'Timestamp' is no number of seconds"),
        ("inf,A,472,18,490,B", "bad_time", "'Timestamp' is no number of seconds"),
        ("1_0,A,472,18,490,B", "bad_time", "'Timestamp' is no number of seconds"),
        ('5,"A,472,18,490,B', "bad_row", "a quoted field does not end in its line, or is not quoted as CSV is"),
        ('5,"A"secret,472,18,490,B', "bad_row", "a quoted field does not end in its line, or is not quoted as CSV is"),
    ],
)
def test_wrong_rows(burst: Form, line: str, reason: str, sentence: str) -> None:
    lines = (BURST, "5,A,472,18,490,B", line, "6,A,472,18,490,B")
    error = burst.wrong(*lines)
    assert (error.line, error.reason, error.sentence) == (3, reason, sentence)
    assert "secret" not in str(error)
    assert [item.line for item in burst.items(*lines, strict=False) if isinstance(item, Row)] == [2, 4]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("Timestamp,Request tokens", "its header has no column 'Response tokens'; expected one each of 'Timestamp',"),
        ("5,A,472,18,490,B", "its header has no column 'Timestamp', 'Request tokens', 'Response tokens'; expected"),
        (f"{BURST},Request tokens", "its header has 'Request tokens' twice; expected one each of"),
        ("", "its header has no column 'Timestamp'"),
    ],
)
def test_wrong_headers(burst: Form, header: str, said: str) -> None:
    with pytest.raises(TraceError, match=r"^trace: ") as caught:
        burst.items(header, "5,A,472,18,490,B", strict=False)
    assert said in str(caught.value)


def test_comments_and_blank_lines(burst: Form) -> None:
    rows = burst.rows("# from BurstGPT", "", BURST, "5,A,472,18,490,B", "", "# cut here", "6,A,473,18,490,B")
    assert [row.line for row in rows] == [4, 7]


@pytest.mark.parametrize(
    ("header", "found"),
    [
        *((AZURE, "azure"), ("TIMESTAMP,NumImages,ContextTokens,GeneratedTokens", "azure")),
        *((BURST, "burstgpt"), (BURST_3, "burstgpt"), (f'"{BURST.replace(",", chr(34) + "," + chr(34))}"', "burstgpt")),
    ],
)
def test_they_are_told_by_their_headers(azure: Form, header: str, found: str) -> None:
    assert azure.found(header, "1,2,3") == found


def test_another_table_is_none_of_them(azure: Form) -> None:
    with pytest.raises(TraceError, match="no form of trace is known"):
        azure.found("Timestamp,tokens,secret")
