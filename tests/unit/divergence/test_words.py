"""What people read, and what they must not read."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from pytest_kvcache.divergence import TITLES, advice, first, sentence
from pytest_kvcache.divergence.advice import advice_for
from pytest_kvcache.divergence.found import Found
from pytest_kvcache.model import Divergence
from pytest_kvcache.model.divergence import Class

from .prompts import RULES, chat, said, tool

DATED = Divergence(
    "timestamp",
    "system message",
    message=0,
    character=33,
    token=1310,
    block=81,
    tokens=4096,
    recoverable=3412,
    shared="Now: 2026-01-05 10:41:0",
    left="7",
    right="9",
    advice="move the date after the tools block",
    requests=(3, 4),
)


def test_a_sentence_without_text() -> None:
    assert sentence(DATED, show_text=False) == (
        "requests 3 and 4 part at token 1,310 (block 81) in the system message, character 33: timestamp or date"
    )


def test_a_sentence_with_text() -> None:
    assert sentence(DATED, show_text=True).endswith(': timestamp or date; "…Now: 2026-01-05 10:41:0" then "7" / "9"')


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"requests": ()}, "the requests part at token 1,310 (block 81) in the system message, character 33: "),
        ({"block": None}, "requests 3 and 4 part at token 1,310 in the system message, character 33: "),
        ({"token": None, "block": None}, "requests 3 and 4 part in the system message, character 33: "),
        ({"character": None}, "requests 3 and 4 part at token 1,310 (block 81) in the system message: "),
        ({"part": 2}, "requests 3 and 4 part at token 1,310 (block 81) in the system message, part 2, character 33: "),
        ({"where": "message 3 (user)"}, "requests 3 and 4 part at token 1,310 (block 81) in message 3 (user), char"),
        ({"requests": (3,)}, "request 3 will part from the next at token 1,310 (block 81) in the system message"),
    ],
)
def test_only_what_is_known_is_said(changes: dict[str, object], line: str) -> None:
    assert sentence(replace(DATED, **changes), show_text=False).startswith(line)  # type: ignore[arg-type] # any field


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({"detail": "think block"}, ": timestamp or date (think block)"),
        ({"pairs": 9, "of_pairs": 9}, ": timestamp or date, as in 9 of 9 pairs"),
        ({"expected": True}, ": timestamp or date, as is usual where questions differ"),
    ],
)
def test_what_more_is_known(changes: dict[str, object], end: str) -> None:
    assert sentence(replace(DATED, **changes), show_text=False).endswith(end)  # type: ignore[arg-type] # any field


def test_text_is_one_line_whatever_is_in_it() -> None:
    odd = replace(DATED, shared="", left='a\r\n\x1b[31m\ud800"', right="é…🎉")
    assert sentence(odd, show_text=True).endswith(': timestamp or date; "a\\r\\n\\x1b[31m\\ud800"" / "é…🎉"')
    alone = replace(DATED, requests=(0,), right="")
    assert sentence(alone, show_text=True).endswith('"…Now: 2026-01-05 10:41:0" then "7"')


def test_advice_ends_with_what_it_gives_back() -> None:
    assert advice(DATED) == "move the date after the tools block: 3,412 of 4,096 tokens would be reusable"
    for unknown in ({"recoverable": None}, {"tokens": None}, {"recoverable": 1310}):  # the last one gives nothing back
        assert advice(replace(DATED, **unknown)) == "move the date after the tools block"
    assert advice(replace(DATED, advice="")) == ""


def test_every_class_has_a_title_and_an_advice() -> None:
    assert set(TITLES) == set(get_args(Class))
    told = {cause: advice_for(Found(cause, "x"), before_tools=False) for cause in TITLES}
    assert all(told.values())
    assert len(set(told.values())) == len(told)


@pytest.mark.parametrize(
    ("where", "tools", "expected"),
    [
        ("system message", True, "move the date after the tools block"),
        ("system prompt", True, "move the date after the tools block"),
        ("system message", False, "move the date to the end of the prompt"),
        ("message 1 (user)", True, "move the date to the end of the prompt"),
        ("tools", True, "move the date to the end of the prompt"),
    ],
)
def test_where_to_move_a_date(where: str, tools: bool, expected: str) -> None:
    assert advice_for(Found("timestamp", where), before_tools=tools) == expected


def test_tools_in_the_request_decide_where_a_date_goes() -> None:
    one, other = (chat(f"At 10:41:0{second} {RULES}", tools=[tool("a")]) for second in (7, 9))
    found = first(one, other)
    assert found is not None
    assert found.advice == "move the date after the tools block"


def test_what_is_shown_is_short() -> None:
    found = first(chat(RULES * 99 + "a" * 999 + "!"), chat(RULES * 99 + "b" * 999 + "!"))
    assert found is not None
    assert max(map(len, (found.shared, found.left, found.right))) <= 60
    assert "shared" not in repr(found)  # a repr ends up in logs
    parts = [{"type": "text", "text": RULES}, {"type": "image_url", "image_url": {"url": "a"}}]
    found = first(chat(None, said("user", parts)), chat(None, said("user", parts[:1])))
    assert found is not None
    assert found.shared == RULES[-60:]
