"""Sessions of agents: real ones against what was derived from them, and every way in which one can be wrong."""

from __future__ import annotations

import gzip
import json
from array import array
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.errors import TraceError
from pytest_kvcache.rows import Row
from pytest_kvcache.traces import open_trace
from pytest_kvcache.traces.check import Skipped

from .forms import DATA, Form

REQUESTS = {"0002": 33, "0006": 46, "0012": 14, "0019": 24, "0026": 3, "0032": 3, "0057": 8, "0291": 32}


@pytest.fixture
def form(tmp_path: Path) -> Form:
    return Form(tmp_path, "weka")


def request(t: float, length: int = 100, **fields: Any) -> dict[str, Any]:
    return {"t": t, "type": "n", "in": length, "out": 5, "hash_ids": [1], **fields}


def agent(t: float, *requests: dict[str, Any]) -> dict[str, Any]:
    return {"t": t, "type": "subagent", "agent_id": "agent_001", "requests": list(requests)}


def session(*requests: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "s", "block_size": 64, "hash_id_scope": "local", "requests": list(requests), **fields}


# --- real ones -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", REQUESTS)
def test_a_real_session_has_the_requests_that_its_origin_says(number: str) -> None:
    trace = open_trace(next((DATA / "agentic").glob(f"trace_{number}.json*")))
    assert (trace.format, trace.block_size, len(trace)) == ("weka", 64, REQUESTS[number])
    assert [row.line for row in trace] == sorted(row.line for row in trace) or number == "0291"
    assert sorted(row.line for row in trace) == list(range(1, REQUESTS[number] + 1))
    assert all(len(row.ids) == row.input_length // 64 for row in trace)


def test_a_folder_of_sessions_is_what_was_derived_from_it() -> None:
    trace = open_trace(DATA / "agentic")
    with gzip.open(DATA / "agentic_8_sessions_block64.jsonl.gz", "rt") as lines:
        derived = [json.loads(line) for line in lines]
    rows = list(trace)
    assert len(rows) == len(derived) == 163
    there: dict[tuple[object, int], int] = {}
    back: dict[int, tuple[object, int]] = {}
    for row, one in zip(rows, derived, strict=True):
        assert (row.input_length, row.scope, row.block_size) == (one["input_length"], one["session_id"], 64)
        assert row.time is not None
        assert round(row.time * 1000) == one["timestamp"]
        assert len(row.ids) == len(one["hash_ids"])
        for here, other in zip(row.ids, one["hash_ids"], strict=True):
            assert there.setdefault((row.scope, here), other) == other
            assert back.setdefault(other, (row.scope, here)) == (row.scope, here)


def test_sub_agents_of_a_real_session_have_turns_of_their_own_and_its_ids() -> None:
    trace = open_trace(DATA / "agentic" / "trace_0291.json")
    turns = [row.session for row in trace]
    counts = {name: turns.count(name) for name in set(turns)}
    assert counts == {"trace_0291": 20, "trace_0291/1": 5, "trace_0291/2": 7}
    assert {row.scope for row in trace} == {"trace_0291"}
    begun = {name: next(row for row in trace if row.session == name) for name in counts}
    assert begun["trace_0291/1"].time == pytest.approx(1148.013)  # as its entry says; its own clock says 0
    assert begun["trace_0291/2"].time == pytest.approx(1180.553)
    assert all(row.delay is None for row in begun.values())


def test_thinking_is_the_delay_after_the_answer_before() -> None:
    rows = list(open_trace(DATA / "agentic" / "trace_0026.json"))
    assert [(row.time, row.delay, row.output_length) for row in rows] == [
        (0.0, None, 2282),
        (94.0, 48.0, 2905),
        (146.0, 4.0, 107),
    ]


# --- documents -------------------------------------------------------------------------------------------------------


def test_one_session_a_line(form: Form) -> None:
    rows = form.rows(session(request(0), request(3)), session(request(1), id="other"))
    assert [(row.line, row.session, row.scope, row.time) for row in rows] == [
        (1, "s", "s", 0.0),
        (1, "s", "s", 3.0),
        (2, "other", "other", 1.0),
    ]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("many", [False, True])
def test_one_document_over_one_line_or_many(form: Form, indent: int | None, many: bool) -> None:
    one = session(request(0), request(2, 130, hash_ids=[1, 2]))
    value: Any = [one, session(request(7), id="b")] if many else one
    rows = form.rows(json.dumps(value, indent=indent))
    ids = [array("q", [1]), array("q", [1, 2]), *([array("q", [1])] if many else [])]
    assert [row.ids for row in rows] == ids
    # of one document the number of the request, of a list that of the session
    assert [row.line for row in rows] == ([1, 1, 2] if many else [1, 2])


def test_all_that_a_row_can_have(form: Form) -> None:
    made = form.rows(session(request(0), request(9.5, 200, type="s", hash_ids=[1, 2], out=0, think_time=4.25, ttft=1)))
    second = Row(2, 200, array("q", [1, 2]), 0, 9.5, "s", scope="s", delay=4.25, block_size=64)
    assert made == [Row(1, 100, array("q", [1]), 5, 0.0, "s", scope="s", block_size=64), second]


def test_what_need_not_be_told(form: Form) -> None:
    bare = {"requests": [{"t": 1, "in": 64}], "block_size": 64}
    (row,) = form.rows(bare)
    assert row == Row(1, 64, array("q"), None, 1.0, "trace", scope="trace", block_size=64)
    note = form.told()["hash_id_scope"]
    assert (note.count, note.line) == (1, 1)
    assert note.sentence == (
        "no 'hash_id_scope' in 1 of the sessions (first: line 1): ids mean something inside them only"
    )


def test_ids_of_a_global_scope_mean_the_same_everywhere(form: Form) -> None:
    rows = form.rows(session(request(0), hash_id_scope="global"), session(request(0), id="b", hash_id_scope="global"))
    assert [(row.scope, row.session) for row in rows] == [(None, "s"), (None, "b")]


def test_another_clock(form: Form) -> None:
    rows = form.rows(session(request(0), request(1500, think_time=250)), time_unit="ms")
    assert (rows[1].time, rows[1].delay) == (1.5, 0.25)


def test_requests_without_tokens_are_left_out(form: Form) -> None:
    items = form.items(session(request(0, 0), request(1)))
    assert items[0] == Skipped(1, "zero_input", "it has no input tokens")
    assert isinstance(items[1], Row)


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (session(request(0)), "weka"),
        ({"requests": [], "hash_id_scope": "local"}, "weka"),
        ({"block_size": 64, "input_length": 3, "hash_ids": []}, "mooncake"),
    ],
)
def test_they_are_told_by_their_fields(form: Form, document: dict[str, Any], found: str) -> None:
    assert form.found(document) == found


