"""Conversations that were cut, summarised or edited."""

from __future__ import annotations

import pytest

from pytest_kvcache.divergence import first

from .prompts import chat, ids, rendered, said

SYSTEM = said("system", "Xyzzy.")
PAST = [said(role, f"{role} {number}") for number in range(4) for role in ("user", "assistant")]
NOW = said("user", "now")
NEXT = [said("assistant", "then"), said("user", "next")]
LONG = "Plugh " * 20


def cause(a: list[dict[str, object]], b: list[dict[str, object]]) -> tuple[str, int | None] | None:
    parted = first({"messages": a}, {"messages": b})
    return None if parted is None else (parted.cause, parted.message)


@pytest.mark.parametrize("dropped", [1, 2, 3, 4, 7, 8])
def test_older_turns_are_dropped(dropped: int) -> None:
    assert cause([SYSTEM, *PAST, NOW], [SYSTEM, *PAST[dropped:], NOW, *NEXT]) == ("truncated_history", 1)


@pytest.mark.parametrize("dropped", [1, 2, 3, 4, 6])
def test_a_window_of_as_many_messages_that_always_ends_alike(dropped: int) -> None:
    turns = [*PAST, *(said(role, f"more {role} {number}") for number in range(3) for role in ("user", "assistant"))]
    a, b = turns[:8], turns[dropped : dropped + 8]
    assert cause([SYSTEM, *a, NOW], [SYSTEM, *b, NOW]) == ("truncated_history", 1)


def test_one_of_many_messages_that_are_said_again_and_again_is_edited() -> None:
    turns = [said(role, text) for _ in range(5) for role, text in (("user", "go on"), ("assistant", "done"))]
    assert cause([*turns, NOW], [*turns[:4], said("user", "stop"), *turns[5:], NOW, *NEXT]) == ("text", 4)


def test_turns_in_the_middle_are_dropped() -> None:
    assert cause([SYSTEM, *PAST, NOW], [SYSTEM, *PAST[:2], *PAST[6:], NOW, *NEXT]) == ("truncated_history", 3)


@pytest.mark.parametrize("kept", [[], PAST[6:]])
def test_older_turns_become_a_summary(kept: list[dict[str, object]]) -> None:
    summary = said("user", "Summary of the conversation so far: plugh")
    assert cause([SYSTEM, *PAST, NOW], [SYSTEM, summary, *kept, NOW, *NEXT]) == ("truncated_history", 1)
    assert cause([SYSTEM, *PAST, NOW], [SYSTEM, summary, *kept, said("user", "other")]) == ("truncated_history", 1)


def test_a_summary_that_does_not_say_so_before_a_message_that_nobody_says_twice() -> None:
    long = said("user", LONG)
    assert cause([SYSTEM, *PAST, long], [SYSTEM, said("user", "plugh"), long]) == ("truncated_history", 1)
    assert cause([SYSTEM, *PAST, NOW], [SYSTEM, said("user", "plugh"), NOW]) == ("text", 1)  # said again, perhaps


def test_the_result_of_a_tool_is_emptied() -> None:
    a = [SYSTEM, NOW, said("tool", LONG), *NEXT]
    b = [SYSTEM, NOW, said("tool", "[cleared]"), *NEXT, *NEXT]
    assert cause(a, b) == ("truncated_history", 2)
    assert cause(a, [SYSTEM, NOW, said("tool", LONG[:-9]), *NEXT]) == ("text", 2)


def test_an_edited_message_is_no_truncation() -> None:
    edited = [*PAST[:4], said("user", "edited"), *PAST[5:]]
    assert cause([SYSTEM, *PAST, NOW], [SYSTEM, *edited, NOW, *NEXT]) == ("text", 5)


def test_the_last_turns_are_taken_back() -> None:
    assert cause([SYSTEM, *PAST, NOW], [SYSTEM, *PAST[:4]]) is None
    assert cause([SYSTEM, *PAST, NOW], [SYSTEM, *PAST, said("user", "another")]) == ("text", 9)


def test_what_a_longer_history_would_have_kept() -> None:
    """Between the turns stands the same markup, and the first of it is in another place."""
    words = [" ".join(f"{number}{word}" for word in range(100, 130)) for number in range(5)]
    turns = [said(role, text) for text in words for role in ("user", "assistant")]
    a, b = chat("S", *turns[:9]), chat("S", *turns[2:], NOW)
    parted = first(a, b, ids=ids(a, b))
    assert parted is not None
    assert parted.cause == "truncated_history"
    kept = len(rendered(chat("S", *turns[2:9])))
    assert kept - 12 <= (parted.recoverable or 0) <= kept


def test_reasoning_that_is_not_sent_back() -> None:
    a = chat(None, NOW, said("assistant", "<think>\nPlugh.\n</think>\n\nYes."), NOW)
    b = chat(None, NOW, said("assistant", "Yes."), NOW, *NEXT)
    parted = first(a, b)
    assert parted is not None
    assert (parted.cause, parted.detail, parted.message) == ("template_history", "think block", 1)
    assert parted.advice.startswith("send the reasoning back with its answer")  # no template is known to be at fault


@pytest.mark.parametrize(("field", "other"), [("reasoning_content", None), ("reasoning", "Xyzzy.")])
def test_reasoning_beside_the_content(field: str, other: str | None) -> None:
    answer = {**said("assistant", "Yes."), field: "Plugh."}
    parted = first(chat(None, NOW, answer, NOW), chat(None, NOW, {**answer, field: other}, NOW))
    assert parted is not None
    assert (parted.cause, parted.detail, parted.message) == ("template_history", "reasoning", 1)


@pytest.mark.parametrize(("one", "other"), [("order 41", "order 42"), ("on 2026-01-05", "on 2026-01-06")])
def test_other_conversations_that_begin_with_another_number(one: str, other: str) -> None:
    a, b = (
        [said("user", f"My {asked} {LONG}"), said("assistant", said_), NOW]
        for asked, said_ in ((one, "A"), (other, "B"))
    )
    parted = first(chat("S", *a), chat("S", *b))
    assert parted is not None
    assert not parted.expected  # much is the same behind it
    a[0], b[0] = said("user", f"My {one}?"), said("user", f"My {other}?")
    parted = first(chat("S", *a), chat("S", *b))
    assert parted is not None
    assert parted.expected
    other_words = first(chat("S", *a), chat("S", said("user", "Why?"), *b[1:]))
    assert other_words is not None
    assert not other_words.expected  # where a question is not the last, only its numbers are known to be its own
    parted = first(chat("S", *a), chat("S", b[0], *a[1:]))
    assert parted is not None
    assert not parted.expected  # the same conversation, with another clock in its past


@pytest.mark.parametrize("behind", [[NOW], []])
def test_another_role(behind: list[dict[str, object]]) -> None:
    parted = first(chat(None, said("user", "x"), *behind), chat(None, said("assistant", "x"), *behind))
    assert parted is not None
    assert (parted.cause, parted.detail, parted.expected) == ("text", "another role", False)
