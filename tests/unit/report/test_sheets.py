"""Tables: every cell says what was measured, nothing that was not told is a zero, and no text is a formula."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.model import (
    Exchange,
    Failure,
    Level,
    Measurement,
    Moment,
    Period,
    Prediction,
    Pressure,
    Span,
    Tokens,
)
from pytest_kvcache.report.document import document
from pytest_kvcache.report.sheets import periods, phases, requests, summary
from pytest_kvcache.report.sheets.cells import Column, lines, sheet, text

from .made import LATE, REFUSED, WHOLE, at, judged, measured, reached, search, stretch

GUIDE = Path(__file__).parents[3] / "docs" / "csv.md"
PLAIN = {"0": Tokens(1000, {"local": 700})}
BEGUN = Moment(100.0, 1_700_000_000.25)  # 2023-11-14 22:13:20.25 UTC
STARTED = "2023-11-14T22:13:20.250000+00:00"
Cells = list[dict[str, str]]


def read(table: str) -> Cells:
    rows = list(csv.DictReader(io.StringIO(table, newline="")))
    assert all(None not in row and None not in row.values() for row in rows)
    return rows


def told(*checks: Any) -> dict[str, Any]:
    """A document as a program reads it back."""
    made: dict[str, Any] = json.loads(json.dumps(document(checks, endpoint="sim", seed=None, interrupted=False)))
    return made


def of(measurement: Measurement, nodeid: str = "test_a.py::test", number: int = 1) -> Cells:
    rows = requests.rows(nodeid, number, measurement)
    return read(lines([requests.HEADER, *rows]))


# --- cells -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("＝1", "'＝1"),
        ("  =1", "'  =1"),
        ("'quoted", "''quoted"),
        ("a=1", "a=1"),
        ("\t=1", "\\t=1"),
        ("\r=1", "\\r=1"),
        ("a\nb", "a\\nb"),
        ("\x1b[31m\x00\ud800", "\\x1b[31m\\x00\\ud800"),
        ("", ""),
    ],
)
def test_text_is_no_formula_and_hides_nothing(value: str, shown: str) -> None:
    assert text(value) == shown


@given(st.text(st.characters(blacklist_categories=("Cs", "Cc", "Cf", "Zl", "Zp"))))
def test_the_apostrophe_can_be_taken_away(value: str) -> None:
    cell = text(value)
    assert (cell[1:] if cell.startswith("'") else cell) == value
    assert not cell.lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))


@given(st.lists(st.text(), min_size=2, max_size=3))
def test_any_text_stays_in_its_cell(values: list[str]) -> None:
    columns = [Column(f"c{n}", "", "", lambda row, n=n: row[n]) for n in range(len(values))]
    written = sheet(columns, [values])
    (header, row) = csv.reader(io.StringIO(written, newline=""))
    assert header == [column.name for column in columns]
    assert row == [text(value) for value in values]
    assert written.count("\n") == 2
    written.encode()  # surrogates are written out


def test_numbers_are_whole_and_nothing_is_no_zero() -> None:
    values = (0, 0.0, -1.5, 1 / 3, None, True, False, 12_345_678_901)
    columns = [Column(f"c{n}", "", "", lambda row, n=n: row[n]) for n in range(len(values))]
    assert sheet(columns, [values]).splitlines()[1] == "0,0.0,-1.5,0.3333333333333333,,true,false,12345678901"


# --- the guide -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [summary, requests, phases, periods], ids=lambda m: m.__name__.rpartition(".")[2])
def test_the_guide_tells_every_column(module: Any) -> None:
    title = f"## {module.__name__.rpartition('.')[2]}.csv\n"
    section = GUIDE.read_text(encoding="utf-8").partition(title)[2].partition("\n## ")[0]
    lines_ = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", section.replace(" |  | ", " |   | "), re.MULTILINE)
    assert [(name, unit.strip(), about) for name, unit, about in lines_] == [
        (column.name, column.unit, column.about) for column in module.COLUMNS
    ]
    names = [column.name for column in module.COLUMNS]
    assert len(set(names)) == len(names)


# --- summary ---------------------------------------------------------------------------------------------------------


def test_a_test_and_its_runs() -> None:
    busy = measured(PLAIN, exchanges=(WHOLE, LATE), begun=BEGUN, pressure=Pressure(preemptions=3, waiting_peak=0))
    place = {"name": "s", "axes": {"rate": 0.5}, "marked": True}
    check = judged(busy, at(8), objectives=(reached(), reached(verdict="fail")), sweep=place, target=0.9)
    rows = read(summary.summary(told(check)))
    assert [(row["kind"], row["run"], row["started"]) for row in rows] == [
        ("check", "", ""),
        ("run", "1", STARTED),
        ("run", "2", ""),
    ]
    first, one, two = rows
    assert (first["hit_rate"], first["hit_tokens"], first["query_tokens"]) == ("0.7", "1400", "2000")
    assert (first["requests"], first["failed"], first["aborted"]) == ("2", "1", "1")
    assert (first["verdict"], first["slo"], first["target"], first["hit_rate_low"]) == ("fail", "fail", "0.9", "")
    assert (one["ttft_p50_s"], one["ttft_count"], one["e2e_p50_s"]) == ("0.5", "1", "2.0")
    assert (two["ttft_p50_s"], two["ttft_count"]) == ("", "0")
    assert (one["preemptions"], one["waiting_peak"], one["kv_usage_peak"]) == ("3", "0", "")
    assert (two["preemptions"], two["client_busy"]) == ("", "")
    assert (one["concurrency"], two["concurrency"], two["rate"]) == ("", "8", "")
    assert (one["engine"], one["engine_version"], one["block_size"], one["simulated_engine"]) == (
        "vllm",
        "0.32.0",
        "16",
        "false",
    )
    assert (one["local_hit_tokens"], one["external_hit_tokens"]) == ("700", "")
    assert [row["axes"] for row in rows] == ['{"rate": 0.5}'] * 3
    assert first["findings"] == ""


def test_a_test_that_measured_nothing() -> None:
    (row,) = read(summary.summary(told(judged(status="inconclusive"))))
    assert (row["verdict"], row["hit_rate"], row["engine"], row["requests"]) == ("inconclusive", "", "", "0")
    assert (row["sweep"], row["slo"], row["source"]) == ("", "", "counters")


# --- phases ----------------------------------------------------------------------------------------------------------

SPANS = (
    Span("reset", 100.0, 100.5),
    Span("prefill", 100.5, 101.0),
    Span("settle_before", 101.0, 101.25),
    Span("load", 101.25, 103.25),
    Span("settle_after", 103.25, 103.5),
)


def test_phases_with_what_is_known_of_each() -> None:
    warm = replace(WHOLE, phase="prefill", prompt_tokens=64, cached_tokens=0, completion_tokens=1)
    hit = replace(WHOLE, prompt_tokens=100, cached_tokens=80)
    run = measured(
        PLAIN,
        begun=BEGUN,
        phases=SPANS,
        prefill=(warm,),
        exchanges=(hit, hit, LATE),
        pressure=Pressure(preemptions=0, evictions=7),
    )
    rows = read(phases.phases(told(judged(run))))
    assert [(row["number"], row["phase"], row["start_s"], row["duration_s"]) for row in rows] == [
        ("1", "reset", "0.0", "0.5"),
        ("2", "prefill", "0.5", "0.5"),
        ("3", "settle_before", "1.0", "0.25"),
        ("4", "load", "1.25", "2.0"),
        ("5", "settle_after", "3.25", "0.25"),
    ]
    assert {row["started"] for row in rows} == {STARTED}
    shown = ("requests", "failed", "prompt_tokens", "cached_tokens", "output_tokens", "query_tokens", "hit_tokens")
    assert [[row[name] for name in shown] for row in rows] == [
        [""] * 7,
        ["1", "0", "64", "0", "1", "", ""],
        [""] * 7,
        ["3", "1", "200", "160", "4", "1000", "700"],
        [""] * 7,
    ]
    assert [(row["evictions"], row["preemptions"]) for row in rows] == [
        ("", ""),
        ("", ""),
        ("", ""),
        ("7", "0"),
        ("", ""),
    ]


def test_usage_that_one_answer_leaves_out_is_not_told() -> None:
    run = measured(PLAIN, begun=BEGUN, phases=SPANS[3:4], exchanges=(replace(WHOLE, prompt_tokens=10), WHOLE))
    (row,) = read(phases.phases(told(judged(run))))
    assert (row["prompt_tokens"], row["cached_tokens"], row["output_tokens"]) == ("", "", "4")


def test_traffic_of_the_users_own_has_no_requests() -> None:
    run = measured(PLAIN, begun=BEGUN, phases=SPANS[3:4], own_traffic=False)
    (row,) = read(phases.phases(told(judged(run))))
    assert (row["requests"], row["prompt_tokens"], row["query_tokens"]) == ("", "", "1000")


def test_records_without_phases_have_no_rows() -> None:
    check = told(judged(measured(PLAIN)))
    assert read(phases.phases(check)) == []
    del check["checks"][0]["runs"][0]["phases"]
    assert read(phases.phases(check)) == []


# --- periods ---------------------------------------------------------------------------------------------------------


def test_periods_and_levels() -> None:
    kept = stretch(Level(2), start=100.0, end=130.0)
    found = search(Period(kept, "held"), Period(replace(kept, start=130.0, end=160.0), "breached", "=TTFT", 3))
    rate = replace(measured(PLAIN), stretch=stretch(Level(rate=2.5), good=1))
    rows = read(periods.periods(told(judged(found), judged(at(8), rate), judged(measured(PLAIN)))))
    shown = ("kind", "run", "period", "concurrency", "rate", "start_s", "duration_s", "held", "why", "stalled", "good")
    assert [[row[name] for name in shown] for row in rows] == [
        ["period", "1", "1", "2", "", "0.0", "30.0", "held", "", "0", ""],
        ["period", "1", "2", "2", "", "30.0", "30.0", "breached", "'=TTFT", "3", ""],
        ["level", "1", "", "8", "", "", "10.0", "", "", "", ""],
        ["level", "2", "", "", "2.5", "", "10.0", "", "", "", "1"],
    ]
    assert (rows[2]["ttft_p95_s"], rows[2]["tokens_per_s_p5"], rows[2]["itl_p50_s"]) == ("0.29", "11.0", "")
    assert (rows[2]["hit_rate"], rows[2]["output_tok_s"], rows[3]["goodput"]) == ("0.25", "100.0", "0.1")


# --- requests --------------------------------------------------------------------------------------------------------


def exchange(**more: Any) -> Exchange:
    base = Exchange(
        "load", 101.0, 104.0, scheduled=101.25, sent=101.5, first_content=102.25, last_content=103.25,
        prompt_len=64, prompt_tokens=65, cached_tokens=48, completion_tokens=5, status=200, session=2, turn=1,
    )  # fmt: skip
    return replace(base, **more)


def test_one_request_in_full() -> None:
    run = measured(PLAIN, begun=BEGUN, exchanges=(exchange(),), prediction=Prediction(32, 65, (32,), 16))
    assert of(run, "=a::b", 3) == [
        {
            "nodeid": "'=a::b",
            "run": "3",
            "started": STARTED,
            "phase": "measured",
            "request": "1",
            "session": "2",
            "turn": "1",
            "concurrency": "",
            "rate": "",
            "start_s": "1.0",
            "scheduled_s": "1.25",
            "sent_s": "1.5",
            "ended_s": "4.0",
            "queueing_s": "0.5",
            "ttft_s": "1.0",
            "e2e_s": "2.75",
            "tpot_s": "0.25",
            "sent_tokens": "64",
            "prompt_tokens": "65",
            "cached_tokens": "48",
            "predicted_tokens": "32",
            "output_tokens": "5",
            "status": "200",
            "error": "",
            "attempts": "1",
            "engine": "0",
        }
    ]


def test_requests_that_failed_say_of_which_class_and_nothing_that_a_server_said() -> None:
    limited = exchange(status=429, failure=Failure("http", "SECRET"), earlier=(LATE, LATE), cached_tokens=None)
    rows = of(measured(begun=BEGUN, exchanges=(limited, LATE, REFUSED)))
    assert [(row["status"], row["error"], row["attempts"], row["e2e_s"]) for row in rows] == [
        ("429", "HTTP 429", "3", ""),
        ("", "timeout", "1", ""),
        ("", "no connection", "1", ""),
    ]
    assert (rows[0]["cached_tokens"], rows[2]["sent_s"], rows[2]["queueing_s"]) == ("", "", "")
    assert "SECRET" not in str(rows)
    assert {row["engine"] for row in rows} == {""}


def test_prefill_comes_first_and_counts_for_itself() -> None:
    run = measured(begun=BEGUN, prefill=(exchange(), exchange()), exchanges=(exchange(),))
    assert [(row["phase"], row["request"]) for row in of(run)] == [
        ("prefill", "1"),
        ("prefill", "2"),
        ("measured", "1"),
    ]


def test_an_engine_is_named_where_there_is_one() -> None:
    two = {"a": Tokens(1, {}), "b": Tokens(1, {})}
    assert [row["engine"] for row in of(measured(two, exchanges=(exchange(),)))] == [""]


@pytest.mark.parametrize("prediction", [Prediction(1, 1, (1, 2), 16), Prediction(1, 1, (1,), 16, exact=False), None])
def test_predictions_that_are_not_known_of_each_request(prediction: Prediction | None) -> None:
    assert [row["predicted_tokens"] for row in of(measured(exchanges=(exchange(),), prediction=prediction))] == [""]


def test_offsets_without_a_noted_beginning_count_from_the_first_request() -> None:
    rows = of(measured(prefill=(exchange(queued=90.0),), exchanges=(exchange(),)))
    assert [(row["started"], row["start_s"]) for row in rows] == [("", "0.0"), ("", "11.0")]


def test_levels_of_steps_and_of_the_periods_of_a_search() -> None:
    level = replace(at(8), exchanges=(exchange(),))
    assert [(row["concurrency"], row["rate"]) for row in of(level)] == [("8", "")]
    kept = stretch(Level(2), start=100.0, end=102.0)
    later = stretch(Level(rate=1.5), start=102.5, end=104.0)
    found = search(Period(kept, "held"), Period(later, "breached"))
    sent = [exchange(sent=moment) for moment in (99.0, 100.0, 101.0, 102.25, 102.5, 104.0, 104.5)]
    rows = of(replace(found, exchanges=(*sent, exchange(sent=None, queued=103.0))))
    assert [(row["concurrency"], row["rate"]) for row in rows] == [
        ("", ""), ("2", ""), ("2", ""), ("", ""), ("", "1.5"), ("", "1.5"), ("", ""), ("", "1.5"),
    ]  # fmt: skip