def test_a_document_over_many_lines_is_told_too(form: Form) -> None:
    assert form.found(json.dumps(session(request(0)), indent=1)) == "weka"
    assert form.found(json.dumps([session(request(0))], indent=1)) == "weka"


# --- sub-agents ------------------------------------------------------------------------------------------------------


def times(rows: list[Row]) -> list[tuple[float | None, str | None]]:
    return [(row.time, row.session) for row in rows]


def test_a_sub_agent_begins_at_0_on_a_clock_of_its_own(form: Form) -> None:
    rows = form.rows(session(request(0), agent(10, request(0), request(50)), request(12)))
    assert times(rows) == [(0.0, "s"), (10.0, "s/1"), (12.0, "s"), (60.0, "s/1")]
    assert [row.line for row in rows] == [1, 2, 4, 3]  # in the order of the document


def test_of_equal_times_the_first_one_in_the_document_is_first(form: Form) -> None:
    rows = form.rows(session(agent(10, request(0)), request(10), agent(10, request(0))))
    assert times(rows) == [(10.0, "s/1"), (10.0, "s"), (10.0, "s/2")]


AMBIGUOUS = session(request(0), agent(10, request(10), request(15)), request(20), agent(30, request(30.5)))


def test_a_clock_that_may_be_either_is_asked_for(form: Form) -> None:
    with pytest.raises(TraceError) as caught:
        form.items(AMBIGUOUS)
    assert str(caught.value) == (
        "trace: the first requests of its 2 sub-agents are no earlier than the sub-agents themselves, so"
        " their clocks may count from the start of the session, or from their own; say subagent_time='absolute' (as in"
        " sets of SemiAnalysis) or subagent_time='relative' (as in files of kv-cache-tester)"
    )
    with pytest.raises(TraceError, match=r"^line 2 of trace: the first requests of its 2 sub-agents"):
        form.items(session(request(0), id="b"), AMBIGUOUS)
    with pytest.raises(TraceError, match="subagent_time"):
        form.items(AMBIGUOUS, strict=False)  # what all times mean is no matter of one row
    absolute = form.rows(AMBIGUOUS, subagent_time="absolute")
    assert [row.time for row in absolute] == [0.0, 10.0, 15.0, 20.0, 30.5]
    relative = form.rows(AMBIGUOUS, subagent_time="relative")
    assert [row.time for row in relative] == [0.0, 20.0, 20.0, 25.0, 60.5]


