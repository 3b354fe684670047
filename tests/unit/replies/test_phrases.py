"""How little of a stream is parsed, and why that is enough."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.apis import PATHS
from pytest_kvcache.engines.rules import UsageRule
from pytest_kvcache.replies import Answer, Phrases, Reader, UsageReading, readings
from pytest_kvcache.replies.openai import choices
from pytest_kvcache.replies.phrases import HEAD, UNREAD, Texts
from pytest_kvcache.replies.piece import Piece
from pytest_kvcache.replies.plain import Shape, decoded

from .forms import (
    APIS,
    FORMS,
    ODD,
    anthropic,
    event,
    fast,
    outcome,
    sglang,
    vllm,
)


def parsed(answer: Answer, pieces: list[bytes], phrases: Phrases | None, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many JSON texts were read to read a stream."""
    count = 0
    loads = json.loads

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        return loads(*args, **kwargs)

    reader = Reader(answer, phrases)
    with monkeypatch.context() as patched:
        patched.setattr("pytest_kvcache.replies.answer.json.loads", counting)
        for piece in pieces:
            reader.feed(piece, 0.0)
    answer.close()
    return count


@pytest.mark.parametrize("form", sorted({*FORMS} - {"generate"}))  # each of its events has all the text so far
@pytest.mark.parametrize("crlf", [False, True])
@pytest.mark.parametrize("alone", [False, True], ids=["at once", "one by one"])
def test_plain_events_are_not_parsed(form: str, crlf: bool, alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [event(FORMS[form](f" word{n}")) for n in range(50)] + [b"data: [DONE]\n\n"]
    if crlf:
        said = [part.replace(b"\n", b"\r\n") for part in said]
    answer = Answer(APIS[form])
    counted = parsed(answer, said if alone else [b"".join(said)], None, monkeypatch)
    assert counted <= 3 + crlf  # the first one, it with another text, and at CRLF what was cut before that was known
    assert "".join(answer.text) == "".join(f" word{n}" for n in range(50))
    assert len(answer.chunks) == 50


@pytest.mark.parametrize("form", ["vllm", "sglang", "completion"])
def test_what_another_stream_said_is_not_parsed_again(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    phrases = Phrases()

    def stream(number: int) -> list[bytes]:
        finish = event(FORMS[form]("", number)).replace(b'"finish_reason":null', b'"finish_reason":"stop"')
        words = [event(FORMS[form](f" word{n}", number)) for n in range(9)]
        return [event(FORMS[form]("", number)), *words, finish, b"data: [DONE]\n\n"]

    first, second = Answer(APIS[form]), Answer(APIS[form])
    assert parsed(first, stream(1), phrases, monkeypatch) == 4  # empty, a word, it with another text, the end
    assert parsed(second, [b"".join(stream(2))], phrases, monkeypatch) == 0
    assert outcome(first)[0] == outcome(second)[0] == "".join(f" word{n}" for n in range(9))
    assert (second.finish_reason, len(second.chunks), second.failure) == ("stop", 9, None)


def test_shapes_that_are_of_no_use_are_not_learned_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [event(anthropic("a", sequence_number=n)) for n in range(100)]
    assert parsed(Answer("messages"), [b"".join(said)], None, monkeypatch) <= 100 + 5


def test_usage_in_every_event_is_read_in_every_event() -> None:
    said = [event(vllm("a", usage={"prompt_tokens": 5, "completion_tokens": n})) for n in range(1, 9)]
    answer = fast("chat", [b"".join(said)], Phrases())
    assert (answer.usage.prompt, answer.usage.completion, len(answer.chunks)) == (5, 8, 8)


def test_reasoning_and_then_text(monkeypatch: pytest.MonkeyPatch) -> None:
    phrases = Phrases()

    def stream(number: int) -> bytes:
        thought = [event(sglang("", number)).replace(b'_content":null', b'_content":"hm%d"' % n) for n in range(5)]
        return b"".join([*thought, *(event(sglang(f"so{n}", number)) for n in range(5)), *thought])

    expected = ("hm0hm1hm2hm3hm4" * 2, "so0so1so2so3so4", 15)
    for number, most in ((1, 5), (2, 0)):
        answer = Answer("chat")
        assert parsed(answer, [stream(number)], phrases, monkeypatch) <= most
        assert ("".join(answer.reasoning), "".join(answer.text), len(answer.chunks)) == expected


def test_phrases_stay_small() -> None:
    phrases = Phrases()
    for number in range(1000):
        phrases.note(b"%d" % number, Piece())
        phrases.note_texts(Texts(Shape(b"%d" % number, b""), False))
        phrases.note_texts(Texts(Shape(b"%d" % number, b""), False))
        assert phrases.said(b"%d" % number) == Piece()
        assert phrases.texts[0].shape.before == b"%d" % number
    phrases.note(b"x" * 10_000, Piece())
    assert phrases.said(b"x" * 10_000) is None
    assert sum(phrases.said(b"%d" % number) is not None for number in range(1000)) <= 64
    assert len(phrases.texts) == len(set(phrases.texts)) <= 4


def test_what_leads_an_event_is_not_read() -> None:
    rest = b'{"index":0,"delta":{"content":"a","tool_calls":[{"id":"t"}]},"finish_reason":"stop"}],"usage":{"a":1}}'
    heads = [
        b'data: {"choices":[',
        b'data:{"choices":[',
        b'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[',
        b'data: {"model":null,"system_fingerprint":"f","object":"text_completion","choices":[',
    ]
    said = []
    for head in heads:
        assert HEAD.fullmatch(head)
        body = json.loads((head + rest).removeprefix(b"data:"))
        piece = choices(body)
        piece.usage = {name: value for name, value in piece.usage.items() if name not in UNREAD}
        said.append(piece)
    assert all(piece == said[0] for piece in said)


@pytest.mark.parametrize(
    "head",
    [
        b'data: {"error":"x","choices":[',
        b'data: {"object":"error","choices":[',
        b'data: {"id":"a\\"b","choices":[',
        b'data: {"created":007,"choices":[',
        b'data: {"created":-1,"choices":[',
        b'data: {"type":"error","choices":[',
        b'data: {"detail":"x","choices":[',
        b'data: {"usage":{"prompt_tokens":1},"choices":[',
        b'data: {"prompt_token_ids":[1],"choices":[',
        b'data: {"id":"x\ny","choices":[',
        b' data: {"choices":[',
        b"data: {'choices':[",
    ],
)
def test_what_says_something_is_no_head(head: bytes) -> None:
    assert HEAD.fullmatch(head) is None


def test_a_rule_that_reads_the_head_does_without_phrases() -> None:
    rule = UsageReading(UsageRule(api="chat", prompt=("created",), cached=("usage.c",)))
    phrases = Phrases()
    for number in (1, 2):
        pieces = [event(vllm("", number, finish_reason="stop")), b"data: [DONE]\n\n"]
        assert fast("chat", pieces, phrases, (rule,)).usage.prompt == 17_000 + number


def test_a_piece_says_only_a_text() -> None:
    assert Piece(text="a", content=True).alone == "a"
    assert Piece(reasoning="a", content=True).alone == "a"
    assert Piece(text="a", reasoning="b", content=True).alone is None
    assert Piece(content=True).alone is None
    for field in fields(Piece):  # whoever adds one has to say whether it matters
        odd = {"text": "", "content": False, "reasoning": "b", "usage": {"a": 1}}.get(field.name, [True])
        piece = Piece(**{"text": "a", "content": True, field.name: odd})  # type: ignore[arg-type] # of any kind
        assert (piece.alone is None) == (field.name not in ("content", "usage")), field.name


@given(st.lists(st.text() | st.sampled_from(ODD), min_size=1, max_size=6))
def test_texts_are_decoded_one_by_one(texts: list[str]) -> None:
    for ascii_only in (True, False):
        written = [json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "replace") for text in texts]
        expected = "".join(json.loads(b'"' + text + b'"') for text in written)
        assert decoded(b"\n".join(written)) == expected


def test_halves_of_characters_stay_halves() -> None:
    assert decoded(b"\\ud83d\n\\ude00") == "\ud83d\ude00" != "😀"
    assert decoded(b"\\ud83d\\ude00") == "😀"
    assert decoded(b"\xe6\xbc\n\xa2") == "\ufffd\ufffd" != "漢"


def test_readings_know_where_they_look() -> None:
    assert {path.root for reading in readings("chat") for path in reading.paths} == {"usage", "timings"}


@pytest.mark.parametrize("api", sorted(PATHS))
def test_only_the_forms_of_openai_have_a_head(api: str) -> None:
    assert Answer(api).has_head == (api in ("chat", "completions"))
