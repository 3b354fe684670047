"""Spans of OpenTelemetry: every way in which they are written, named and nested, and what of them is no request."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.errors import TraceError
from pytest_kvcache.rows import Row
from pytest_kvcache.traces import open_trace
from pytest_kvcache.traces.check import Skipped

from .forms import Form, letters

NANOS = 1_700_000_000_500_000_000


@pytest.fixture
def form(tmp_path: Path) -> Form:
    return Form(tmp_path, "otel")


def attributes(**more: Any) -> dict[str, Any]:
    usage = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 7}
    return {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **usage, **more}


def span(start: Any = "1970-01-01T00:00:01Z", **more: Any) -> dict[str, Any]:
    return {"trace_id": "t", "name": "chat m", "start_time": start, "attributes": attributes(**more)}


def otlp(given: dict[str, Any]) -> list[dict[str, Any]]:
    kinds = {str: "stringValue", int: "intValue", float: "doubleValue", bool: "boolValue"}

    def typed(value: Any) -> dict[str, Any]:
        if isinstance(value, list):
            return {"arrayValue": {"values": [typed(one) for one in value]}}
        if isinstance(value, dict):
            return {"kvlistValue": {"values": otlp(value)}}
        return {kinds[type(value)]: str(value) if type(value) is int else value}

    return [{"key": key, "value": typed(value)} for key, value in given.items()]


# --- how they are written --------------------------------------------------------------------------------------------


def test_a_span_a_line(form: Form) -> None:
    rows = form.rows(span(), span("1970-01-01T00:00:02.25Z", **{"gen_ai.usage.input_tokens": 50}))
    assert rows == [
        Row(1, 100, array("q"), 7, 1.0, "t"),
        Row(2, 50, array("q"), 7, 2.25, "t"),
    ]


def test_a_session_a_line(form: Form) -> None:
    bare = {name: value for name, value in span().items() if name != "trace_id"}
    rows = form.rows(
        {"session_id": "a", "spans": [bare, span()]},
        {"trace_id": "u", "spans": [bare]},
        {"spans": [span()]},
    )
    assert [(row.line, row.session) for row in rows] == [(1, "a"), (1, "a"), (2, "u"), (3, "t")]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("outer", ["resourceSpans", "resource_spans", "batches"])
@pytest.mark.parametrize("inner", ["scopeSpans", "scope_spans"])
def test_otlp_as_json(form: Form, indent: int | None, outer: str, inner: str) -> None:
    cached = {"gen_ai.usage.cache_read.input_tokens": 64}
    spans = [
        {"traceId": "t", "startTimeUnixNano": str(NANOS), "attributes": otlp(attributes(**cached))},
        {"traceId": "u", "startTimeUnixNano": NANOS + 10**9, "attributes": otlp(attributes())},
    ]
    resource = {"attributes": otlp({"service.name": "secret"})}
    text = json.dumps({outer: [{"resource": resource, inner: [{"scope": {}, "spans": spans}]}]}, indent=indent)
    assert form.found(text) == "otel"
    assert form.rows(text) == [
        Row(1, 100, array("q"), 7, 1_700_000_000.5, "t", cached=64),
        Row(1, 100, array("q"), 7, 1_700_000_001.5, "u"),
    ]


def test_python_s_console_exporter(form: Form) -> None:
    given = {"name": "chat m", "context": {"trace_id": "0x1", "span_id": "0x2"}, "start_time": "1970-01-01T00:00:05Z"}
    document = {**given, "attributes": attributes(), "status": {"status_code": "UNSET"}}
    assert form.found(json.dumps(document, indent=4)) == "otel"
    (row,) = form.rows(json.dumps(document, indent=4))
    assert (row.session, row.time) == ("0x1", 5.0)


@pytest.mark.parametrize(
    ("document", "found"),
    [
        *((span(), "otel"), ({"spans": []}, "otel"), ({"traceId": "t", "attributes": []}, "otel")),
        *(({"attributes": {}, "startTimeUnixNano": "1"}, "otel"), ({"prompt": "x", "trace_id": "t"}, "bodies")),
    ],
)
def test_they_are_told_by_their_fields(form: Form, document: dict[str, Any], found: str) -> None:
    assert form.found(document) == found


@pytest.mark.parametrize(
    ("start", "unit", "seconds"),
    [
        ("1970-01-01T00:00:01.123456789Z", None, 1.123456789),
        ("1970-01-01T02:00:01+02:00", None, 1.0),
        ("1970-01-01 00:00:01.5", None, 1.5),
        (NANOS, None, 1_700_000_000.5),
        (str(NANOS), None, 1_700_000_000.5),
        (1_700_000_000_500, None, 1_700_000_000.5),
        (1_700_000_000.25, None, 1_700_000_000.25),
        (12.5, None, 12.5),
        ("12.5", None, 12.5),
        (1500, "ms", 1.5),
        (NANOS, "ns", 1_700_000_000.5),
        (None, None, None),
        ("", None, None),
    ],
)
def test_when_a_span_began(form: Form, start: Any, unit: str | None, seconds: float | None) -> None:
    assert form.rows(span(start), time_unit=unit)[0].time == seconds


@pytest.mark.parametrize("name", ["start_time_unix_nano", "startTimeUnixNano"])
def test_a_name_that_says_nanoseconds(form: Form, name: str) -> None:
    value = {**span(None), name: "1500000000"}
    assert form.rows(value, time_unit="ms")[0].time == 1.5


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        ("secret", "'start_time' is neither a date with a time nor a number"),
        ([1, 2], "'start_time' is a list; expected a finite number"),
        (True, "'start_time' is true or false; expected a finite number"),
    ],
)
def test_a_start_that_is_none(form: Form, start: Any, sentence: str) -> None:
    assert form.wrong(span(start)).sentence == sentence


# --- names of attributes ---------------------------------------------------------------------------------------------


def test_earlier_names(form: Form) -> None:
    old = {"gen_ai.usage.prompt_tokens": 90, "gen_ai.usage.completion_tokens": 4, "llm.request.type": "completion"}
    (row,) = form.rows({"trace_id": "t", "attributes": old})
    assert (row.input_length, row.output_length) == (90, 4)


def test_present_names_win(form: Form) -> None:
    (row,) = form.rows(span(**{"gen_ai.usage.prompt_tokens": 1, "gen_ai.usage.completion_tokens": 1}))
    assert (row.input_length, row.output_length) == (100, 7)


@pytest.mark.parametrize(
    "name",
    [
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.input_tokens.cached",
    ],
)
def test_cached_tokens(form: Form, name: str) -> None:
    assert form.rows(span(**{name: 64}))[0].cached == 64
    assert form.rows(span(**{name: "64"}))[0].cached == 64  # where all attributes are texts
    assert form.rows(span(**{name: 0}))[0].cached == 0


def test_no_cached_number_is_not_zero_unless_that_is_said(form: Form) -> None:
    assert form.rows(span())[0].cached is None
    assert form.rows(span(), usage_absent="zero")[0].cached == 0


def test_a_recorded_hit_rate(form: Form) -> None:
    cached = "gen_ai.usage.cache_read.input_tokens"
    path = form.write(span(**{cached: 64}), span(**{cached: 0, "gen_ai.usage.input_tokens": 60}), span())
    trace = open_trace(path)
    assert trace.recorded_hit_rate == 64 / 160  # of those that tell
    assert trace.format == "otel"
    with pytest.raises(TraceError, match="no hit rate can be derived"):
        trace.simulate()


@pytest.mark.parametrize(
    ("more", "session"),
    [
        ({"gen_ai.conversation.id": "c", "session.id": "s"}, "c"),
        ({"session.id": "s"}, "s"),
        ({"gen_ai.conversation.id": ""}, "t"),
        ({}, "t"),
    ],
)
def test_sessions(form: Form, more: dict[str, Any], session: str) -> None:
    assert form.rows(span(**more))[0].session == session


def test_a_span_of_its_own(form: Form) -> None:
    assert form.rows({"attributes": attributes()})[0].session is None


# --- what is no request ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["chat", "text_completion", "generate_content"])
def test_requests(form: Form, operation: str) -> None:
    assert len(form.rows(span(**{"gen_ai.operation.name": operation}))) == 1


@pytest.mark.parametrize("operation", ["invoke_agent", "execute_tool", "embeddings", "create_agent", "secret"])
def test_spans_around_requests_would_count_them_twice(form: Form, operation: str) -> None:
    items = form.items(span(**{"gen_ai.operation.name": operation}), span())
    said = "a span of no request; those of chat, text_completion, generate_content are read"
    assert items[0] == Skipped(1, "other_operation", said)
    assert isinstance(items[1], Row)


def test_the_name_of_a_span_tells_its_operation_too(form: Form) -> None:
    tokens = {"gen_ai.usage.input_tokens": 5}
    named_so, unnamed, other = form.items(
        {"name": "text_completion m", "attributes": tokens},
        {"name": "POST /v1/chat", "attributes": tokens},
        {"attributes": tokens},
    )
    assert isinstance(named_so, Row)
    said = "a span that does not tell its operation, 'gen_ai.operation.name'"
    assert [unnamed, other] == [Skipped(2, "no_operation", said), Skipped(3, "no_operation", said)]


def test_requests_without_tokens(form: Form) -> None:
    none = {name: value for name, value in attributes().items() if "input_tokens" not in name}
    items = form.items({"trace_id": "t", "attributes": none}, span(**{"gen_ai.usage.input_tokens": 0}))
    assert items == [
        Skipped(1, "no_usage", "a request without the tokens of its prompt, 'gen_ai.usage.input_tokens'"),
        Skipped(2, "zero_input", "it has no input tokens"),
    ]


def test_what_is_left_out_is_counted_by_reason(form: Form) -> None:
    agent = span(**{"gen_ai.operation.name": "invoke_agent"})
    trace = open_trace(form.write(agent, span(), agent, {"name": "GET /", "attributes": {}}, span()))
    assert len(trace) == 2
    counts = {note.reason: note.count for note in trace.notes}
    assert (counts["other_operation"], counts["no_operation"]) == (2, 1)


# --- emitters that leave the cached tokens out of the input ----------------------------------------------------------

U04 = {"gen_ai.usage.input_tokens": 200, "gen_ai.usage.cache_read.input_tokens": 1800}


def test_more_cached_tokens_than_input_is_never_clipped(form: Form) -> None:
    error = form.wrong(span(), span(**U04))
    assert (error.line, error.reason) == (2, "cached_exceeds_prompt")
    assert error.sentence == (
        "1,800 cached tokens of a prompt of 200; if its prompt tokens leave them out, say usage_prompt='uncached'"
    )


def test_the_declared_convention_makes_the_whole_prompt(form: Form) -> None:
    trace = open_trace(form.write(span(**U04)), usage_prompt="uncached")
    assert (trace.input_tokens, trace.recorded_hit_rate) == (2_000, 0.9)


@pytest.mark.parametrize(
    "written",
    [
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "gen_ai.usage.input_tokens.cache_write",
    ],
)
def test_newly_cached_tokens_are_left_out_too(form: Form, written: str) -> None:
    value = span(**U04, **{written: 30})
    (row,) = form.rows(value, usage_prompt="uncached")
    assert (row.input_length, row.cached) == (2_030, 1_800)
    error = form.wrong(value, usage_prompt="total")
    assert error.reason == "cached_exceeds_prompt"


def test_all_of_a_prompt_may_be_cached(form: Form) -> None:
    assert form.rows(span(**{"gen_ai.usage.cache_read.input_tokens": 100}))[0].cached == 100


def test_an_unknown_part_leaves_the_whole_unknown(form: Form) -> None:
    error = form.wrong(span(), usage_prompt="uncached")
    assert (error.reason, error.sentence) == (
        "cached_not_told",
        "its prompt tokens leave the cached ones out (usage_prompt='uncached'), and these are not told; if that means"
        " there were none, say usage_absent='zero'",
    )
    (row,) = form.rows(span(), usage_prompt="uncached", usage_absent="zero")
    assert (row.input_length, row.cached) == (100, 0)


# --- text ------------------------------------------------------------------------------------------------------------

PARTS = [
    {"role": "user", "parts": [{"type": "text", "content": "hello"}]},
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "f", "arguments": {"a": 1}}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "rain"}]},
]
CALL = '{"id":"1","type":"function","function":{"name":"f","arguments":"{\\"a\\": 1}"}}'
SAID = f"user\nhello\nassistant\n{CALL}\ntool\nrain\nassistant\n"
OPENAI = [
    {"role": "user", "content": "hello"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
    },
    {"role": "tool", "content": "rain"},
]


@pytest.fixture
def text(form: Form, tmp_path: Path) -> dict[str, Any]:
    """Options for a token for each character, in blocks of four."""
    return {"tokenizer": str(letters(tmp_path / "model")), "block_size": 4}


def ids(form: Form, text: dict[str, Any], *said: str) -> list[array[int]]:
    """Return the ids that bodies of these prompts have."""
    bodies = Form(form.path.parent, "bodies")
    return [row.ids for row in bodies.rows(*({"prompt": one, "model": "m"} for one in said), **text)]


@pytest.mark.parametrize("messages", [PARTS, json.dumps(PARTS), OPENAI, json.dumps(OPENAI)])
def test_blocks_of_recorded_messages(form: Form, text: dict[str, Any], messages: Any) -> None:
    usage = {"gen_ai.usage.input_tokens": len(SAID), "gen_ai.usage.cache_read.input_tokens": 8}
    (row,) = form.rows(span(**{"gen_ai.input.messages": messages}, **usage), **text)
    assert (row.input_length, row.cached, row.block_size) == (len(SAID), 8, 4)
    assert [row.ids] == ids(form, text, SAID)


def test_blocks_of_otlp_s_structured_messages(form: Form, text: dict[str, Any]) -> None:
    given = {"traceId": "t", "attributes": otlp(attributes(**{"gen_ai.input.messages": PARTS}))}
    (row,) = form.rows({"spans": [given]}, **text)
    assert [row.ids] == ids(form, text, SAID)


@pytest.mark.parametrize(
    "instructions",
    ["kind", [{"type": "text", "content": "kind"}], json.dumps([{"type": "text", "content": "kind"}])],
)
@pytest.mark.parametrize("packed", [False, True])
def test_instructions_and_tools_stand_before_the_messages(
    form: Form, text: dict[str, Any], instructions: Any, packed: bool
) -> None:
    tools: Any = [{"type": "function", "name": "f"}]
    more = {
        "gen_ai.input.messages": PARTS[:1],
        "gen_ai.system_instructions": instructions,
        "gen_ai.tool.definitions": json.dumps(tools) if packed else tools,
    }
    (row,) = form.rows(span(**more), **text)
    said = 'tools\n{"type":"function","name":"f"}\nsystem\nkind\nuser\nhello\nassistant\n'
    assert [row.ids] == ids(form, text, said)


def test_messages_for_the_model_s_template(form: Form, text: dict[str, Any], tmp_path: Path) -> None:
    calls = "{% for c in m.tool_calls or [] %}({{ c.function.name }} {{ c.function.arguments.a }}){% endfor %}"
    template = "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}" + calls + "{% endfor %}"
    (tmp_path / "model" / "chat_template.jinja").write_text(template)
    (row,) = form.rows(span(**{"gen_ai.input.messages": PARTS}), **text)
    assert [row.ids] == ids(form, text, "[user]hello[assistant](f 1)[tool]rain")


def test_parts_for_the_model_s_template_are_those_of_openai(form: Form, text: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "model" / "chat_template.jinja").write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}")
    parts = [
        {"type": "text", "content": "hello"},
        {"type": "blob", "content": "AAAA"},
        {"type": "text", "content": "!"},
    ]
    (row,) = form.rows(span(**{"gen_ai.input.messages": [{"role": "user", "parts": parts}]}), **text)
    assert [row.ids] == ids(form, text, "[hello\n!]")


def test_images_and_thoughts_among_the_parts(form: Form, text: dict[str, Any]) -> None:
    parts = [
        {"type": "text", "content": "hello"},
        {"type": "blob", "modality": "image", "content": "A" * 5000},
        {"type": "reasoning", "content": "long"},
    ]
    (row,) = form.rows(span(**{"gen_ai.input.messages": [{"role": "user", "parts": parts}]}), **text)
    assert [row.ids] == ids(form, text, "user\nhello\nassistant\n")
    assert form.told()["not_text"].count == 1


def test_a_part_of_text_without_its_text(form: Form, text: dict[str, Any]) -> None:
    parts = [{"type": "text"}, {"type": "text", "content": "hello"}, {"type": "text", "content": 7}]
    messages = [{"role": "user", "parts": parts}]
    (row,) = form.rows(span(**{"gen_ai.input.messages": messages}), **text)
    assert row.input_length == len("user\nhello\nassistant\n")
    assert form.told()["not_text"].sentence.startswith("1 row with 2 parts that are no text")


def test_a_text_of_other_length_than_was_counted(form: Form, text: dict[str, Any]) -> None:
    more = {"gen_ai.input.messages": PARTS, "gen_ai.usage.cache_read.input_tokens": 8}
    (row,) = form.rows(span(**more), **text)
    assert (row.input_length, row.cached) == (len(SAID), None)
    assert form.told()["other_length"].count == 1


def test_messages_that_nobody_asked_to_read(form: Form) -> None:
    rows = form.rows(span(), span(**{"gen_ai.input.messages": "secret"}))
    assert [(row.input_length, len(row.ids)) for row in rows] == [(100, 0), (100, 0)]
    note = form.told()["text_not_read"]
    assert (note.count, note.line) == (1, 2)
    assert note.sentence == (
        "1 row with messages that were not read (first: line 2); their blocks need tokenizer= and block_size="
    )


def test_a_tokenizer_needs_a_block_size(form: Form, text: dict[str, Any]) -> None:
    with pytest.raises(TraceError, match="block_size= is missing"):
        form.items(span(), tokenizer=text["tokenizer"])


@pytest.mark.parametrize("messages", ["secret", 7, ["secret"], {"role": "secret"}, "[", []])
def test_messages_that_are_none(form: Form, text: dict[str, Any], messages: Any) -> None:
    error = form.wrong(span(**{"gen_ai.input.messages": messages}), **text)
    assert error.reason == "no_prompt"
    assert "is no list of messages" in error.sentence
    assert "secret" not in str(error)


# --- wrong ones ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("secret", "'gen_ai.usage.input_tokens' is a text; expected a whole number"),
        (-1, "'gen_ai.usage.input_tokens' is -1; expected at least 0"),
        (1.5, "'gen_ai.usage.input_tokens' is a number; expected a whole number"),
        (True, "'gen_ai.usage.input_tokens' is true or false; expected a whole number"),
    ],
)
def test_tokens_that_are_none(form: Form, value: Any, sentence: str) -> None:
    lines = (span(), span(**{"gen_ai.usage.input_tokens": value}), span())
    error = form.wrong(*lines)
    assert (error.line, error.reason, error.sentence) == (2, "bad_field", sentence)
    assert [item.line for item in form.items(*lines, strict=False) if isinstance(item, Row)] == [1, 3]


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"spans": "secret"}, "its spans are a text; expected a list"),
        ({"spans": ["secret"]}, "expected a span or a list of 'spans', got a text"),
        ({"resourceSpans": {"scopeSpans": []}}, "its spans are an object; expected a list"),
        ('["secret"]', "expected a span or a list of 'spans', got a text"),
    ],
)
def test_documents_without_spans(form: Form, document: Any, sentence: str) -> None:
    error = form.wrong(document)
    assert (error.line, error.reason, error.sentence) == (1, "no_span", sentence)


@pytest.mark.parametrize("written", ["--5", "-", "", "5" * 5000])
def test_an_integer_of_otlp_that_is_none(form: Form, written: str) -> None:
    tokens = {"key": "gen_ai.usage.input_tokens", "value": {"intValue": written}}
    error = form.wrong({"name": "chat m", "trace_id": "t", "attributes": [tokens]})
    assert error.sentence == "'gen_ai.usage.input_tokens' is a text; expected a whole number"


def test_attributes_that_are_none_tell_nothing(form: Form) -> None:
    odd = [7, {"key": 1}, {"key": "gen_ai.operation.name"}, {"key": "x", "value": {"intValue": "secret", "more": 1}}]
    for given in (None, "secret", odd):
        (item,) = form.items({"trace_id": "t", "attributes": given})
        assert isinstance(item, Skipped)
        assert item.reason == "no_operation"
