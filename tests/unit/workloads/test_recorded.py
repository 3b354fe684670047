"""Files of prompts and requests, in every form and in every state of repair."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.workloads import WorkloadBuilder
from pytest_kvcache.workloads.bodies import Bodies

Write = Callable[..., Path]

CHAT = {"messages": [{"role": "user", "content": "hello"}], "cache_salt": "s", "tools": [{"type": "function"}]}
TEXT = {"model": "adapter", "prompt": "once", "max_tokens": 3}
RESPONSE = {"input": "hi", "max_output_tokens": 9}


def lines(*values: Any, end: str = "\n") -> bytes:
    return "".join(json.dumps(value, ensure_ascii=False) + end for value in values).encode()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_(content: bytes, name: str = "file") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write_


def read(path: Path, **options: Any) -> Bodies:
    return WorkloadBuilder().prompts(path, **options)


def requests(given: Bodies) -> list[tuple[str, Mapping[str, Any]]]:
    return list(zip(given.apis, given.bodies, strict=True))


# --- bodies ----------------------------------------------------------------------------------------------------------


def test_bodies_of_every_api_are_told_apart(write: Write) -> None:
    given = read(write(lines(CHAT, TEXT, RESPONSE), "trace.jsonl"))
    assert requests(given) == [("chat", CHAT), ("completions", TEXT), ("responses", RESPONSE)]
    assert (given.source, given.sessions, given.warm) == ("trace.jsonl", (), 0)


@pytest.mark.parametrize(
    "content",
    [
        lines(CHAT, TEXT, end="\r\n"),
        b"\xef\xbb\xbf" + lines(CHAT, TEXT),
        b"\n  \n" + lines(CHAT) + b"\r\n\n" + lines(TEXT).rstrip(b"\n"),
        gzip.compress(lines(CHAT, TEXT), mtime=0),
        gzip.compress(lines(CHAT), mtime=0) + gzip.compress(lines(TEXT), mtime=0),
        json.dumps([CHAT, TEXT], indent=2).encode(),
        json.dumps([CHAT, TEXT]).encode(),
    ],
    ids=["CRLF", "BOM", "blank lines", "gzip", "two gzip members", "a list over lines", "a list"],
)
def test_the_same_requests_in_other_wrappings(write: Write, content: bytes) -> None:
    assert requests(read(write(content))) == [("chat", CHAT), ("completions", TEXT)]


def test_rows_of_a_batch(write: Write) -> None:
    def row(number: int, url: str, body: Any) -> dict[str, Any]:
        return {"custom_id": f"r{number}", "method": "POST", "url": url, "body": body}

    claude = {"messages": CHAT["messages"], "max_tokens": 5}
    given = read(
        write(
            lines(
                row(1, "/v1/chat/completions", CHAT),
                row(2, "/v1/completions", TEXT),
                row(3, "/v1/responses", RESPONSE),
                row(4, "https://api.example.com/v1/messages", claude),
                row(5, "/api/generate", {"prompt": "x"}),
            )
        )
    )
    assert requests(given) == [
        ("chat", CHAT),
        ("completions", TEXT),
        ("responses", RESPONSE),
        ("messages", claude),
        ("ollama", {"prompt": "x"}),
    ]


def test_bodies_are_wrapped_with_a_form_of_their_own(write: Write) -> None:
    given = read(write(lines({"body": CHAT, "api": "messages"}, {"body": TEXT})))
    assert requests(given) == [("messages", CHAT), ("completions", TEXT)]


def test_sessions_beside_and_around_bodies(write: Write) -> None:
    rows = [
        {**CHAT, "session": "a"},
        {"body": CHAT, "session_id": 7},
        {**TEXT, "conversation_id": "a"},
        TEXT,
        {**TEXT, "session": None, "session_id": "7"},
    ]
    given = read(write(lines(*rows)))
    assert given.sessions == ("a", "7", "a", None, "7")
    assert [body for _, body in requests(given)] == [CHAT, CHAT, TEXT, TEXT, TEXT]  # and are not sent


def test_what_is_wrapped_keeps_a_field_of_that_name(write: Write) -> None:
    body = {**TEXT, "session_id": "the engine's own"}
    given = read(write(lines({"body": body, "session": "a"})))
    assert (given.sessions, given.bodies) == (("a",), (body,))


# --- ShareGPT and lines ----------------------------------------------------------------------------------------------

SHARED = {
    "id": "q1",
    "conversations": [
        {"from": "system", "value": "be kind"},
        {"from": "human", "value": "one"},
        {"from": "gpt", "value": "two"},
        {"from": "user", "value": "three"},
        {"from": "assistant", "value": "four"},
    ],
}
OTHER = {"conversations": [{"from": "human", "value": "five"}]}


@pytest.mark.parametrize(
    "content",
    [json.dumps([SHARED, OTHER], indent=1).encode(), lines(SHARED, OTHER), json.dumps([SHARED, OTHER]).encode()],
    ids=["list over lines", "one a line", "list"],
)
@pytest.mark.parametrize("format", ["auto", "sharegpt"])
def test_every_turn_of_the_human_is_a_request(write: Write, content: bytes, format: str) -> None:
    given = read(write(content), format=format)
    said = [[(m["role"], m["content"]) for m in body["messages"]] for body in given.bodies]
    first = [("system", "be kind"), ("user", "one")]
    assert said == [first, [*first, ("assistant", "two"), ("user", "three")], [("user", "five")]]
    assert set(given.apis) == {"chat"}
    assert given.sessions[0] == given.sessions[1] != given.sessions[2]


def test_one_prompt_a_line(write: Write) -> None:
    content = "first prompt\n\n  second with spaces  \r\n[INST] third [/INST]\nfourth\u2028still\x0bfourth".encode()
    assert requests(read(write(content))) == [
        ("completions", {"prompt": text})
        for text in ("first prompt", "  second with spaces  ", "[INST] third [/INST]", "fourth\u2028still\x0bfourth")
    ]


def test_a_first_line_decides_and_can_be_overruled(write: Write) -> None:
    assert requests(read(write(b"[INST] a [/INST]\n"))) == [("completions", {"prompt": "[INST] a [/INST]"})]
    path = write(b'{"a template": of mine}\nb\n')
    with pytest.raises(WorkloadError, match=r"line 1: no JSON, column \d+: .*; if these are plain prompts, say format"):
        read(path)
    assert len(read(path, format="lines").bodies) == 2
    with pytest.raises(WorkloadError, match="line 1: no JSON"):
        read(write(b"plain"), format="bodies")


# --- arguments -------------------------------------------------------------------------------------------------------


def test_limit_and_warm(write: Write) -> None:
    content = lines(CHAT, TEXT) + b"{broken"
    given = read(write(content), limit=2, warm=1)
    assert (len(given.bodies), given.warm) == (2, 1)  # what stands behind is not read
    with pytest.raises(WorkloadError, match="line 3: no JSON"):
        read(write(content), limit=3)
    with pytest.raises(WorkloadError, match="warm=2 leaves nothing to measure of 2"):
        read(write(lines(CHAT, TEXT)), warm=2)


def test_limit_counts_the_turns_of_conversations(write: Write) -> None:
    assert len(read(write(lines(SHARED, OTHER)), limit=1).bodies) == 1


def test_max_tokens_is_for_those_that_say_none(write: Write) -> None:
    rows = [
        CHAT,
        {**CHAT, "max_completion_tokens": 4},
        TEXT,
        {**TEXT, "max_tokens": None},
        {"input": "hi"},
        RESPONSE,
        {"body": CHAT, "api": "messages"},
    ]
    given = read(write(lines(*rows)), max_tokens=8)
    assert given.bodies == (
        {**CHAT, "max_tokens": 8},
        rows[1],
        TEXT,
        {**TEXT, "max_tokens": 8},
        {"input": "hi", "max_output_tokens": 8},
        RESPONSE,
        {**CHAT, "max_tokens": 8},
    )


@pytest.mark.parametrize(
    ("api", "given", "limited"),
    [
        ("generate", {}, {"sampling_params": {"max_new_tokens": 8}}),
        ("generate", {"sampling_params": {"n": 2}}, {"sampling_params": {"n": 2, "max_new_tokens": 8}}),
        ("generate", {"sampling_params": {"max_new_tokens": 3}}, {"sampling_params": {"max_new_tokens": 3}}),
        ("generate", {"sampling_params": [{"n": 2}]}, {"sampling_params": [{"n": 2}]}),
        ("completion", {}, {"n_predict": 8}),
        ("completion", {"n_predict": 3}, {"n_predict": 3}),
        ("gemini", {"generationConfig": None}, {"generationConfig": {"maxOutputTokens": 8}}),
        ("converse", {}, {"inferenceConfig": {"maxTokens": 8}}),
        ("ollama", {}, {"options": {"num_predict": 8}}),
    ],
)
def test_max_tokens_has_the_name_that_the_form_gives_it(write: Write, api: str, given: Any, limited: Any) -> None:
    (body,) = read(write(lines({"api": api, "body": {"x": 1, **given}})), max_tokens=8).bodies
    assert body == {"x": 1, **limited}


@pytest.mark.parametrize(
    "options", [{"limit": 0}, {"limit": True}, {"limit": 1.5}, {"max_tokens": 0}, {"max_tokens": "8"}, {"format": "x"}]
)
def test_arguments_that_are_refused(write: Write, options: dict[str, Any]) -> None:
    with pytest.raises(WorkloadError, match=f"prompts: {next(iter(options))}="):
        read(write(lines(CHAT)), **options)


# --- damage ----------------------------------------------------------------------------------------------------------

SECRET = "sesame"
DAMAGED = [
    (lines(CHAT) + b'{"prompt": "' + SECRET.encode(), "line 2: no JSON"),
    (lines(CHAT) + b'"' + SECRET.encode() + b'"\n', "line 2: expected a JSON object, got a text"),
    (lines(CHAT) + b"7\n", "line 2: expected a JSON object, got a number"),
    (lines(CHAT, {"text": SECRET}), "line 2: a body needs one of messages, prompt, input, and has none of them"),
    (lines(CHAT, {"prompt": SECRET, "messages": []}), "line 2: .* and has several of them"),
    (lines(CHAT) + b'\n{"prompt": "\xff"}\n', r"line 3: byte 13 of it is no UTF-8"),
    (lines(CHAT) + b'{"prompt": "x", "p": NaN}\n', "line 2: no JSON: NaN is no number"),
    (lines(CHAT) + b'{"prompt": "x", "p": 1e999}\n', "line 2: no JSON: a number is too large"),
    (lines(CHAT) + b'{"prompt": ' + b"[" * 100_000 + b"\n", "line 2: "),
    (lines(CHAT, {"body": SECRET}), "line 2: 'body' is a text; expected a JSON object"),
    (lines(CHAT, {"body": CHAT, "api": SECRET}), "line 2: its 'api' is none of completions"),
    (lines(CHAT, {"body": CHAT, "api": [SECRET]}), "line 2: its 'api' is none of completions"),
    (lines(CHAT, {"body": CHAT, "url": f"/v1/{SECRET}"}), "line 2: its 'url' is none of /v1/completions"),
    (lines(CHAT, {**CHAT, "session": [SECRET]}), "line 2: 'session' is a list; expected a text or a whole number"),
    (lines(CHAT, {**CHAT, "session": True}), "line 2: 'session' is true or false"),
    (lines(CHAT, {"conversations": SECRET}), "line 2: expected 'conversations', a list of turns, got a text"),
    (
        lines(CHAT, {"conversations": [SECRET]}),
        "line 2, turn 1: expected an object with 'from' and 'value', got a text",
    ),
    (lines(CHAT, {"conversations": [{"from": SECRET, "value": "x"}]}), "line 2, turn 1: its 'from' is none of human"),
    (lines(CHAT, {"conversations": [{"from": "human"}]}), "line 2, turn 1: its 'value' is nothing; expected a text"),
    (json.dumps([CHAT, SECRET]).encode(), "entry 2 of the list: expected a JSON object, got a text"),
    (json.dumps([CHAT, CHAT], indent=1).encode()[:-20], r"line \d+: no JSON"),
    (b"\n[{},\n\n{]", "line 4: no JSON, column 2"),
    (gzip.compress(lines(*[CHAT] * 500), mtime=0)[:-30], r"the gzip data break off in line \d+"),
    (gzip.compress(lines(CHAT), mtime=0)[:12] + b"\xff" * 40, "the gzip data break off in line 1"),
    (b"", "holds no requests"),
    (b"\n \r\n", "holds no requests"),
    (b"[]", "holds no requests"),
]


@pytest.mark.parametrize(("content", "told"), DAMAGED)
def test_damage_is_named_by_its_line_and_not_shown(write: Write, content: bytes, told: str) -> None:
    with pytest.raises(WorkloadError, match=told) as caught:
        read(write(content, "some.jsonl"))
    assert "some.jsonl" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"no\.jsonl cannot be read: No such file"):
        read(tmp_path / "no.jsonl")
    with pytest.raises(WorkloadError, match="cannot be read: Is a directory"):
        read(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["messages", "prompt", "input", "body", "api", "url", "session", "conversations", "from", "value"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=400, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=st.one_of(st.binary(max_size=60), JSON.map(lambda value: json.dumps(value).encode())), at=st.integers(0, 2))
def test_any_line_is_read_or_named(write: Write, line: bytes, at: int) -> None:
    good = [json.dumps(CHAT).encode()] * 2
    content = [*good[:at], line.replace(b"\n", b""), *good[at:]]
    path = write(b"\n".join(content), "any.jsonl")
    told = _told(path, "bodies" if at == 0 else "auto")
    in_list = at == 0 and line.lstrip().startswith(b"[")  # then the whole file is taken for one list
    assert told is None or ("any.jsonl" in told and (f"line {at + 1}" in told or in_list))


def _told(path: Path, format: str) -> str | None:
    """What an error says, None when the file is read."""
    try:
        read(path, format=format)
    except WorkloadError as error:
        return str(error)
    return None


@settings(max_examples=200, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(1, 10_000), packed=st.booleans(), listed=st.booleans())
def test_a_file_that_breaks_off_is_never_read_in_part(write: Write, cut: int, packed: bool, listed: bool) -> None:
    rows = [CHAT, SHARED, TEXT, {"body": CHAT, "session": "x"}]
    content = json.dumps(rows).encode() if listed else lines(*rows).rstrip(b"\n")
    content = gzip.compress(content, mtime=0) if packed else content
    ends = set() if packed or listed else {len(lines(*rows[:number])) - less for number in (1, 2, 3) for less in (0, 1)}
    cut = cut % (len(content) - 2) + 2
    if cut in ends or cut == len(content):
        return
    with pytest.raises(WorkloadError, match=r"line \d|holds no requests"):
        read(write(content[:cut]))
