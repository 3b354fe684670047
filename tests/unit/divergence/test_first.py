"""One planted cause each in requests that are the same otherwise: its class, its place, and what could be reused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_kvcache.divergence import first
from pytest_kvcache.model import Divergence

from .prompts import ANSWER, END_OF_TURN, RULES, SYSTEM_TURN, USER_TURN, Body, chat, ids, parting, said, tool

USER = said("user", "hi")
ALL = SYSTEM_TURN + len(RULES) + END_OF_TURN + USER_TURN + 2 + END_OF_TURN + ANSWER  # tokens of chat()
TURNS = [said("user", "one"), said("assistant", "two"), said("user", "three")]


def found(a: Body, b: Body, **more: Any) -> Divergence:
    parted = first(a, b, ids=ids(a, b), block=16, **more)
    assert parted is not None
    assert parted.token in (0, parting(*ids(a, b)))
    return parted


def test_the_tokens_of_these_prompts_are_their_characters() -> None:
    assert len(ids(chat(), chat())[0]) == ALL == 19 + 85 + 11 + 17 + 2 + 11 + 22


@pytest.mark.parametrize(
    ("cause", "left", "right", "character", "width"),
    [
        ("timestamp", "Now 2026-01-05 10:41:07.", "Now 2026-01-05 10:41:09.", 22, 19),
        ("timestamp", "Monday, 5 January 2026.", "Tuesday, 6 January 2026.", 0, 23),
        ("random_id", "Session 3f2b8c1d9e7a4650.", "Session 3f2ba9017c55e1d2.", 12, 16),
        ("counter", "Request 41 of 90.", "Request 42 of 90.", 9, 2),
    ],
)
def test_something_volatile_in_the_system_message(
    cause: str, left: str, right: str, character: int, width: int
) -> None:
    parted = found(chat(left + RULES), chat(right + RULES))
    assert (parted.cause, parted.where, parted.message, parted.part) == (cause, "system message", 0, None)
    assert parted.character == character
    assert parted.token == SYSTEM_TURN + character
    assert parted.block == (SYSTEM_TURN + character) // 16
    assert parted.tokens == ALL + len(right)
    assert parted.recoverable == ALL + len(right) - width  # all but the whole of it


def test_up_to_the_next_difference() -> None:
    left, right = f"At 10:41:07 {RULES} until 11:41:07", f"At 10:41:09 {RULES} until 11:41:09"
    parted = found(chat(left), chat(right))
    same_behind = len(f" {RULES} until 11:41:0") - len(" until") + 1  # the only word that is one token
    assert parted.recoverable == SYSTEM_TURN + len("At ") + same_behind


def test_words_of_a_date_that_are_the_same_are_no_end_of_it() -> None:
    left, right = (f"{day}, January {number}, 2026. {RULES * 3}" for day, number in (("Monday", 5), ("Tuesday", 6)))
    parted = found(chat(left), chat(right))  # "day, January " is long enough to be a run
    assert parted.recoverable == ALL + len(right) - len(RULES) - len("Tuesday, January 6, 2026")


def test_a_few_words_behind_a_date_do_not_reach_over_the_next_difference() -> None:
    date = "Monday, January 5, 2026 at 10:41:0"
    parted = found(chat(f"{date}7 UTC. Hello! Ann {RULES}"), chat(f"{date}9 UTC. Hello! Bob {RULES}"))
    assert parted.recoverable == parted.token  # no more than the date is long


def test_json_in_another_layout_up_to_the_next_difference() -> None:
    one, other = json.dumps({"b": RULES, "c": "x"}, separators=(",", ":")), json.dumps({"b": RULES, "c": "y"})
    a, b = (chat("S", said("user", "q"), said("tool", text), *TURNS) for text in (one, other))
    parted = found(a, b)
    assert (parted.token or 0) + len(RULES) < (parted.recoverable or 0) < (parted.token or 0) + len(RULES) + 20


def test_several_words_that_differ_in_a_system_prompt_move_together() -> None:
    left, right = f"Ann <ann@example.com>. {RULES}", f"Bob <bob@example.org>. {RULES}"
    parted = found(chat(left), chat(right))
    assert parted.cause == "system_prompt"
    rest = len(f">. {RULES}") + END_OF_TURN + USER_TURN + 2 + END_OF_TURN + ANSWER
    assert parted.recoverable == SYSTEM_TURN + rest


@pytest.mark.parametrize("indent", [None, 2])
def test_json_in_another_layout(indent: int | None) -> None:
    results = (
        json.dumps({"a": [1, 2], "b": RULES}, separators=(",", ":")),
        json.dumps({"a": [1, 2], "b": RULES}, indent=indent),
    )
    a, b = (chat("S", said("user", "q"), said("tool", text), *TURNS) for text in results)
    parted = found(a, b)
    assert (parted.cause, parted.recoverable) == ("whitespace", len(ids(a, b)[1]) - 1)


@pytest.mark.parametrize(
    ("left", "right", "cause"),
    [
        ('{"n": "Z\\u00fcrich", "m": 1}', '{"n": "Zürich", "m": 1}', "notation"),
        ('{"n": 1, "m": 2}', '{"n": 1.0, "m": 2}', "notation"),
        ('[{"n": 1, "m": 2}]', '[{"m": 2, "n": 1}]', "key_order"),
        ('{"n": {"a": 1, "b": 2}}', '{"n": {"b": 2.0, "a": 1}}', "key_order"),
    ],
)
def test_the_same_json_in_other_characters(left: str, right: str, cause: str) -> None:
    a, b = (chat("S", said("user", "q"), said("tool", text), *TURNS) for text in (left, right))
    assert found(a, b).cause == cause


def test_reordered_tools() -> None:
    tools = [tool(name) for name in ("read", "search", "write")]
    parted = found(chat(tools=tools), chat(tools=[tools[1], tools[0], tools[2]]))
    assert (parted.cause, parted.where, parted.message, parted.moved) == ("tool_order", "tools", None, 0)
    assert parted.character == len('[{"type": "function", "function": {"name": "')
    assert parted.tokens is not None
    assert parted.recoverable == parted.tokens - 1
    assert (parted.left, parted.right) == ("read", "search")


@pytest.mark.parametrize("question", ["hi", "who are you?"])
def test_up_to_the_next_difference_behind_reordered_tools(question: str) -> None:
    tools = [tool(name) for name in ("read", "search", "write")]
    a, b = chat(tools=tools), chat(RULES, said("user", question), tools=tools[::-1])
    parted = found(a, b)
    sorted_b = {**b, "tools": tools}  # as many tokens as b
    assert parted.tokens is not None
    assert parted.recoverable == min(parting(*ids(a, sorted_b)), parted.tokens - 1)


def test_up_to_the_next_difference_behind_changed_whitespace() -> None:
    a, b = chat(f"Now:\n{RULES * 2}!?{RULES}"), chat(f"Now:\r\n{RULES * 2}?!{RULES}")
    parted = found(a, b)
    assert parted.cause == "whitespace"
    assert parted.recoverable == SYSTEM_TURN + len(f"Now:\r\n{RULES * 2}")


def test_up_to_the_next_difference_in_a_later_message() -> None:
    a = chat("S", said("user", f"x\n{RULES}"), said("assistant", "Yes, qwert."), said("user", RULES))
    b = chat("S", said("user", f"x\r\n{RULES}"), said("assistant", "No, plugh!"), said("user", RULES))
    same = chat("S", said("user", f"x\r\n{RULES}"), *a["messages"][2:])
    parted = found(a, b)
    assert parted.cause == "whitespace"
    assert parted.recoverable == parting(*ids(same, b))


def test_up_to_the_next_difference_behind_messages_that_are_the_same() -> None:
    rest = [said("user", RULES * 3), said("assistant", "Yes, qwert."), said("user", RULES)]
    other = [rest[0], said("assistant", "No, plugh!"), rest[2]]
    parted = found(chat("S:\nx", *rest), chat("S:\r\nx", *other))
    assert parted.recoverable == parting(*ids(chat("S:\r\nx", *rest), chat("S:\r\nx", *other)))


def test_the_first_tool_that_moved() -> None:
    a, b, c = tool("a"), tool("b"), tool("c")
    assert found(chat(tools=[a, b, c]), chat(tools=[a, c, b])).moved == 1


def test_reordered_keys_of_a_tool() -> None:
    one = tool("read", type="object", properties={})
    other = tool("read", properties={}, type="object")
    parted = found(chat(tools=[one]), chat(tools=[other]))
    assert (parted.cause, parted.where) == ("key_order", "tools")
    assert parted.character == len('[{"type": "function", "function": {"name": "read", "parameters": {"')
    assert parted.tokens is not None
    assert parted.recoverable == parted.tokens - 1


@pytest.mark.parametrize("before", ["", "Result: ", '[1] {"not": JSON} '])
def test_reordered_keys_in_the_result_of_a_tool(before: str) -> None:
    result = {"name": "x", "size": 7, "items": [1, 2]}
    texts = [before + json.dumps(result), before + json.dumps(dict(reversed(result.items())))]
    a, b = (chat(RULES, USER, said("tool", text), said("user", "go")) for text in texts)
    parted = found(a, b)
    assert (parted.cause, parted.where, parted.message) == ("key_order", "message 2 (tool)", 2)
    assert parted.character == len(before) + 2


def test_reordered_keys_in_the_arguments_of_a_call() -> None:
    def called(arguments: Mapping[str, Any]) -> Body:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps(arguments)}}
        return chat(RULES, USER, {"role": "assistant", "content": None, "tool_calls": [call]}, said("tool", "ok"))

    parted = found(called({"a": 1, "b": 2}), called({"b": 2, "a": 1}))
    assert (parted.cause, parted.message) == ("key_order", 2)


@pytest.mark.parametrize(
    ("change", "character"),
    [
        (lambda text: text.replace("; ", ";\r\n"), RULES.index("; ") + 1),
        (lambda text: text + "\n", len(RULES)),
        (lambda text: " " + text, 0),
        (lambda text: text.replace("; ", ";  "), RULES.index("; ") + 2),
    ],
)
def test_changed_whitespace(change: Any, character: int) -> None:
    parted = found(chat(), chat(change(RULES)))
    assert (parted.cause, parted.where, parted.character) == ("whitespace", "system message", character)
    assert parted.token == SYSTEM_TURN + character
    assert parted.tokens is not None
    assert parted.recoverable == parted.tokens - 1


def test_dropped_turns() -> None:
    turns = [*TURNS, said("assistant", "four"), said("user", "five")]
    grown = [*turns[2:], said("assistant", "six"), said("user", "seven")]
    parted = found(chat(RULES, *turns), chat(RULES, *grown))
    assert (parted.cause, parted.where, parted.message) == ("truncated_history", "message 1 (user)", 1)
    assert parted.token == SYSTEM_TURN + len(RULES) + END_OF_TURN + USER_TURN


def test_changed_system_prompt() -> None:
    parted = found(chat(RULES), chat(RULES.replace("poiuyt", "asdfgh")))
    assert (parted.cause, parted.where, parted.message) == ("system_prompt", "system message", 0)
    assert parted.character == RULES.index("poiuyt")
    assert parted.token == SYSTEM_TURN + RULES.index("poiuyt")
    assert parted.recoverable == ALL - len("poiuyt")


@pytest.mark.parametrize(
    ("one", "other"), [(chat(), chat(None)), (chat(None), chat()), (chat(), chat(None, said("system", "x"), USER))]
)
def test_a_system_prompt_that_is_not_there_or_another(one: Body, other: Body) -> None:
    assert found(one, other).cause == "system_prompt"


@pytest.mark.parametrize(
    ("one", "other", "detail"),
    [
        ([tool("a"), tool("b")], [tool("a")], "2 and 1 of them"),
        ([tool("a")], [tool("b")], "others"),
        ([tool("a")], None, "1 and 0 of them"),
        ([tool("a", type="object")], [tool("a", type="array")], ""),
    ],
)
def test_changed_tools(one: Any, other: Any, detail: str) -> None:
    parted = found(chat(tools=one), chat(tools=other))
    assert (parted.cause, parted.where, parted.message, parted.detail) == ("tools", "tools", None, detail)


def test_a_date_in_the_description_of_a_tool() -> None:
    one, other = ([{"name": "a", "description": f"Today is 2026-01-0{day}. {RULES}"}] for day in (5, 6))
    assert found(chat(tools=one), chat(tools=other)).cause == "timestamp"


@pytest.mark.parametrize(
    ("cause", "where", "field", "left", "right"),
    [
        ("model", "model", "model", "a", "b"),
        ("adapter", "adapter", "lora_path", None, "x"),
        ("salt", "cache_salt", "cache_salt", "a", "b"),
        ("salt", "cache_salt", "cache_salt", None, "b"),
    ],
)
def test_another_cache(cause: str, where: str, field: str, left: Any, right: Any) -> None:
    parted = found(chat(**{field: left}), chat(**{field: right}))
    assert (parted.cause, parted.where, parted.token, parted.block) == (cause, where, 0, 0)
    assert parted.recoverable == ALL - 1  # everything is the same, and the last token is computed all the same


def test_only_what_separates_caches_of_this_server_is_a_salt() -> None:
    one, other = chat(extra_key="a"), chat(extra_key="b")
    assert first(one, other, ids=ids(one, other)) is None
    assert found(one, other, isolation=("extra_key",)).where == "extra_key"


def test_a_model_that_is_filled_in_is_no_other_model() -> None:
    assert first(chat(model="a"), chat()) is None


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_images_whose_tokens_are_the_same() -> None:
    one, other = (chat(None, said("user", [{"type": "text", "text": "Is it?"}, image(url)])) for url in ("a", "b"))
    same = [1] * 40
    parted = first(one, other, ids=(same, same), block=16)
    assert parted is not None
    assert (parted.cause, parted.message, parted.part, parted.token) == ("image", 0, 1, None)
    assert parted.recoverable is None
    assert parted.shared == "Is it?"


def test_the_same_image_written_in_another_way_is_the_same() -> None:
    data = "iVBORw0KGgo="
    one = chat(None, said("user", [image(f"data:image/png;base64,{data}")]))
    other = chat(None, said("user", [{"type": "image", "source": {"type": "base64", "data": data}}]))
    assert first(one, other) is None


def test_a_message_that_was_text_is_an_image_now() -> None:
    one, other = chat(None, said("user", [{"type": "text", "text": "a"}])), chat(None, said("user", [image("u")]))
    parted = first(one, other)
    assert parted is not None
    assert (parted.cause, parted.part) == ("image", 0)


@pytest.mark.parametrize("late", [False, True])
def test_what_stands_first_in_the_prompt_is_told_first(late: bool) -> None:
    one = chat(f"At 10:41:07 {RULES}", tools=[tool("a")], cache_salt="s")
    other = chat(f"At 10:41:09 {RULES}", tools=[tool("b")], cache_salt="s")
    assert found(one, other).cause == "timestamp"
    assert found(one, {**other, "cache_salt": "t"}).cause == "salt"


class TestNothingIsLost:
    @pytest.mark.parametrize("known", [False, True])
    def test_equal_requests(self, known: bool) -> None:
        assert first(chat(), chat(), ids=ids(chat(), chat()) if known else None) is None

    @pytest.mark.parametrize("known", [False, True])
    def test_a_conversation_that_grows(self, known: bool) -> None:
        a = chat(RULES, *TURNS, tools=[tool("x")])
        b = chat(RULES, *TURNS, said("assistant", "four"), said("user", "At 10:41:07?"), tools=[tool("x")])
        assert first(a, b, ids=ids(a, b) if known else None) is None
        assert first(b, a, ids=None) is None  # taken back: all of it is there

    def test_a_prompt_that_goes_on(self) -> None:
        assert first({"prompt": "a b"}, {"prompt": "a b c"}) is None
        assert first({"prompt": [1, 2]}, {"prompt": [1, 2, 3]}) is None

    def test_a_field_that_is_not_rendered(self) -> None:
        a = chat(RULES, {**USER, "reasoning_content": "hm"})
        b = chat(RULES, USER)
        assert first(a, b, ids=ids(a, b)) is None  # this template does not write reasoning
        parted = first(a, b)
        assert parted is not None
        assert parted.cause == "template_history"

    def test_a_last_token_that_joined_with_the_answer(self) -> None:
        a, b = chat(None, USER), chat(None, USER, said("assistant", "x"), USER)
        assert first(a, b, ids=([1, 2, 3], [1, 2, 33, 4])) is None

    def test_tokens_that_are_not_known_of_both(self) -> None:
        parted = first(chat(), chat("x"), ids=([], [1, 2]))
        assert parted is not None
        assert (parted.token, parted.tokens, parted.recoverable) == (None, None, None)


class TestAnotherQuestion:
    def test_is_as_it_should_be(self) -> None:
        parted = found(chat(RULES, said("user", "who?")), chat(RULES, said("user", "why so?")))
        assert (parted.cause, parted.message, parted.character) == ("text", 1, 2)
        assert parted.expected
        assert (parted.advice, parted.recoverable) == ("", None)

    @pytest.mark.parametrize("pair", [("On 2026-01-05?", "On 2026-01-07?"), ("request 41?", "request 42?")])
    def test_whatever_it_asks_for(self, pair: tuple[str, str]) -> None:
        a, b = (chat(RULES, said("user", text)) for text in pair)
        assert found(a, b).expected

    @pytest.mark.parametrize(("behind", "expected"), [(39, True), (40, False)])
    def test_with_a_date_and_the_same_text_behind_it(self, behind: int, expected: bool) -> None:
        a, b = (chat(RULES, said("user", f"At 10:41:0{second}{RULES[:behind]}")) for second in (7, 9))
        assert found(a, b).expected == expected

    @pytest.mark.parametrize(("behind", "expected"), [(199, True), (200, False)])
    def test_with_the_same_text_behind_it(self, behind: int, expected: bool) -> None:
        a, b = (chat(RULES, said("user", f"{word}{(RULES * 3)[:behind]}")) for word in ("who?", "why!"))
        assert found(a, b).expected == expected

    def test_in_a_later_turn(self) -> None:
        a, b = chat(RULES, *TURNS), chat(RULES, *TURNS[:-1], said("user", "other"), said("assistant", "x"), USER)
        assert found(a, b).expected

    def test_in_front_of_a_document_is_not(self) -> None:
        document = RULES * 3
        a, b = (chat(None, said("user", question + document)) for question in ("Who? ", "Wherever? "))
        parted = found(a, b)
        assert (parted.cause, parted.expected) == ("text", False)
        assert parted.recoverable == USER_TURN + 2 + len("? " + document) + END_OF_TURN + ANSWER

    def test_behind_a_date_and_a_document_the_date_is_told(self) -> None:
        a, b = (
            chat(None, said("user", f"At {t} {RULES} {q}")) for t, q in (("10:41:07", "Who?"), ("10:41:09", "Why?"))
        )
        parted = found(a, b)
        assert (parted.cause, parted.expected, parted.character) == ("timestamp", False, 10)

    def test_the_prompt_of_a_completion(self) -> None:
        parted = found({"prompt": RULES + "who"}, {"prompt": RULES + "why"})
        assert (parted.where, parted.message, parted.character, parted.expected) == ("prompt", None, 86 + 1, True)


def test_other_answers_in_the_history_are_text() -> None:
    a, b = (chat(RULES, USER, said("assistant", text), said("user", "go")) for text in ("Yes.", "No, no."))
    parted = found(a, b)
    assert (parted.cause, parted.where, parted.expected) == ("text", "message 2 (assistant)", False)


def test_prompts_of_token_ids_bring_their_own_tokens() -> None:
    parted = first({"prompt": [1, 2, 3, *range(100, 120)]}, {"prompt": [1, 2, 4, *range(100, 120)]}, block=2)
    assert parted is not None
    assert (parted.where, parted.token, parted.block, parted.tokens) == ("prompt", 2, 1, 23)
