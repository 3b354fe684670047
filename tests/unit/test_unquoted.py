"""Messages of servers that quote what they were sent: no text of the prompt is left in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.unquoted import HIDDEN, unquoted

SAID = "the quick brown fox jumps over the lazy dog"


@pytest.mark.parametrize(
    ("message", "left"),
    [
        (f"bad input {SAID!r} here", f"bad input {HIDDEN} here"),
        (f"bad input {SAID} here", f"bad input {HIDDEN} here"),
        (f"cut off: {SAID[:30]}…", f"cut off: {HIDDEN}…"),
        (f"cut off: …{SAID[10:]}", f"cut off: …{HIDDEN}"),
        (f"{SAID} and {SAID}", f"{HIDDEN} and {HIDDEN}"),
        ("planted fault: try again later", "planted fault: try again later"),
        ("the quick brown", "the quick brown"),  # as much as chance may have it
        ("", ""),
    ],
)
def test_what_is_left_of_a_message(message: str, left: str) -> None:
    assert unquoted(message, {"model": "planted fault: try again later", "prompt": SAID}) == left


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": [SAID, "other"]},
        {"messages": [{"role": "user", "content": SAID}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": SAID}]}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": SAID}}]}]},
        {"tools": [{"function": {"description": SAID}}]},
        {"system": SAID},
        {"input": SAID},
        {"contents": [{"parts": [{"text": SAID}]}]},
    ],
    ids=str,
)
def test_wherever_it_stands(body: dict[str, Any]) -> None:
    assert unquoted(f"refused: {SAID}", body) == f"refused: {HIDDEN}"


def test_short_texts_are_hidden_where_they_are_quoted() -> None:
    body = {"messages": [{"role": "user", "content": "no"}], "prompt": [1, 2, True]}
    assert unquoted("'no' is \"no\" to user: none", body) == f"{HIDDEN} is {HIDDEN} to user: none"


@given(st.text(min_size=24, max_size=80), st.sampled_from([str, repr, json.dumps]), st.integers(0, 60))
def test_no_run_of_a_text_is_left(text: str, form: Callable[[str], str], shift: int) -> None:
    quoted = " ".join(form(text).split())
    left = unquoted("~" * shift + quoted, {"prompt": text})
    assert not any(quoted[at : at + 24] in left for at in range(len(quoted) - 23))
