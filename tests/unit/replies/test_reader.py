"""Events that are found by their bytes say what they say when every one of them is parsed, whatever the pieces are."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_kvcache.replies import Phrases
from pytest_kvcache.replies.phrases import HEAD

from .forms import (
    APIS,
    FORMS,
    OTHERS,
    TEXTS,
    cut,
    event,
    fast,
    in_full,
    other_events,
    outcome,
    vllm,
)
from .streams import DATA


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
            said.append(list(other_events(form, text, number))[draw(st.integers(0, OTHERS - 1))])
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
    for other in other_events(form, text, 1):
        said = [*plain[:place], other, *plain[place:]]
        for pieces in ([b"".join(said)], said, [b"".join(said[:3]), b"".join(said[3:])]):
            expected = outcome(in_full(APIS[form], pieces))
            assert outcome(fast(APIS[form], pieces)) == expected
            assert outcome(fast(APIS[form], pieces, phrases)) == expected


@pytest.mark.parametrize("form", sorted(FORMS))
def test_what_cannot_stand_in_a_string_and_what_can(form: str) -> None:
    raw = [
        rb"\u12g4", rb"\u12", rb"\u00e9", rb"\uD83D", rb"\uDE00", rb"\x", rb"\/", b"\\", rb"\\", b'\\"', b'"', b"\t",
        b"\0", b"a\nb", b"a\nb\\t", b"a\n\nb", b"\xff", b"\xe6\xbc", b"\xa2", b"\x7f", rb"\n", "漢".encode(), b"",
        b"\xef\xbb\xbf", b"a" * 999,
    ]  # fmt: skip
    first, second = (event(FORMS[form]("@", 1)) for _ in range(2))
    for text in raw:
        odd = first.replace(b"@", text)
        for said in ([first, odd], [first, second, odd, second], [first, second, odd, odd, second, second]):
            for pieces in (said, [b"".join(said)], [first, b"".join(said[1:])]):
                assert outcome(fast(APIS[form], pieces)) == outcome(in_full(APIS[form], pieces))


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("form", sorted(FORMS))
def test_line_ends_of_any_kind_cut_anywhere(form: str, ends: bytes) -> None:
    said = [event(FORMS[form](word, 1)) for word in ("a", "b", "c", "d")]
    stream = b"".join(said).replace(b"\n", ends)
    expected = outcome(in_full(APIS[form], [stream]))
    assert expected[0] == "abcd"
    for at in range(len(said[0]) - 5, len(said[0]) * 3 + 9, 3):
        pieces = [stream[:at], stream[at : at + 7], stream[at + 7 :]]
        assert outcome(fast(APIS[form], pieces)) == outcome(in_full(APIS[form], pieces))


@pytest.mark.parametrize(
    "twice",
    [
        b'"content":"@","content":"#"',  # the last one holds
        b'"content":"#","text":"@"',  # nobody reads the other one
        b'"content":"#"},"more":{"content":"@"',
    ],
)
def test_a_text_that_stands_twice_in_an_event(twice: bytes) -> None:
    plain = event(vllm("x")).replace(b'"content":"x"', twice)
    for words in ([b"aa", b"ba", b"bb", b"ab"], [b"aa", b"ab", b"ba", b"bb"]):
        said = [event(vllm("")), *(plain.replace(b"@", word[:1]).replace(b"#", word[1:]) for word in words)]
        for pieces in (said, [b"".join(said)]):
            assert outcome(fast("chat", pieces)) == outcome(in_full("chat", pieces))


def test_an_event_that_is_as_long_as_the_head_of_others_and_none() -> None:
    finish = event(vllm("", 1, finish_reason="stop"))
    other = b'data: {"error":"x"' + b" " * 200
    head = HEAD.match(finish)
    assert head is not None
    odd = other[: len(head[0]) - 12] + b',"choices":[' + finish[len(head[0]) :]
    phrases = Phrases()
    for said in ([event(vllm("a", 1)), event(vllm("b", 1)), finish], [event(vllm("a", 1)), event(vllm("", 1)), odd]):
        expected = outcome(in_full("chat", said))
        assert outcome(fast("chat", said, phrases)) == expected
    assert expected[5] is not None


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
