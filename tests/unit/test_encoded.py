"""A body with long texts is, to the byte, what the standard library makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.encoded import check, encoded

LONG = "The quick brown fox jumps over the lazy dog. " * 10
ODD = ["", "\0", '"\0', "\0\0", '"', "\\", '\\"', "\n\r\t", "\x1f", "\x7f", "é", "\ud800", "\\u0000", '"\\u0000"']
TEXTS = st.builds(
    lambda a, b, c: a + b * 3 + c, st.sampled_from(ODD), st.sampled_from(["", LONG]), st.sampled_from(ODD)
)
BODIES = st.dictionaries(
    st.sampled_from(["messages", "prompt", "text", "model", "n", "stop"]),
    TEXTS
    | st.none()
    | st.integers()
    | st.lists(st.integers(0, 9) | TEXTS, max_size=4)
    | st.lists(st.dictionaries(st.sampled_from(["role", "content", "name"]), TEXTS | st.lists(TEXTS, max_size=2))),
)


def plain(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


@given(BODIES)
def test_it_is_what_the_standard_library_writes(body: dict[str, Any]) -> None:
    assert encoded(body) == plain(body)


@pytest.mark.parametrize("code", range(128))
@pytest.mark.parametrize("field", ["prompt", "messages"])
def test_every_character(code: int, field: str) -> None:
    text = LONG + chr(code) + LONG + chr(code)
    body = {"a": 1, field: [{"role": "user", "content": text}] if field == "messages" else text, "b": None}
    assert encoded(body) == plain(body)
    assert json.loads(encoded(body)) == body


def test_the_body_is_left_as_it_is() -> None:
    body = {"messages": [{"role": "user", "content": LONG}, {"role": "user", "content": "short"}], "prompt": LONG}
    before = json.dumps(body)
    encoded(body)
    assert json.dumps(body) == before


def test_long_texts_are_not_escaped_one_character_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def dumps(value: object) -> str:
        text = json.dumps(value, separators=(",", ":"))
        seen.append(len(text))
        return text

    monkeypatch.setattr("pytest_kvcache.encoded._dumps", dumps)
    encoded({"messages": [{"role": "user", "content": LONG + '\n"' + LONG}], "prompt": LONG})
    assert len(seen) == 1
    assert seen[0] < 100


@given(BODIES)
def test_what_is_json_passes_the_check(body: dict[str, Any]) -> None:
    check(body)


@pytest.mark.parametrize("field", ["messages", "prompt", "n"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", {(1, 2): 3}])
def test_what_is_no_json_does_not(field: str, value: object) -> None:
    for body in ({field: value}, {field: [value]}, {field: [{"content": value}, LONG]}, {field: {"content": value}}):
        with pytest.raises((TypeError, ValueError)):
            json.dumps(body, allow_nan=False)
        with pytest.raises((TypeError, ValueError)):
            check(body)
