"""Whatever stands in a file: a row, a row left out, or an error of ours, and never a word of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_kvcache.errors import TraceError
from pytest_kvcache.traces.check import RowError

from .forms import Form

NAMES = {
    "weka": ("id", "block_size", "hash_id_scope", "requests", "t", "type", "in", "out", "hash_ids", "think_time"),
    "otel": (
        *("spans", "resourceSpans", "scopeSpans", "trace_id", "context", "name", "start_time", "startTimeUnixNano"),
        *("attributes", "key", "value", "intValue", "arrayValue", "values", "gen_ai.operation.name", "session.id"),
        *("gen_ai.usage.input_tokens", "gen_ai.usage.cache_read.input_tokens", "gen_ai.input.messages", "role"),
        *("gen_ai.system_instructions", "gen_ai.tool.definitions", "parts", "content", "type"),
    ),
    "bodies": (
        *("messages", "prompt", "input", "body", "payload", "request_json", "text_input", "api", "url", "session_id"),
        *("role", "content", "type", "text", "tool_calls", "tools", "system", "instructions", "user", "model"),
        *("timestamp", "delay", "response_json", "usage", "prompt_tokens", "status_code", "output_length"),
    ),
}
WORDS = (
    *(
        "local",
        "subagent",
        "n",
        "chat",
        "messages",
        "responses",
        "completions",
        "generate",
        "text",
        "image",
        "tool_use",
    ),
    *("tool_call", "tool_call_response", "reasoning", "user", "2024-01-01T00:00:00Z", "17", "[]", '{"usage": {}}'),
    *("secret", "\ud800", ""),
)


def values(names: tuple[str, ...]) -> st.SearchStrategy[Any]:
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 70),
        st.sampled_from([10**9, 10**18, 2**63, 2**70, 10**400, 0.5, -1.5, 1e300]),
        st.sampled_from(WORDS),
    )
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(names), inner, max_size=5)
        ),
        max_leaves=12,
    )


@pytest.mark.parametrize("name", NAMES)
def test_any_documents(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    form = Form(tmp_path_factory.mktemp("any"), name)
    options = {} if name == "weka" else {"tokenizer": "builtin", "block_size": 2}

    @settings(max_examples=60)
    @given(st.lists(values(NAMES[name]), min_size=1, max_size=3), st.booleans())
    @example([{"requests": [], "id": ["secret"]}], False)
    def holds(documents: list[Any], strict: bool) -> None:
        texts = [json.dumps(document) for document in documents]
        try:
            items = form.items(*texts, strict=strict, **options)
        except TraceError as error:
            assert strict or not isinstance(error, RowError)  # noqa: PT017 - there need not be one
            assert "secret" not in str(error)  # noqa: PT017 - likewise
        else:
            left_out = [item.sentence for item in items if not isinstance(item, tuple)]
            assert "secret" not in " ".join((*left_out, *(note.sentence for note in form.notes.all())))

    holds()


@settings(max_examples=60)
@given(st.lists(st.text('0,1."-: Z\r\tsecret\u0663', max_size=30), min_size=1, max_size=3), st.booleans())
def test_any_tables(tmp_path_factory: pytest.TempPathFactory, lines: list[str], strict: bool) -> None:
    for name, header in (("azure", "TIMESTAMP,ContextTokens,GeneratedTokens"), ("bodies", "request_json,time")):
        form = Form(tmp_path_factory.getbasetemp(), name)
        options = {"tokenizer": "builtin", "block_size": 2} if name == "bodies" else {}
        try:
            form.items(header, *lines, strict=strict, **options)
        except TraceError as error:
            assert strict
            assert "secret" not in str(error)  # noqa: PT017 - likewise