def test_it_can_be_said_when_the_trace_is_opened(form: Form) -> None:
    trace = open_trace(form.write(AMBIGUOUS), subagent_time="absolute")
    assert trace.span == 30.5


def test_rounding_of_a_session_s_clock_is_no_proof_of_another(form: Form) -> None:
    with pytest.raises(TraceError, match="subagent_time"):
        form.items(session(request(0), agent(1148.6, request(1148.0))))


def test_one_early_sub_agent_shows_the_clock_of_all(form: Form) -> None:
    rows = form.rows(session(agent(10, request(12)), agent(100, request(0))))
    assert [row.time for row in rows] == [22.0, 100.0]


@pytest.mark.parametrize("start", [0, 0.5, 1])
def test_at_the_start_of_the_session_both_clocks_are_the_same(form: Form, start: float) -> None:
    rows = form.rows(session(agent(start, request(start)), request(3)))
    assert [row.time for row in rows] == [start * 2, 3.0]


def test_a_clock_that_contradicts_what_was_said(form: Form) -> None:
    with pytest.raises(TraceError, match="subagent_time='absolute', but a sub-agent has requests before the time"):
        form.items(session(agent(10, request(0))), subagent_time="absolute")


def test_a_sub_agent_without_requests_shows_nothing(form: Form) -> None:
    assert times(form.rows(session(agent(10), request(3), agent(11, request(0))))) == [(3.0, "s"), (11.0, "s/2")]


def test_the_first_turn_of_each_waits_for_no_answer(form: Form) -> None:
    rows = form.rows(
        session(
            request(0, think_time=1.0),
            agent(5, request(0, think_time=2.0), request(3, think_time=3.0)),
            request(30, think_time=4.0),
        )
    )
    assert [row.delay for row in rows] == [None, None, 3.0, 4.0]


# --- wrong ones ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "reason", "sentence"),
    [
        ({"in": "secret"}, "bad_field", "'in' is a text; expected a whole number"),
        ({"in": True}, "bad_field", "'in' is true or false; expected a whole number"),
        ({"in": -1}, "bad_field", "'in' is -1; expected at least 0"),
        ({"in": None}, "bad_field", "'in' is nothing; expected a whole number"),
        ({"out": 1.5}, "bad_field", "'out' is a number; expected a whole number"),
        ({"t": None}, "bad_field", "'t' is no number of seconds from 0"),
        ({"t": -1}, "bad_field", "'t' is no number of seconds from 0"),
        ({"t": True}, "bad_field", "'t' is no number of seconds from 0"),
        ({"t": "secret"}, "bad_field", "'t' is no number of seconds from 0"),
        ({"think_time": "secret"}, "bad_field", "'think_time' is no number of seconds from 0"),
        ({"think_time": -1}, "bad_field", "'think_time' is no number of seconds from 0"),
        ({"hash_ids": "secret"}, "bad_ids", "'hash_ids' is no list of whole numbers"),
        ({"hash_ids": [1, True]}, "bad_ids", "'hash_ids' is no list of whole numbers"),
        ({"hash_ids": [1, 2.0]}, "bad_ids", "'hash_ids' is no list of whole numbers"),
        ({"hash_ids": [2**63]}, "bad_ids", "'hash_ids' has numbers beyond 64 bits"),
        ({"type": "secret"}, "type", "its 'type' is none of 'n', 's' and, outside of sub-agents, 'subagent'"),
    ],
)
def test_a_wrong_request_is_named_and_left_out_alone(
    form: Form, changed: dict[str, Any], reason: str, sentence: str
) -> None:
    document = session(request(0), {**request(2), **changed}, request(3))
    error = form.wrong(document)
    assert (error.line, error.reason) == (2, reason)
    assert error.sentence == sentence
    assert "secret" not in str(error)
    assert [item.line for item in form.items(document, strict=False) if isinstance(item, Row)] == [1, 3]
    among = form.wrong(session(request(0), id="b"), document)
    assert (among.line, among.sentence) == (2, f"request 2 of its session: {sentence}")


def test_numbers_beyond_all_bounds(form: Form) -> None:
    text = json.dumps(session(request(0), request(5))).replace('"t": 5', '"t": 1e999')
    assert form.wrong(text).sentence == "'t' is no number of seconds from 0"


