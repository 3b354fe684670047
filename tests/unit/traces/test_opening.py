"""What is asked of a trace, and what form it has."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.errors import TraceError
from pytest_kvcache.traces import open_trace
from pytest_kvcache.traces.detect import detected, formats
from pytest_kvcache.traces.lines import Lines

from .files import DATA, jsonl, mooncake

FORMS = ("bailian", "weka", "otel", "azure", "burstgpt", "mooncake", "bodies")
MOONCAKE = ("timestamp", "input_length", "output_length", "hash_ids")
SPAN = {
    "trace_id": "t",
    "start_time": 0,
    "attributes": {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5},
}
HEADS: list[tuple[str, str]] = [
    ("bailian", '{"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 5, "hash_ids": [1]}'),
    ("weka", '{"id": "a", "block_size": 64, "hash_id_scope": "local", "requests": []}'),
    ("weka", '{\n "id": "a",\n "block_size": 64,\n "hash_id_scope": "local",\n "requests": []}'),
    ("otel", json.dumps(SPAN)),
    ("azure", "TIMESTAMP,ContextTokens,GeneratedTokens"),
    ("burstgpt", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"),
    ("mooncake", '{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1]}'),
    ("mooncake", '{"hash_ids": [1], "input_length": 64, "messages": [{"role": "user", "content": "x"}]}'),
    ("mooncake", '{"input_tokens": 5, "created_time": 1}'),
    ("bodies", '{"messages": [{"role": "user", "content": "x"}]}'),
    ("bodies", '{"text_input": "x", "output_length": 4}'),
]


@pytest.mark.parametrize(("form", "head"), HEADS)
@pytest.mark.parametrize("before", ["", "\ufeff", "# of mine\n\n"])
def test_a_form_is_known_by_its_first_line(tmp_path: Path, form: str, head: str, before: str) -> None:
    path = tmp_path / "trace"
    path.write_text(before + head + "\n", encoding="utf-8")
    assert detected(Lines(path)).name == form
    path.write_bytes(gzip.compress((before + head + "\n").encode()))
    assert detected(Lines(path)).name == form


@pytest.mark.parametrize("fields", [names for size in (1, 2, 3, 4) for names in combinations(MOONCAKE, size)])
def test_fields_of_mooncake_alone_are_of_no_other_form(fields: tuple[str, ...]) -> None:
    head = json.dumps(dict.fromkeys(fields))
    assert [form.name for form in formats() if form.looks_like(head)] in ([], ["mooncake"])


@pytest.mark.parametrize("first", ["", "mooncake", "nothing"])
def test_whichever_form_is_asked_first_all_are_asked(first: str) -> None:
    order = [form.name for form in formats(first)]
    assert order == sorted(FORMS, key=lambda name: (name != first, FORMS.index(name)))


def test_for_what_only_mooncake_writes_no_other_form_is_loaded(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "trace", mooncake(5, 1))
    code = (
        "import sys; from pytest_kvcache.traces import open_trace\n"
        f"open_trace({str(path)!r}, block_size=512).sweep()\n"
        "print([name for name in sys.modules if name.startswith('pytest_kvcache.traces.formats.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['pytest_kvcache.traces.formats.mooncake']"


@pytest.mark.parametrize(
    ("file", "form"),
    [
        ("mooncake_synthetic_trace.jsonl", "mooncake"),
        ("mooncake_conversation_trace.jsonl.gz", "mooncake"),
        ("agentic_8_sessions_block64.jsonl.gz", "mooncake"),
        ("aiperf_production_trace.jsonl", "mooncake"),
        ("agentic/trace_0291.json", "weka"),
        ("agentic/trace_0006.json.gz", "weka"),
        ("azure_llm_2023_code.csv", "azure"),
    ],
)
def test_the_form_of_a_real_trace(file: str, form: str) -> None:
    assert detected(Lines(DATA / file)).name == form


def test_forms_have_names_of_their_own_and_never_fail_on_a_line() -> None:
    assert tuple(form.name for form in formats()) == FORMS
    for form in formats():
        for head in (
            "",
            " ",
            "{",
            "[",
            "{}",
            "[]",
            "null",
            '"a"',
            "7",
            "[{",
            '{"a"',
            "{" * 5_000,
            "a,b",
            "\x00",
            "\ufffd",
        ):
            assert form.looks_like(head) in (True, False)


@pytest.mark.parametrize(
    ("head", "seen"),
    [
        ('{"prompt_tokens": 5, "secret text": 1}', "an object of prompt_tokens, secret text"),
        (json.dumps({f"f{at}": at for at in range(15)}), "an object of f0, f1, .* f11 and 3 more"),
        (json.dumps({"a" * 50: 1, "b": 2}), "an object of b"),
        ("{}", "an object without fields"),
        ("[1, 2]", "a list"),
        ("when,who,what", "a table of when, who, what"),
        ("Dear all, please, note", "a table of 3 columns"),
        ("Hello, world", "plain text"),
        ("7", "plain text"),
    ],
)
def test_an_unknown_form_is_told_by_its_fields_and_not_by_its_text(tmp_path: Path, head: str, seen: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(head + "\nfurther\n")
    expected = f"^{path}: no form of trace is known whose first line is {seen}; format= takes {', '.join(FORMS)}$"
    with pytest.raises(TraceError, match=expected):
        open_trace(path)


def test_a_form_that_is_said_is_not_looked_for(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", {"chat_id": 1, "parent_chat_id": -1, "timestamp": 5, "input_length": 5})
    assert next(iter(open_trace(path))).time == 5.0
    trace = open_trace(path, format="mooncake")
    assert (trace.format, next(iter(trace)).time) == ("mooncake", 0.005)
    with pytest.raises(TraceError, match="format='mooncakes': expected 'auto' or one of bailian, weka, otel, azure, "):
        open_trace(path, format="mooncakes")


def test_an_empty_or_binary_file_is_told_also_when_its_form_is_said(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"")
    for form in ("auto", "mooncake"):
        with pytest.raises(TraceError, match=r"t\.jsonl: it (is empty|holds no requests)"):
            open_trace(path, format=form)
    path.write_bytes(b"PAR1\0\0\0")
    with pytest.raises(TraceError, match=r"t\.jsonl: it is a Parquet file"):
        open_trace(path)
    with pytest.raises(TraceError, match=r"t\.jsonl, line 1: no JSON"):
        open_trace(path, format="mooncake")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"block_size": 0}, "block_size=0: expected a whole number of at least 1"),
        ({"block_size": True}, "block_size=True"),
        ({"block_size": "16"}, "block_size='16'"),
        ({"max_line": 0}, "max_line=0"),
        ({"time_unit": "min"}, "time_unit='min': expected 's' or 'ms' or 'us' or 'ns'"),
        ({"ids": "hash"}, "ids='hash': expected 'prefix' or 'content'"),
        ({"order": "line"}, "order='line': expected 'file' or 'time'"),
        ({"subagent_time": "x"}, "subagent_time='x': expected 'relative' or 'absolute'"),
        ({"usage_prompt": "x"}, "usage_prompt='x': expected 'total' or 'uncached'"),
        ({"usage_absent": "x"}, "usage_absent='x': expected 'zero' or 'unknown'"),
        ({"kv_bytes_per_token": 0}, "kv_bytes_per_token=0: expected a number above 0"),
        ({"kv_bytes_per_token": float("nan")}, "kv_bytes_per_token=nan"),
        ({"kv_bytes_per_token": True}, "kv_bytes_per_token=True"),
        ({"kv_dtype": "fp8"}, "kv_dtype='fp8' says how a model's KV cache is kept, and model= is not given"),
        ({"kv_bytes_per_token": 5, "model": "m"}, "model= and kv_bytes_per_token= both say what a token takes"),
    ],
)
def test_a_wrong_argument_is_an_error_that_names_it(tmp_path: Path, given: dict[str, Any], what: str) -> None:
    with pytest.raises(TraceError, match=what):
        open_trace(jsonl(tmp_path / "t.jsonl", mooncake(16, 1)), **{"block_size": 16, **given})


def test_the_longest_line_is_bounded(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", mooncake(16, 1), mooncake(1_600, *range(100)))
    assert len(open_trace(path, block_size=16)) == 2
    with pytest.raises(
        TraceError, match=r"t\.jsonl, line 2: it is longer than 100 bytes; if that is right, give max_line="
    ):
        open_trace(path, block_size=16, max_line=100)
    assert len(open_trace(path, block_size=16, max_line=100, strict=False)) == 1


def test_bytes_of_a_token_are_given_or_those_of_a_model(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", mooncake(16, 1))
    model = tmp_path / "config.json"
    shape = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 8}
    model.write_text(json.dumps({"model_type": "llama", "torch_dtype": "bfloat16", "hidden_size": 32, **shape}))
    assert open_trace(path, block_size=16).bytes_per_token is None
    assert open_trace(path, block_size=16, kv_bytes_per_token=2.5).bytes_per_token == 2.5
    assert open_trace(path, block_size=16, model=model).bytes_per_token == 2 * 2 * 1 * 8 * 2
    assert open_trace(path, block_size=16, model=tmp_path, kv_dtype="fp8").bytes_per_token == 2 * 2 * 1 * 8


def test_cut_data_are_read_up_to_there_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes((DATA / "mooncake_conversation_trace.jsonl.gz").read_bytes()[:100_000])
    with pytest.raises(
        TraceError, match=r"t\.jsonl\.gz, line [0-9,]+: the gzip data end before they are complete"
    ) as error:
        open_trace(path, block_size=512)
    trace = open_trace(path, block_size=512, strict=False)
    assert list(trace) == list(
        open_trace(DATA / "mooncake_conversation_trace.jsonl.gz", block_size=512).first(len(trace))
    )
    assert len(trace) > 1_000
    (note,) = trace.notes
    assert (note.reason, note.line) == ("cut", len(trace) + 1)
    assert str(error.value).startswith(note.sentence)
