"""Recorded requests: text to tokens to chained blocks, in all that wraps them."""

from __future__ import annotations

import csv
import io
import json
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.errors import TraceError
from pytest_kvcache.rows import Row
from pytest_kvcache.traces import open_trace
from pytest_kvcache.traces.check import Skipped

from .forms import Form, letters

SIZE = 4
USER = {"role": "user", "content": "hello"}
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{{ '[assistant]' if add_generation_prompt }}"
)
PLAIN = "user\nhello\nassistant\n"


class Bodies(Form):
    """Bodies, each ASCII character of which is a token, in blocks of four."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "bodies")
        self.model = letters(folder / "model")

    def of(self, path: Path, **options: Any) -> list[Row | Skipped]:
        return super().of(path, **{"tokenizer": str(self.model), "block_size": SIZE, **options})

    def lengths(self, *values: Any, **options: Any) -> list[int]:
        return [row.input_length for row in self.rows(*values, **options)]

    def template(self) -> None:
        (self.model / "chat_template.jinja").write_text(TEMPLATE)


@pytest.fixture
def form(tmp_path: Path) -> Bodies:
    return Bodies(tmp_path)


def shared(left: Sequence[int], right: Sequence[int]) -> int:
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


# --- blocks ----------------------------------------------------------------------------------------------------------


def test_a_prompt_has_a_block_for_every_four_tokens_and_one_for_the_rest(form: Bodies) -> None:
    rows = form.rows({"prompt": "abcdefgh"}, {"prompt": "abcdefghi"}, {"prompt": "abcd"}, {"prompt": "abc"})
    assert [(row.input_length, len(row.ids), row.block_size) for row in rows] == [
        *((8, 2, 4), (9, 3, 4), (4, 1, 4), (3, 1, 4)),
    ]
    assert rows[0].ids == rows[1].ids[:2]
    assert rows[2].ids == rows[0].ids[:1]
    assert rows[3].ids[0] not in rows[0].ids  # a partial block is not the block that it begins


def test_a_block_stands_for_all_before_it(form: Bodies) -> None:
    one, other, again = form.rows({"prompt": "abcdXYZW"}, {"prompt": "efghXYZW"}, {"prompt": "abcdXYZW"})
    assert len({*one.ids, *other.ids}) == 4
    assert one.ids == again.ids


def test_ids_are_63_bits_and_the_same_in_every_run(form: Bodies) -> None:
    (row,) = form.rows({"prompt": "abcdefgh"})
    assert all(0 <= number < 2**63 for number in row.ids)
    # by hand: BLAKE2b of nothing (person "start"), then of each digest and the next block's tokens, 32 bits each
    assert list(row.ids) == [606342732960310682, 8360453493279590667]


@settings(max_examples=60)
@given(st.lists(st.text("ab", min_size=1, max_size=14), min_size=2, max_size=5), st.integers(1, 5))
def test_prompts_share_the_blocks_of_their_common_text(
    tmp_path_factory: pytest.TempPathFactory, prompts: list[str], size: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "letters"
    folder.mkdir(exist_ok=True)
    rows = Bodies(folder).rows(*({"prompt": prompt} for prompt in prompts), block_size=size)
    assert [row.input_length for row in rows] == [len(prompt) for prompt in prompts]
    for a, left in zip(rows, prompts, strict=True):
        assert len(a.ids) == -(-len(left) // size)
        for b, right in zip(rows, prompts, strict=True):
            common = shared(left.encode(), right.encode())
            assert shared(a.ids, b.ids) == (len(a.ids) if left == right else common // size)


def test_a_salt_changes_every_id_and_shares_nothing_less(form: Bodies) -> None:
    prompts = ({"prompt": "abcdefgh"}, {"prompt": "abcdxxxx"})
    bare, salted, other = (form.rows(*prompts, salt=salt) for salt in (None, "pepper", "p" * 100))
    assert len({row.ids[0] for row in (*bare, *salted, *other)}) == 3
    assert [shared(rows[0].ids, rows[1].ids) for rows in (bare, salted, other)] == [1, 1, 1]


@pytest.mark.parametrize("field", ["model", "cache_salt", "extra_key"])
def test_what_servers_keep_apart_shares_no_block(form: Bodies, field: str) -> None:
    rows = form.rows(*({"prompt": "abcdefgh", field: value} for value in ("x", "y", "x")), {"prompt": "abcdefgh"})
    assert rows[0].ids == rows[2].ids
    assert len({row.ids[0] for row in rows}) == 3


def test_several_models_are_told(form: Bodies) -> None:
    form.rows(*({"prompt": "abcd", "model": name} for name in ("secret-a", "secret-b", "secret-a")))
    note = form.told()["models"]
    assert (note.count, note.line) == (1, 2)
    assert note.sentence == "more than one model is asked for, whose blocks are kept apart (second one: line 2)"
    form.rows(*({"prompt": "abcd", "model": "secret-a"} for _ in range(3)))
    assert form.told() == {}


# --- forms of a request ----------------------------------------------------------------------------------------------


def test_prompts_as_text_and_as_ids(form: Bodies) -> None:
    text, ids, many, both = form.rows({"prompt": "abcde"}, {"prompt": list(b"abcde")}, {"prompt": ["abcde", [97, 98]]})
    assert text.ids == ids.ids == many.ids
    assert (both.line, both.input_length) == (3, 2)


def test_messages_without_a_template_are_a_line_with_the_role_and_the_text(form: Bodies) -> None:
    chat, text = form.rows({"messages": [USER]}, {"prompt": PLAIN})
    assert chat.ids == text.ids
    note = form.told()["no_template"]
    assert (note.count, note.line) == (1, 1)
    assert note.sentence == (
        "1 row with messages, and no chat template beside the tokenizer (first: line 1): their lengths are those of the"
        " text, a line with the role before each message, and not those of the server's prompts"
    )


def test_a_conversation_goes_on_where_its_last_prompt_ended(form: Bodies) -> None:
    said = [{"role": "system", "content": "be kind"}, USER]
    later = [*said, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "bye"}]
    one, two = form.rows({"messages": said}, {"messages": later})
    assert shared(one.ids, two.ids) == one.input_length // SIZE


def test_messages_with_the_model_s_template(form: Bodies) -> None:
    form.template()
    chat, text = form.rows({"messages": [USER]}, {"prompt": "[user]hello[assistant]"})
    assert chat.ids == text.ids
    assert "no_template" not in form.told()


def test_special_tokens_are_added_to_texts_and_not_to_what_templates_wrote(form: Bodies) -> None:
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing

    path = str(form.model / "tokenizer.json")
    tokenizer = Tokenizer.from_file(path)
    tokenizer.post_processor = TemplateProcessing(single="\x01 $A", pair="$A $B", special_tokens=[("\x01", 1)])
    tokenizer.save(path)
    form.template()
    chat, text = form.rows({"messages": [USER]}, {"prompt": "abcde"})
    assert chat.input_length == len("[user]hello[assistant]")
    assert text.input_length == 1 + len("abcde")


def test_a_template_beside_a_named_file(form: Bodies) -> None:
    form.template()
    rows = form.rows({"messages": [USER]}, tokenizer=str(form.model / "tokenizer.json"))
    assert rows[0].input_length == len("[user]hello[assistant]")


def test_a_template_that_refuses_messages(form: Bodies) -> None:
    (form.model / "chat_template.jinja").write_text("{{ raise_exception('secret') }}")
    error = form.wrong({"messages": [USER]})
    assert error.reason == "template"
    assert "cannot render these messages" in error.sentence
    assert "secret" not in str(error)


def test_the_simulated_engine_s_own_prompts(form: Bodies) -> None:
    pytest.importorskip("tokenizers")
    (row,) = form.rows({"messages": [USER]}, tokenizer="builtin", block_size=16)
    (text,) = form.rows(
        {"prompt": "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"}, tokenizer="builtin", block_size=16
    )
    assert row.ids == text.ids
    assert form.told() == {}


def test_tools_stand_first_in_one_notation(form: Bodies) -> None:
    tools = [{"type": "function", "function": {"name": "é"}}]
    body = {"messages": [USER], "tools": tools}
    lines = [json.dumps(body), json.dumps(body, indent=None, separators=(" ,", " : "), ensure_ascii=False)]
    text = 'tools\n{"type":"function","function":{"name":"?"}}\n' + PLAIN  # é is no token of this tokenizer
    one, other, plain = form.rows(*lines, {"prompt": text})
    assert one.ids == other.ids == plain.ids


def test_parts_and_calls_of_tools_are_text(form: Bodies) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "c", "tool_call_id": "1"},
    ]
    said = 'user\na\nb\nassistant\n{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}\ntool\nc\n'
    chat, text = form.rows({"messages": messages}, {"prompt": said + "assistant\n"})
    assert chat.ids == text.ids


def test_images_are_told_and_not_counted(form: Bodies) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5000}}
    row, _ = form.rows({"messages": [{"role": "user", "content": [image, "hello", image]}]}, {"messages": [USER]})
    assert row.input_length == len(PLAIN)
    note = form.told()["not_text"]
    assert (note.count, note.line) == (1, 1)
    assert note.sentence == (
        "1 row with 2 parts that are no text, such as images (first: line 1): tokens of text count"
    )


def test_anthropic_s_messages(form: Bodies) -> None:
    content = [
        {"type": "thinking", "thinking": "long"},
        {"type": "text", "text": "hello"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    ]
    body = {
        "system": [{"type": "text", "text": "kind"}],
        "max_tokens": 5,
        "messages": [{"role": "assistant", "content": content}],
    }
    said = 'system\nkind\nassistant\nhello\n{"type":"tool_use","id":"t","name":"f","input":{}}\nassistant\n'
    claude, text = form.rows({"body": body, "api": "messages"}, {"prompt": said})
    assert claude.ids == text.ids
    assert "not_text" not in form.told()  # thoughts are left out of prompts, and missing nowhere


def test_inputs_of_the_responses_api(form: Bodies) -> None:
    call = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"}
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "reasoning", "summary": []},
        call,
        {"type": "function_call_output", "call_id": "1", "output": "42"},
    ]
    said = (
        'system\nkind\nuser\nhello\nassistant\n\nassistant\n{"type":"function_call","name":"f","arguments":"{}",'
        '"call_id":"1"}\ntool\n{"type":"function_call_output","call_id":"1","output":"42"}\nassistant\n'
    )
    rows = form.rows(
        *({"input": "hello"}, {"messages": [USER]}),
        *({"input": items, "instructions": "kind"}, {"prompt": said}),
    )
    assert rows[0].ids == rows[1].ids
    assert rows[2].ids == rows[3].ids


@pytest.mark.parametrize(
    ("api", "body"),
    [
        *(("completion", {"prompt": "abcde"}), ("ollama", {"prompt": "abcde"}), ("generate", {"text": "abcde"})),
        ("generate", {"input_ids": list(b"abcde")}),
    ],
)
def test_other_forms(form: Bodies, api: str, body: dict[str, Any]) -> None:
    rows = form.rows({"body": body, "api": api}, {"prompt": "abcde"})
    assert rows[0].ids == rows[1].ids


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"messages": []}, "'messages' is no list of messages"),
        ({"messages": ["secret"]}, "'messages' is no list of messages"),
        ({"messages": "secret"}, "'messages' is no list of messages"),
        ({"messages": [USER], "tools": {"secret": 1}}, "'tools' is no list"),
        ({"messages": [{**USER, "tool_calls": 7}]}, "'tool_calls' is no list"),
        ({"input": {"secret": 1}}, "'input' is no list of messages"),
        ({"prompt": None}, "a body needs one of messages, prompt, input, and has none of them"),
        ({"prompt": []}, "'prompt' is neither text nor token ids"),
        ({"prompt": [1, "secret"]}, "'prompt' is neither text nor token ids"),
        ({"prompt": [True]}, "'prompt' is neither text nor token ids"),
        ({"prompt": [-1]}, "'prompt' is neither text nor token ids"),
        ({"prompt": [2**32]}, "'prompt' is neither text nor token ids"),
        ({"body": {}, "api": "generate"}, "'input_ids' is neither text nor token ids"),
        ({"body": {"contents": "secret"}, "api": "gemini"}, "prompts of the form 'gemini' are not read from traces"),
        ({"secret": 1}, "a body needs one of messages, prompt, input, and has none of them"),
        ({"body": "secret"}, "'body' is a text; expected a JSON object"),
        ({"prompt": "x", "session": ["secret"]}, "'session' is a list; expected a text or a whole number"),
        ('{"prompt": "\\ud800"}', "its text is no Unicode: half of a surrogate pair"),
        ('{"messages": [{"role": "user", "content": "\\ud800"}]}', "its text is no Unicode: half of a surrogate pair"),
    ],
)
def test_a_request_that_is_none(form: Bodies, value: Any, sentence: str) -> None:
    lines = ({"prompt": "abcd"}, value, {"prompt": "abcde"})
    error = form.wrong(*lines)
    assert (error.line, error.reason, error.sentence) == (2, "no_prompt", sentence)
    assert [item.line for item in form.items(*lines, strict=False) if isinstance(item, Row)] == [1, 3]


def test_a_prompt_without_tokens_is_left_out(form: Bodies) -> None:
    assert form.items({"prompt": ""}) == [Skipped(1, "zero_input", "its prompt has no tokens")]


# --- what wraps them -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {"body": {"prompt": "abcde"}},
        {"custom_id": "1", "method": "POST", "url": "/v1/completions", "body": {"prompt": "abcde"}},
        {"payload": {"prompt": "abcde"}, "session_id": "a"},
        {"text_input": "abcde", "output_length": 3},
        {"request_json": {"prompt": "abcde"}, "status_code": 200},
        {"request_json": '{"prompt": "abcde"}', "prompt": "of another kind"},
    ],
)
def test_wrapped_requests(form: Bodies, value: dict[str, Any]) -> None:
    wrapped, bare = form.rows(value, {"prompt": "abcde"})
    assert wrapped.ids == bare.ids
    assert form.found(value) == "bodies"


def test_fields_that_are_null_are_none(form: Bodies) -> None:
    nothing = {"prompt": None, "input": None, "messages": None}
    assert form.lengths({**nothing, "prompt": "abc"}, {"body": {**nothing, "prompt": "abcd"}, **nothing}) == [3, 4]
    assert form.lengths({**nothing, "messages": [USER]}) == [len(PLAIN)]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        *(({"messages": [USER]}, "bodies"), ({"prompt": "x"}, "bodies"), ({"input": "x", "model": "m"}, "bodies")),
        ({"messages": [USER], "hash_ids": [1], "input_length": 5, "block_size": 64}, "mooncake"),
        ({"attributes": {"prompt": 1}, "messages": [], "span_id": "1"}, "otel"),
    ],
)
def test_they_are_told_by_their_fields(form: Bodies, value: dict[str, Any], found: str) -> None:
    assert form.found(value) == found


def test_ids_beside_text_are_not_passed_over(form: Bodies) -> None:
    assert form.format is not None
    assert not form.format.looks_like(json.dumps({"messages": [USER], "hash_ids": [1]}))


def test_a_list_of_bodies(form: Bodies) -> None:
    text = json.dumps([{"prompt": "abcd"}, {"prompt": "abcde"}], indent=1)
    assert [(row.line, row.input_length) for row in form.rows(text)] == [(1, 4), (2, 5)]
    assert form.found(text) == "bodies"
    assert form.wrong("[1]").sentence == "expected a JSON object, got a number"


def test_all_that_a_row_can_tell(form: Bodies) -> None:
    value = {
        "body": {"prompt": "abcde", "user": "inner"},
        "session_id": 7,
        "user_id": "u",
        "timestamp": 1500,
        "delay": 250,
        "response": {"status_code": 200, "body": {"usage": _usage(5, 4, 3)}},
    }
    (row,) = form.rows(value, time_unit="ms")
    assert row._replace(ids=array("q")) == Row(
        *(1, 5, array("q"), 3, 1.5),
        session="7",
        tenant="u",
        delay=0.25,
        cached=4,
        block_size=4,
    )


def _usage(prompt: int, cached: int | None = None, completion: int = 1) -> dict[str, Any]:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": prompt, "completion_tokens": completion, **details}


@pytest.mark.parametrize("name", ["tenant", "tenant_id", "user_id", "user"])
def test_whose_request_it_is(form: Bodies, name: str) -> None:
    prompt = {"prompt": "abcd"}
    rows = form.rows({"body": prompt, name: "me"}, {**prompt, name: 8}, {"body": {**prompt, name: "inside"}})
    assert [row.tenant for row in rows] == ["me", "8", "inside"]


# --- times -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "unit", "seconds"),
    [
        *((1500, "ms", 1.5), (1.5, "s", 1.5), (0, "ms", 0.0), ("1500", "ms", 1.5), ("2.5", "s", 2.5)),
        (1_700_000_000, None, 1_700_000_000.0),
        (1_700_000_000.5, None, 1_700_000_000.5),
        (1_700_000_000_500, None, 1_700_000_000.5),
        (1_700_000_000_500_000, None, 1_700_000_000.5),
        (1_700_000_000_500_000_000, None, 1_700_000_000.5),
        ("1700000000500", None, 1_700_000_000.5),
        ("1970-01-02T00:00:01Z", None, 86_401.0),
        ("1970-01-02T00:00:01.5", "ms", 86_401.5),
        ("", None, None),
        (None, None, None),
    ],
)
def test_when_it_was_sent(form: Bodies, time: Any, unit: str | None, seconds: float | None) -> None:
    assert form.rows({"prompt": "abcd", "timestamp": time}, time_unit=unit)[0].time == seconds
    assert form.told() == {}


def test_a_number_that_could_be_any_unit_is_left_out_and_told(form: Bodies) -> None:
    assert form.rows({"prompt": "abcd", "time": 10**8})[0].time == 10**8  # in March 1973
    rows = form.rows({"prompt": "abcd", "time": 1500}, {"prompt": "abcd", "time": 10**8 - 1})
    assert [row.time for row in rows] == [None, None]
    note = form.told()["time_unit"]
    assert (note.count, note.line) == (2, 1)
    assert note.sentence == (
        "2 rows with a 'time' too small for a date (first: line 1): left out, give time_unit= to use them"
    )


@pytest.mark.parametrize("name", ["timestamp", "time", "created", "created_at", "start_time", "request_time", "ts"])
def test_names_of_times(form: Bodies, name: str) -> None:
    assert form.rows({"prompt": "abcd", name: 3}, time_unit="s")[0].time == 3.0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"timestamp": "secret"}, "'timestamp' is neither a date with a time nor a number"),
        ({"timestamp": ["secret"]}, "'timestamp' is a list; expected a finite number"),
        ({"timestamp": True}, "'timestamp' is true or false; expected a finite number"),
        ({"delay": "secret"}, "'delay' is a text; expected a finite number"),
    ],
)
def test_times_that_are_none(form: Bodies, given: dict[str, Any], sentence: str) -> None:
    assert form.wrong({"prompt": "abcd", **given}).sentence == sentence


# --- what the server said --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        {"response_json": {"usage": _usage(5, 4, 3)}},
        {"response_json": json.dumps({"usage": _usage(5, 4, 3)})},
        {"response": {"usage": _usage(5, 4, 3)}},
        {"response": {"status_code": 200, "body": {"usage": _usage(5, 4, 3)}}},
        {"usage": _usage(5, 4, 3)},
    ],
)
def test_usage_of_an_answer(form: Bodies, answer: dict[str, Any]) -> None:
    (row,) = form.rows({"body": {"prompt": "abcde"}, **answer})
    assert (row.input_length, row.cached, row.output_length) == (5, 4, 3)
    assert form.told() == {}


def test_an_output_that_is_told_beside_the_request_wins(form: Bodies) -> None:
    (row,) = form.rows({"prompt": "abcde", "output_length": 9, "usage": _usage(5, None, 3)})
    assert (row.output_length, row.cached) == (9, None)


def test_a_server_that_counted_other_tokens(form: Bodies) -> None:
    row, other = form.rows({"prompt": "abcde", "usage": _usage(9, 4)}, {"prompt": "abcde", "usage": _usage(5, 4)})
    assert (row.input_length, row.cached) == (5, None)
    assert (other.input_length, other.cached) == (5, 4)
    note = form.told()["other_length"]
    assert (note.count, note.line) == (1, 1)
    assert note.sentence == (
        "1 row whose text has other tokens here than the server counted (first: line 1): their lengths are those of the"
        " text, and the cached tokens that were recorded are left out"
    )


def test_more_cached_tokens_than_the_prompt_has(form: Bodies) -> None:
    value = {"prompt": "abcde", "usage": _usage(1, 4)}
    error = form.wrong(value)
    assert (error.reason, error.sentence) == (
        "cached_exceeds_prompt",
        "4 cached tokens of a prompt of 1; if its prompt tokens leave them out, say usage_prompt='uncached'",
    )
    (row,) = form.rows(value, usage_prompt="uncached")
    assert (row.input_length, row.cached) == (5, 4)


def test_anthropic_s_prompt_tokens_leave_the_cached_ones_out(form: Bodies) -> None:
    body = {"messages": [USER], "max_tokens": 1}
    tokens = len(PLAIN)
    usage = {"input_tokens": tokens - 8, "cache_read_input_tokens": 8, "output_tokens": 2}
    (row,) = form.rows({"body": body, "api": "messages", "response": {"usage": usage}})
    assert (row.input_length, row.cached, row.output_length) == (tokens, 8, 2)


def test_no_cached_number_is_zero_where_that_is_said(form: Bodies) -> None:
    value = {"prompt": "abcde", "usage": _usage(5)}
    assert form.rows(value)[0].cached is None
    assert form.rows(value, usage_absent="zero")[0].cached == 0


def test_one_usage_of_several_prompts_is_of_none_of_them(form: Bodies) -> None:
    rows = form.rows({"prompt": ["abcde", "abcdf"], "usage": _usage(5, 4)})
    assert [(row.cached, row.output_length) for row in rows] == [(None, None)] * 2


def test_usage_that_is_none(form: Bodies) -> None:
    for tokens in ("secret", ["secret, got"], -1):
        error = form.wrong({"prompt": "abcde", "usage": {"prompt_tokens": tokens}})
        assert error.reason == "bad_field"
        assert error.sentence == "usage.prompt_tokens: expected a whole number of tokens"


@pytest.mark.parametrize("answer", ['{"usage": {"prompt_tokens"', "[]", 7, None])
def test_an_answer_that_tells_nothing(form: Bodies, answer: Any) -> None:
    (row,) = form.rows({"body": {"prompt": "abcde"}, "response_json": answer})
    assert (row.cached, row.output_length) == (None, None)


@pytest.mark.parametrize("status", [400, 429, "404", 498])
def test_requests_that_were_refused(form: Bodies, status: Any) -> None:
    items = form.items({"body": {"prompt": "abcde"}, "status_code": status})
    said = f"the server refused it with status {status}, before any of it was computed"
    assert items == [Skipped(1, "refused", said)]


@pytest.mark.parametrize("status", [200, 499, 500, "503", "?", None])
def test_requests_that_the_server_was_at_work_with(form: Bodies, status: Any) -> None:
    assert form.lengths({"body": {"prompt": "abcde"}, "status_code": status}) == [5]


# --- tables of gateways ----------------------------------------------------------------------------------------------


def table(*rows: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def test_a_gateway_s_table(form: Bodies) -> None:
    body = {"messages": [{"role": "user", "content": 'say "hello", twice\nand more'}]}
    answer = {"usage": _usage(7, 2, 5)}
    text = table(
        ("created_at", "request_json", "response_json", "status_code", "model_name"),
        ("2024-05-01T00:00:01Z", json.dumps(body, indent=2), json.dumps(answer), 200, "m"),
        ("1714521600", json.dumps({"prompt": "abcd"}), "", 429, ""),
        ("1714521600500", json.dumps({"prompt": "x" * 200_000}), "", "", ""),
    )
    assert form.found(text) == "bodies"
    chat, refused, long = form.items(text)
    assert isinstance(chat, Row)
    assert isinstance(long, Row)
    assert (chat.line, chat.time, chat.output_length) == (2, 1_714_521_601.0, 5)
    assert chat.input_length == len('user\nsay "hello", twice\nand more\nassistant\n')
    assert isinstance(refused, Skipped)
    assert (long.input_length, long.time) == (200_000, 1_714_521_600.5)
    assert csv.field_size_limit() == 131_072  # of the whole process


def test_wrong_rows_of_a_table(form: Bodies) -> None:
    good = json.dumps({"prompt": "abcd"})
    head = table(("request_json", "time"))
    error = form.wrong(head + table((good, ""), (good, "", "secret"), (good, "")))
    assert (error.line, error.reason, error.sentence) == (3, "bad_row", "3 fields; the header has 2")
    assert csv.field_size_limit() == 131_072  # of the whole process
    error = form.wrong(head + table((good, "")) + '"secret')
    assert csv.field_size_limit() == 131_072
    assert (error.line, error.reason) == (3, "bad_row")
    assert "secret" not in str(error)
    error = form.wrong(head + table(('{"prompt": "secr', ""), (good, "")))
    assert (error.line, error.reason) == (2, "no_json")
    assert error.sentence == "'request_json' is a text that is no JSON"


def test_empty_cells_tell_nothing(form: Bodies) -> None:
    text = table(
        ("request_json", "session_id", "user", "time", "status_code", "response_json"),
        (json.dumps({"prompt": "abcd"}), "", "", "", "", ""),
        (json.dumps({"prompt": "abcd"}), "s", "u", "1970-01-01T00:00:01Z", "200", "{}"),
    )
    bare, full = form.rows(text)
    assert (bare.session, bare.tenant, bare.time) == (None, None, None)
    assert (full.session, full.tenant, full.time) == ("s", "u", 1.0)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blank_lines_of_a_text_belong_to_it(form: Bodies, end: str) -> None:
    text = table(("prompt", "time"), ("ab\n\n\ncd", "")) + "\n\n" + table(("ab", ""))
    assert [(row.line, row.input_length) for row in form.rows(text.replace("\n", end))] == [(2, 7), (8, 2)]


def test_numbers_of_a_table_are_texts(form: Bodies) -> None:
    prompt = json.dumps({"prompt": "abcd"})
    cells = ((prompt, 12), (prompt, ""), (prompt, "secret"), (prompt, "9" * 16))
    assert [row.output_length for row in form.rows(table(("request_json", "completion_tokens"), *cells))] == [
        12,
        None,
        None,
        None,
    ]


def test_lines_of_a_table_are_those_of_the_file(form: Bodies) -> None:
    text = table(("request_json", "time"), (json.dumps({"prompt": "abcd"}, indent=1), ""), ('{"prompt": "abcde"}', ""))
    assert [row.line for row in form.rows("\n\n" + text)] == [4, 7]


# --- what must be said -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["tokenizer", "block_size"])
def test_neither_tokenizer_nor_block_size_is_guessed(form: Bodies, missing: str) -> None:
    with pytest.raises(TraceError) as caught:
        form.items({"prompt": "secret"}, **{missing: None})
    assert str(caught.value) == (
        "trace: it holds prompts as text; to cut them into blocks, give tokenizer= (a tokenizer.json, a folder with"
        f" one, a hub id, or 'builtin') and block_size= (tokens of a block); {missing}= is missing"
    )


def test_a_tokenizer_that_is_not_there(form: Bodies, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"trace: tokenizer .*nowhere.*: there is no file"):
        form.items({"prompt": "x"}, tokenizer=str(tmp_path / "nowhere.json"))


def test_a_trace_of_bodies(form: Bodies) -> None:
    path = form.write({"prompt": "abcdefgh", "timestamp": 0}, {"prompt": "abcdefxx", "timestamp": 2})
    trace = open_trace(path, tokenizer=str(form.model), block_size=4, time_unit="s")
    assert (trace.format, len(trace), trace.input_tokens, trace.block_size, trace.span) == ("bodies", 2, 16, 4, 2.0)
    assert trace.simulate().hit_tokens == 4
    assert [row.ids for row in trace] == [row.ids for row in trace]