@pytest.mark.parametrize("entry", [7, "secret", None, []])
def test_an_entry_that_is_no_object(form: Form, entry: Any) -> None:
    error = form.wrong(session(request(0), entry))
    assert (error.line, error.reason) == (2, "bad_field")
    assert "secret" not in str(error)


@pytest.mark.parametrize("broken", [{"t": "secret"}, {"requests": None}, {"requests": {"secret": 1}}])
def test_a_sub_agent_that_is_none(form: Form, broken: dict[str, Any]) -> None:
    error = form.wrong(session(request(0), {**agent(5, request(0)), **broken}, request(9)))
    assert error.sentence == "a sub-agent needs 't', seconds, and 'requests', a list"


def test_a_sub_agent_has_no_sub_agents(form: Form) -> None:
    error = form.wrong(session(agent(5, request(0), agent(1, request(0)))))
    assert (error.line, error.reason) == (2, "type")


@pytest.mark.parametrize(
    ("document", "reason", "sentence"),
    [
        ({"requests": 7}, "no_session", "expected a session: an object with 'requests', a list"),
        ([1], "no_session", "expected a session: an object with 'requests', a list"),
        (session(id=["secret"]), "bad_field", "'id' is a list; expected a text"),
        (session(id=True), "bad_field", "'id' is true or false; expected a text"),
        (session(block_size=0), "bad_field", "'block_size' is 0; expected at least 1"),
        (session(hash_id_scope="secret"), "hash_id_scope", "its 'hash_id_scope' is neither 'local' nor 'global'"),
        (session(hash_id_scope=["secret"]), "hash_id_scope", "its 'hash_id_scope' is neither 'local' nor 'global'"),
    ],
)
def test_a_document_that_is_no_session(form: Form, document: Any, reason: str, sentence: str) -> None:
    error = form.wrong(document)
    assert (error.line, error.reason, error.sentence) == (1, reason, sentence)


def test_of_many_sessions_one_is_wrong(form: Form) -> None:
    lines = [session(request(0)), '{"requests": [', session(request(0), id="b"), session(request(1), id="c")]
    assert form.wrong(*lines).line == 2
    assert [item.line for item in form.items(*lines, strict=False) if isinstance(item, Row)] == [1, 3, 4]


def test_a_session_cannot_come_twice(form: Form) -> None:
    error = form.wrong(session(request(0)), session(request(0), id="b"), session(request(0)))
    assert (error.line, error.reason) == (3, "session_twice")
    assert error.sentence == (
        "a session of the same 'id' was in line 1 of trace, and whether the two share blocks is not told; leave one of"
        " them out, or rename it"
    )


def test_nor_in_two_files(tmp_path: Path) -> None:
    text = json.dumps(session(request(0)))
    (tmp_path / "a.json").write_text(text)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(TraceError) as caught:
        open_trace(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'a.json.gz'}, line 1: a session of the same 'id' was in {tmp_path / 'a.json'}, and whether the"
        " two share blocks is not told; leave one of them out, or rename it"
    )
    assert len(open_trace(tmp_path, strict=False)) == 1


@pytest.mark.parametrize(
    ("many", "place"), [("alone", "request 2: "), ("lines", "line 2: request 2 "), ("list", "entry 2: request 2 ")]
)
def test_where_it_is_wrong_as_users_see_it(form: Form, many: str, place: str) -> None:
    wrong = session(request(0), request(1, -1))
    other = session(request(0), id="b")
    path = form.write(*{"alone": [wrong], "lines": [other, wrong], "list": [json.dumps([other, wrong])]}[many])
    with pytest.raises(TraceError) as caught:
        open_trace(path)
    assert str(caught.value).startswith(f"{path}, {place}")
    notes = {note.reason: note for note in open_trace(path, strict=False).notes}
    assert f"the first in {place.split(':')[0]}: " in notes["bad_field"].sentence


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ('{"requests":\n  [1,', 3, "no JSON, column 1: Expecting value"),
        ('{"requests":\n  [NaN]}', 1, "no JSON: NaN is no number of JSON"),
        ("[\n" + "[" * 100_000, 1, "the JSON is nested too deeply"),
    ],
)
def test_a_document_that_is_damaged(form: Form, text: str, line: int, sentence: str) -> None:
    error = form.wrong(text)
    assert (error.line, error.reason, error.sentence) == (line, "no_json", sentence)
