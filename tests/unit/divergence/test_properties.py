"""Whatever the bodies: no exception, no text where none was asked for, and the same class from either side."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.divergence import Sent, advice, between, first, sentence, volatile

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    *("messages", "tools", "model", "cache_salt", "prompt", "system", "instructions", "input", "contents", "text"),
    *("input_ids", "lora_path", "chat_template_kwargs", "systemInstruction"),
)
KEYS = (
    *("role", "content", "parts", "tool_calls", "function", "name", "arguments", "type", "text", "image_url", "url"),
    *("source", "data", "reasoning_content", "output", "input"),
)
KNOWN = st.recursive(
    st.sampled_from(["user", "system", "assistant", "tool", "data:image/png;base64,AAAA", "tool_use", "10:41:07"])
    | JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
BODIES = st.dictionaries(st.sampled_from(FIELDS), KNOWN, max_size=4)
IDS = st.lists(st.integers(0, 3), max_size=30)
TEXTS = st.text(max_size=20)
SECRET = st.text('αβγδεζηΑΒΓΔ:{}[]"\n', min_size=8, max_size=60)  # nothing of it is a word of ours


@settings(max_examples=200, derandomize=True)
@given(BODIES, BODIES, IDS, IDS, st.none() | st.tuples(TEXTS, TEXTS))
def test_any_bodies(a: dict[str, Any], b: dict[str, Any], left: list[int], right: list[int], texts: Any) -> None:
    for found in (
        first(a, b),
        first(a, b, ids=(left, right), block=4, texts=texts),
        first(a, a, ids=(left, right)),
        between([Sent(a, left), Sent(b, right), Sent(a)], block=4),
        *(found for found, _ in volatile(a)),
    ):
        if found is not None:
            assert sentence(found, show_text=True)
            assert advice(found) or found.expected
            assert found.recoverable is None or 0 <= found.recoverable <= len(right) or found.requests
    assert first(a, a) is None


def grams(text: str) -> set[str]:
    return {text[at : at + 4] for at in range(len(text) - 3)}


@settings(max_examples=200, derandomize=True)
@given(SECRET, SECRET, st.sampled_from(["system", "user", "assistant", "tool", "tools", "prompt", "role"]))
def test_no_text_is_told_unless_it_was_asked_for(one: str, other: str, place: str) -> None:
    a, b = _with(one, place), _with(other, place)
    for found in (first(a, b), between([Sent(a), Sent(b)]), *(found for found, _ in volatile(a))):
        if found is not None:
            told = sentence(found, show_text=False) + advice(found) + repr(found)
            assert not (grams(one) | grams(other)) & grams(told)


def _with(text: str, place: str) -> dict[str, Any]:
    text = f"At 10:41:07 {text}" if place == "system" else text
    if place == "prompt":
        return {"prompt": text}
    if place == "tools":
        return {"messages": [], "tools": [{"name": text, "description": text}]}
    role = text if place == "role" else place
    return {"messages": [{"role": role, "content": text, "name": text}, {"role": "user", "content": "x"}]}


PLANTED = st.sampled_from(
    ["10:41:07", "10:41:09", "request 41", "request 42", "9f8e7d6c5b4a3928", "a1b2c3d4e5f60718", " ", "\n"]
)


@settings(max_examples=200, derandomize=True)
@given(st.text("xyz ", max_size=9), PLANTED, PLANTED, st.text("pqr ", max_size=9))
def test_either_side_gives_the_same_class(before: str, one: str, other: str, behind: str) -> None:
    a, b = ({"messages": [{"role": "system", "content": before + planted + behind}]} for planted in (one, other))
    there, back = first(a, b), first(b, a)
    assert (there is None) == (back is None)
    if there is not None and back is not None:
        assert (there.cause, there.character, there.left) == (back.cause, back.character, back.right)
