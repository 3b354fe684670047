"""Calls of tools and token ids, whole and in pieces, from servers that leave parts of OpenAI's form out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_kvcache.replies import Answer

from . import streams
from .streams import lines, whole


def piece(*, index: object = None, id: object = None, name: object = None, arguments: object = None) -> dict[str, Any]:
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    given = {"index": index, "id": id, "function": function or None}
    return {key: value for key, value in given.items() if value is not None}


def delta(*pieces: dict[str, Any], choice: int = 0, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": choice, "delta": {"tool_calls": list(pieces)}, **more}]}


def stream(*chunks: Any) -> Answer:
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    return streams.stream("chat", lines(*chunks, end, "[DONE]"))


def call(identity: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_stream_spells_the_arguments() -> None:
    answer = stream(
        delta(piece(index=0, id="a", name="look", arguments="")),
        delta(piece(index=0, arguments='{"q":')),
        delta(piece(index=0, arguments=' "x"}')),
    )
    assert answer.tool_calls == (call("a", "look", '{"q": "x"}'),)
    assert (answer.text, answer.finish_reason, answer.failure) == ([], "tool_calls", None)
    assert list(answer.chunks) == [0.0, 1.0, 2.0]


def test_calls_at_once_are_told_apart_by_index_in_the_order_in_which_they_began() -> None:
    answer = stream(
        delta(piece(index=1, id="b", name="two", arguments="[")),
        delta(piece(index=0, id="a", name="one", arguments="(")),
        delta(piece(index=1, arguments="]"), piece(index=0, arguments=")")),
    )
    assert answer.tool_calls == (call("b", "two", "[]"), call("a", "one", "()"))


def test_calls_that_all_have_the_index_0_are_told_apart_by_id() -> None:
    answer = stream(
        delta(piece(index=0, id="a", name="one", arguments="1")),
        delta(piece(index=0, id="b", name="two", arguments="2")),
        delta(piece(index=0, arguments="2")),
        delta(piece(index=0, id="b", arguments="2")),
    )
    assert answer.tool_calls == (call("a", "one", "1"), call("b", "two", "222"))


def test_without_an_index_the_id_tells_them_apart() -> None:
    answer = stream(
        delta(piece(id="a", name="one", arguments="1")),
        delta(piece(id="b", name="two", arguments="2")),
        delta(piece(id="a", arguments="1")),
        delta(piece(arguments="1")),
    )
    assert answer.tool_calls == (call("a", "one", "11"), call("b", "two", "21"))


def test_without_index_and_id_a_name_begins_a_call() -> None:
    answer = stream(
        delta(piece(name="one", arguments="1")),
        delta(piece(arguments="1")),
        delta(piece(name="one", arguments="2")),
    )
    assert answer.tool_calls == (call("call_0", "one", "11"), call("call_1", "one", "2"))


def test_an_id_that_comes_late_or_empty() -> None:
    answer = stream(
        delta(piece(index=0, id="", name="one")), delta(piece(index=0, id="a", name="other", arguments="{}"))
    )
    assert answer.tool_calls == (call("a", "one", "{}"),)


def test_a_whole_answer_without_ids_and_with_arguments_as_an_object() -> None:
    message = {
        "content": None,
        "tool_calls": [
            {"function": {"name": "one", "arguments": {"q": 1}}},
            {"type": "function", "function": {"name": "one", "arguments": "{}"}},
            {"id": "x", "function": "nonsense"},
            "nonsense",
        ],
    }
    answer = whole("chat", {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    assert answer.tool_calls == (call("call_0", "one", '{"q": 1}'), call("call_1", "one", "{}"), call("x", "", ""))


def test_only_the_first_sample_calls() -> None:
    answer = stream(delta(piece(index=0, id="b", name="two"), choice=1), delta(piece(index=0, id="a", name="one")))
    assert [told["id"] for told in answer.tool_calls] == ["a"]
    assert stream({"choices": []}).tool_calls == ()


# --- token ids --------------------------------------------------------------------------------------------------------


def said(ids: Any, choice: int = 0, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": choice, "delta": {"content": "x"}, "token_ids": ids, **more}]}


def counted(completion: int) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": completion, "total_tokens": 9}}


def test_ids_of_a_chat_stream() -> None:
    role = {"choices": [{"index": 0, "delta": {"role": "assistant"}}], "prompt_token_ids": [5, 6, 7]}
    answer = stream(role, said([1]), said(None), said([2, 4294967295]), said([9], choice=1), counted(3))
    assert answer.prompt_ids is not None
    assert answer.output_ids is not None
    assert (answer.prompt_ids.tolist(), answer.output_ids.tolist()) == ([5, 6, 7], [1, 2, 4294967295])
    assert answer.prompt_ids.typecode == answer.output_ids.typecode == "I"


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_ids_of_whole_answers(api: str) -> None:
    choice = {"index": 0, "text": "x", "message": {"content": "x"}, "finish_reason": "stop", "token_ids": [1, 2]}
    other = {**choice, "index": 1, "token_ids": [3], "prompt_token_ids": [8]}
    prompt = {"prompt_token_ids": [5, 6]}
    body = {"choices": [choice, other], **prompt} if api == "chat" else {"choices": [{**choice, **prompt}, other]}
    answer = Answer(api, samples=2)
    answer.take_body(json.dumps({**body, "usage": {"prompt_tokens": 2, "completion_tokens": 3}}), 0.0)
    answer.close()
    assert answer.prompt_ids is not None
    assert answer.output_ids is not None
    assert (answer.prompt_ids.tolist(), answer.output_ids.tolist()) == ([5, 6], [1, 2])


def test_ids_that_are_not_all_there_are_none() -> None:
    assert stream(said([1]), said(None), counted(2)).output_ids is None
    assert stream(said(None), counted(1)).output_ids is None
    answer = stream(said([1]), said([2]))  # no usage to compare with
    assert answer.output_ids is not None
    assert answer.prompt_ids is None


@pytest.mark.parametrize("wrong", [[-1], [2**32], [1.0], ["1"], [True], "12", {"0": 1}, 7])
def test_what_is_no_list_of_ids_is_none(wrong: Any) -> None:
    answer = stream({"choices": [], "prompt_token_ids": wrong}, said(wrong))
    assert answer.prompt_ids is None
    assert answer.output_ids is None
    assert answer.failure is None
