"""Events that are found by their bytes say what they say when every one of them is parsed, whatever the pieces are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_kvcache.engines.rules import UsageRule
from pytest_kvcache.replies import Answer, Phrases, Reader, UsageReading, readings
from pytest_kvcache.replies.openai import choices
from pytest_kvcache.replies.phrases import HEAD, UNREAD
from pytest_kvcache.replies.piece import Piece
from pytest_kvcache.replies.plain import decoded
from pytest_kvcache.sse import EventStream

from .streams import DATA


def in_full(api: str, pieces: list[bytes], usage: tuple[UsageReading, ...] = ()) -> Answer:
    """Every event parsed; the stamp of a piece is its number."""
    answer, events = Answer(api, usage), EventStream()
    for number, piece in enumerate(pieces):
        for event in events.feed(piece):
            answer.take_event(event.data, float(number))
    answer.close()
    return answer


def fast(api: str, pieces: list[bytes], phrases: Phrases | None = None, usage: tuple[UsageReading, ...] = ()) -> Answer:
    answer = Answer(api, usage)
    reader = Reader(answer, phrases)
    for number, piece in enumerate(pieces):
        reader.feed(piece, float(number))
    answer.close()
    return answer


def outcome(answer: Answer) -> tuple[Any, ...]:
    return (
        "".join(answer.text),
        "".join(answer.reasoning),
        list(answer.chunks),
        answer.finish_reason,
        answer.done,
        answer.failure,
        answer.usage,
        answer.tool_calls,
        answer.prompt_ids,
        answer.output_ids,
    )


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    points = sorted({0, len(stream), *(at % (len(stream) + 1) for at in cuts)})
    return [stream[a:b] for a, b in pairwise(points)]


# --- streams ---------------------------------------------------------------------------------------------------------


def event(value: object, *, spaced: bool = False, ascii_only: bool = True) -> bytes:
    separators = (", ", ": ") if spaced else (",", ":")
    return (
        b"data: "
        + json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode("utf-8", "replace")
        + b"\n\n"
    )


def vllm(text: str, number: int = 0, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None, "token_ids": None}
    choice |= {name: more.pop(name) for name in list(more) if name in choice}
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 17_000 + number, "model": "m"}
    return {**head, "choices": [choice], **more}


def sglang(text: str, number: int = 0, **more: Any) -> dict[str, Any]:
    delta = {"reasoning_content": None, "content": text}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, "matched_stop": None}
    head = {"id": f"{number:032x}", "object": "chat.completion.chunk", "created": 17_000 + number, "model": "m"}
    return {**head, "choices": [choice], **more}


def llamacpp(text: str, number: int = 0, **more: Any) -> dict[str, Any]:
    choice = {"finish_reason": None, "index": 0, "delta": {"content": text}}
    return {
        "choices": [choice],
        "created": 17_000 + number,
        "id": f"c{number}",
        "object": "chat.completion.chunk",
        **more,
    }


def completion(text: str, number: int = 0, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": None, "stop_reason": None}
    return {"id": f"cmpl-{number}", "object": "text_completion", "created": 17_000, "choices": [choice], **more}


def anthropic(text: str, number: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}, "index": 0, **more}


FORMS = {"vllm": vllm, "sglang": sglang, "llamacpp": llamacpp, "completion": completion, "anthropic": anthropic}
APIS = {"vllm": "chat", "sglang": "chat", "llamacpp": "chat", "completion": "completions", "anthropic": "messages"}

ODD = [
    "", " ", '"', "\\", '\\"', '"content":"', '","content":"x', "\n", "\r\n", "\x00", "\x7f", "é", "漢", "🎉", "\ud83d",
    "\ude00", "data: [DONE]", '"}}]}\n\ndata: {"choices":[', "\u2028", "\\u0041", "A" * 300, ".", "\ufeff", "a\\",
    "\\\\",
]  # fmt: skip
TEXTS = st.sampled_from(ODD) | st.text(max_size=6) | st.sampled_from(["a", "b", " the", " of"])


def _other_event(form: str, text: str, number: int) -> Iterator[bytes]:
    """Events that look like the plain one and say something else, or that are none."""
    make = FORMS[form]
    plain = event(make(text, number))
    yield event(make(text, number, usage={"prompt_tokens": 7, "completion_tokens": 2}))
    yield event(make(text, number, usage={"input_tokens": True, "prompt_tokens": "x"}))
    yield event(make(text, number, error={"message": "died"}))
    yield event(make(text, number, prompt_token_ids=[1, 2]))
    yield event(make(text, number, timings={"prompt_n": 3, "cache_n": 1}))
    yield event(make(text, number, usage=None))
    yield event(make(text, number), spaced=True)
    yield event(make(text, number), ascii_only=False)
    yield plain.replace(b"null", b'"stop"', 1)
    yield plain.replace(b'"finish_reason":null', b'"finish_reason":"length"')
    yield plain.replace(b'"finish_reason":null', b'"finish_reason":"abort"')
    yield plain.replace(b'"index":0', b'"index":1')
    yield plain.replace(b'"token_ids":null', b'"token_ids":[5]')
    yield plain.replace(b'"content":', b'"reasoning_content":')
    yield plain.replace(b'"content":', b'"refusal":')
    yield plain.replace(b'"content":"', b'"content":"x","content":"')
    yield plain.replace(b'"content":', b'"tool_calls":[{"index":0,"function":{"name":"f"}}],"content":')
    yield plain.replace(b'"content":"', b'"content":["')
    yield plain.replace(b'"choices":[', b'"choices":[{"index":0,"delta":{"content":"double"}},')
    yield plain.replace(b"data: ", b"data:")
    yield plain.replace(b"data: ", b"data:  ")
    yield plain.replace(b"data: ", b"\xef\xbb\xbfdata: ")
    yield plain.replace(b"data: ", b"event: message\nid: 3\ndata: ")
    yield plain.replace(b"data: ", b": a comment\ndata: ")
    yield plain.replace(b"\n\n", b"\ndata:\n\n")
    yield plain.replace(b"\n\n", b"\n: comment\n\n")
    yield plain.replace(b"\n\n", b"\r\n\r\n")
    yield plain.replace(b"\n\n", b"\r\r")
    yield plain.replace(b"\n\n", b"\n")
    yield plain.replace(b"data: {", b'data: {"object":"error","message":"m",')
    yield plain.replace(b'"chat.completion.chunk"', b'"error"')
    yield plain.replace(b'"created":1', b'"created":01')
    yield plain.replace(b'"id":"', b'"id":"\x01')
    yield plain.replace(b'"id":"', b'"id":"\xff')
    yield plain.replace(b'"content":"', b'"content":"\x02')
    yield plain.replace(b'"content":"', b'"content":"\xe6\xbc')
    yield plain.replace(b'"content":"', b'"content":"\\x')
    yield plain.replace(b'"content":"', b'"content":"\\u12')
    yield plain.replace(b'"}', b'\\"}', 1)
    yield b"data: [DONE]\n\n"
    yield b"data:[DONE]\n\n"
    yield b": keep-alive\n\n"
    yield b"\n"
    yield b"data: {broken\n\n"
    yield b"data: []\n\n"


OTHERS = len(list(_other_event("vllm", "a", 0)))


@st.composite
def streams(draw: st.DrawFn, form: str) -> bytes:
    number = draw(st.integers(0, 3))
    role = {"role": "assistant", "content": ""}
    make = FORMS[form]
    said = [event(make("", number))] if draw(st.booleans()) else []
    if draw(st.booleans()):
        said.append(event(make("", number, delta=role)) if form == "vllm" else b": open\n\n")
    for kind in draw(st.lists(st.integers(0, 7), max_size=24)):
        text = draw(TEXTS)
        if kind < 6:
            said.append(event(make(text, number)))
        elif kind == 6:
            said.append(event(make(text, number), ascii_only=False))
        else:
            said.append(list(_other_event(form, text, number))[draw(st.integers(0, OTHERS - 1))])
    ends = [
        event(make("", number, finish_reason="stop")) if form == "vllm" else b"",
        event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}),
        b"data: [DONE]\n\n",
    ]
    said += ends[: draw(st.integers(0, 3))]
    stream = b"".join(said)
    if draw(st.integers(0, 4)) == 0:
        stream = stream.replace(b"\n", b"\r\n")
    if draw(st.integers(0, 6)) == 0:
        stream = b"\xef\xbb\xbf" + stream
    return stream


@pytest.mark.parametrize("form", sorted(FORMS))
@given(data=st.data())
def test_by_bytes_is_as_in_full(form: str, data: st.DataObject) -> None:
    phrases = Phrases()
    for _ in range(data.draw(st.integers(1, 3))):  # streams of one server
        pieces = cut(data.draw(streams(form)), data.draw(st.lists(st.integers(0, 10_000), max_size=6)))
        expected = outcome(in_full(APIS[form], pieces))
        assert outcome(fast(APIS[form], pieces)) == expected
        assert outcome(fast(APIS[form], pieces, phrases)) == expected


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("place", [0, 1, 2, 5])
@pytest.mark.parametrize("text", ["a", '"', "\\", "", '"content":"', "é"])
def test_whatever_stands_between_plain_events(form: str, place: int, text: str) -> None:
    phrases, plain = Phrases(), [event(FORMS[form](word, 1)) for word in ("x", " y", "z", " of", "\n", " the")]
    for other in _other_event(form, text, 1):
        said = [*plain[:place], other, *plain[place:]]
        for pieces in ([b"".join(said)], said, [b"".join(said[:3]), b"".join(said[3:])]):
            expected = outcome(in_full(APIS[form], pieces))
            assert outcome(fast(APIS[form], pieces)) == expected
            assert outcome(fast(APIS[form], pieces, phrases)) == expected


@pytest.mark.parametrize("form", sorted(FORMS))
def test_what_cannot_stand_in_a_string_and_what_can(form: str) -> None:
    raw = [
        rb"\u12g4", rb"\u12", rb"\u00e9", rb"\uD83D", rb"\uDE00", rb"\x", rb"\/", b"\\", rb"\\", b'\\"', b'"', b"\t",
        b"\0", b"a\nb", b"a\n\nb", b"\xff", b"\xe6\xbc", b"\xa2", b"\x7f", rb"\n", "漢".encode(), b"",
        b"\xef\xbb\xbf", b"a" * 999,
    ]  # fmt: skip
    first, second = (event(FORMS[form]("@", 1)) for _ in range(2))
    for text in raw:
        odd = first.replace(b"@", text)
        for said in ([first, odd], [first, second, odd, second], [first, second, odd, odd, second, second]):
            for pieces in (said, [b"".join(said)], [first, b"".join(said[1:])]):
                assert outcome(fast(APIS[form], pieces)) == outcome(in_full(APIS[form], pieces))


@pytest.mark.parametrize("name", sorted(str(path.relative_to(DATA)) for path in DATA.glob("*/*.sse")))
def test_recorded_streams_one_by_one_and_all_at_once(name: str) -> None:
    sent = (DATA / name).read_bytes()
    api = next(
        (api for api in ("messages", "responses") if api in name), "completions" if "completion_" in name else "chat"
    )
    phrases = Phrases()
    events = [part + b"\n\n" for part in sent.split(b"\n\n")[:-1]]
    halves = [half for part in events for half in (part[: len(part) // 2], part[len(part) // 2 :])]
    for pieces in ([sent], events, halves, [sent], [b": hello\n\n", sent]):
        expected = outcome(in_full(api, pieces))
        assert expected[5] is None
        assert outcome(fast(api, pieces, phrases)) == expected


@given(
    st.sampled_from(sorted(APIS)),
    st.binary(max_size=80),
    st.integers(0, 400),
    st.lists(st.integers(0, 900), max_size=4),
)
@example("vllm", b"\xef", 0, [])
def test_bytes_of_any_kind_in_a_stream(form: str, odd: bytes, at: int, cuts: list[int]) -> None:
    stream = b"".join(event(FORMS[form](word)) for word in ("a", "b", "c", "d"))
    at %= len(stream)
    pieces = cut(stream[:at] + odd + stream[at:], cuts)
    phrases = Phrases()
    fast(APIS[form], [stream], phrases)
    expected = outcome(in_full(APIS[form], pieces))
    assert outcome(fast(APIS[form], pieces)) == expected
    assert outcome(fast(APIS[form], pieces, phrases)) == expected


# --- that it is fast -------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("form", sorted(FORMS))
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


# --- the ground it stands on -----------------------------------------------------------------------------------------


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
