"""The event-stream grammar of the HTML standard, whatever pieces the network delivers."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.sse import Event, EventStream

DATA = Path(__file__).parent.parent / "data" / "vllm-0.32.0"


def read(*pieces: bytes) -> list[Event]:
    stream = EventStream()
    return [event for piece in pieces for event in stream.feed(piece)]


def data(*pieces: bytes) -> list[str]:
    return [event.data for event in read(*pieces)]


def one_by_one(text: bytes) -> list[bytes]:
    return [text[i : i + 1] for i in range(len(text))]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_every_line_ending_at_every_split(end: bytes) -> None:
    text = b"data: a" + end + b"data: b" + end + end + b"data: c" + end + end
    expected = ["a\nb", "c"]
    assert data(text) == expected
    assert data(*one_by_one(text)) == expected
    for cut in range(len(text)):
        assert data(text[:cut], text[cut:]) == expected


def test_comments_are_ignored_anywhere() -> None:
    assert data(b":\n\n: keep-alive\n\ndata: a\n: inside\n\n: after\n\n") == ["a"]


def test_at_most_one_space_is_taken_off() -> None:
    assert data(b"data:x\n\ndata: x\n\ndata:  x\n\ndata:[DONE]\n\n") == ["x", "x", " x", "[DONE]"]


def test_several_data_lines_are_joined() -> None:
    assert data(b'data: {"choices":[\r\n', b'data: {"index":0}]}\r\n', b"\r\n") == ['{"choices":[\n{"index":0}]}']


def test_field_without_colon_and_empty_data() -> None:
    # "data" alone is an empty line of data: it dispatches an event with empty data only together with another line
    assert data(b"data\ndata\n\n") == ["\n"]
    assert data(b"data:\n\n") == [""]


def test_unknown_fields_and_leading_space_fields_are_ignored() -> None:
    assert data(b"retry: 10\nfoo: bar\n data: no\ndata: yes\n\n") == ["yes"]


def test_type_is_per_event_and_id_lasts() -> None:
    assert read(b"event: ping\nid: 7\ndata: a\n\ndata: b\n\nevent: lost\n\nid: x\0y\ndata: c\n\n") == [
        Event("a", "ping", "7"),
        Event("b", "message", "7"),
        Event("c", "message", "7"),
    ]


def test_byte_order_mark_only_at_the_very_start() -> None:
    assert data(*one_by_one(b"\xef\xbb\xbfdata: a\n\n")) == ["a"]
    assert data(b"data: a\n\n\xef\xbb\xbfdata: b\n\n") == ["a"]


def test_what_is_not_dispatched_is_discarded() -> None:
    assert data(b"data: a\n\ndata: half") == ["a"]
    assert data(b"data: a\n\ndata: whole line\n") == ["a"]


def test_characters_split_between_pieces() -> None:
    text = "data: é漢🎉\n\n".encode()
    assert data(*one_by_one(text)) == ["é漢🎉"]


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*.sse")))
def test_recorded_streams_of_a_real_engine_in_any_pieces(name: str) -> None:
    text = (DATA / name).read_bytes()
    expected = [line[6:] for line in text.decode().split("\n") if line.startswith("data: ")]
    assert data(text) == expected
    assert data(*one_by_one(text)) == expected


LINES = st.sampled_from(
    [b"data: a", b"data:b", b"data", b": c", b"event: e", b"id: 1", b"", b"", b"junk", b"data: \xc3\xa9"]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(st.tuples(LINES, ENDS), max_size=30), st.lists(st.integers(0, 200), max_size=10))
def test_pieces_never_matter(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    text = b"".join(line + end for line, end in lines)
    points = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(points)]
    assert read(*pieces) == read(text) == oracle(text)


def oracle(text: bytes) -> list[Event]:
    """The standard's algorithm on the whole text at once, written separately."""
    events, buffer, kind, last_id = [], None, "", ""
    lines = text.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]
    for line in lines:
        if line == "":
            if buffer is not None:
                events.append(Event(buffer[:-1], kind or "message", last_id))
            buffer, kind = None, ""
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "data":
                buffer = (buffer or "") + value + "\n"
            elif name == "event":
                kind = value
            elif name == "id":
                last_id = value
    return events
