"""What a conversation says next: the history of an agent, fresh heads, words of its own, and what cannot be had."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.errors import WorkloadError
from pytest_kvcache.model import Exchange, Failure, Request, ServerFacts
from pytest_kvcache.workloads import WorkloadBuilder
from pytest_kvcache.workloads.builtin import common_words
from pytest_kvcache.workloads.conversation import Conversation, Conversations

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"properties": {"where": {}}}}}
SALTED = ServerFacts(engine="sim", model="m", block_size=16, isolation=("cache_salt",))
UNSALTED = ServerFacts(engine="openai", model="m", isolation=("prompt_cache_key",))


@dataclass
class Site:
    """As much of a site as a conversation asks for."""

    facts: ServerFacts = SALTED
    nonce: str = "n"
    token_ids: Mapping[str, Any] = field(default_factory=lambda: {"return_token_ids": True})


def bound(site: Site | None = None, **given: Any) -> Conversations:
    workload = WorkloadBuilder().conversation(**given)
    return asyncio.run(workload.bind(site or Site()))  # type: ignore[arg-type] # a part of a site


def answer(text: str = "yes", calls: tuple[Mapping[str, Any], ...] = (), **more: Any) -> Exchange:
    return Exchange(phase="load", queued=0.0, end=1.0, text=text, tool_calls=calls, **more)


def call(identity: str) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": "look", "arguments": "{}"}}


def play(composed: Conversations, *answers: Exchange, session: int = 0) -> list[Request]:
    """Every request of a session that gets these answers, and a plain one to each further request."""
    told = iter(answers)
    played = list(composed.sessions())[session]
    requests = [next(played)]
    with suppress(StopIteration):
        while True:
            requests.append(played.send(next(told, answer())))
    return requests


def messages(request: Request) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = request.body["messages"]
    return found


def firsts(composed: Conversations) -> list[str]:
    return [messages(next(session))[-1]["content"] for session in composed.sessions()]


def test_every_answer_becomes_part_of_the_next_prompt() -> None:
    requests = play(bound(system="be brief", user=["one", "two"], turns=3), answer("first"), answer("second"))
    assert messages(requests[2]) == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "first"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "second"},
        {"role": "user", "content": "one"},
    ]
    assert [len(messages(request)) for request in requests] == [2, 4, 6]  # what was sent does not change afterwards
    assert messages(requests[1]) == messages(requests[2])[:4]


def test_calls_of_tools_are_answered_and_the_model_goes_on_from_there() -> None:
    asked = answer("", (call("a"), call("b")))
    requests = play(bound(user=["go", "on"], tools=[TOOL], tool_result="found it", turns=3), asked, answer("done"))
    assert messages(requests[1]) == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "found it"},
        {"role": "tool", "tool_call_id": "b", "content": "found it"},
    ]
    assert messages(requests[2])[4:] == [{"role": "assistant", "content": "done"}, {"role": "user", "content": "go"}]
    assert all(request.body["tools"] == [TOOL] for request in requests)


def test_content_beside_calls_is_kept_and_reasoning_is_not() -> None:
    requests = play(bound(user="go", turns=3), answer("let me look", (call("a"),), reasoning="hm"), answer(""))
    assert messages(requests[1])[1] == {"role": "assistant", "content": "let me look", "tool_calls": [call("a")]}
    assert messages(requests[2])[3] == {"role": "assistant", "content": ""}
    assert "hm" not in json.dumps([messages(request) for request in requests])


def test_a_failed_request_ends_its_session_and_no_other() -> None:
    composed = bound(turns=4, sessions=2)
    failed = replace(answer(""), failure=Failure("http", "no"))
    assert len(play(composed, answer(), failed)) == 2
    assert len(play(composed, session=1)) == 4
    assert len(composed) == 8


def test_requests_know_their_place_and_are_sent_as_they_are() -> None:
    requests = play(bound(turns=2, sessions=3), session=2)
    assert [(r.session, r.turn, r.phase, r.api, r.whole) for r in requests] == [
        (2, 0, "load", "chat", True),
        (2, 1, "load", "chat", True),
    ]
    assert not any(request.prompt.ids for request in requests)


def test_bodies_have_what_makes_answers_repeatable_and_the_user_wins() -> None:
    (request,) = play(bound(turns=1, user="hi"))
    salt = request.body["cache_salt"]
    assert request.body == {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 64,
        "temperature": 0.0,
        "cache_salt": salt,
        "return_token_ids": True,
    }
    more = {"temperature": 1, "max_completion_tokens": 9, "return_token_ids": None, "cache_salt": "mine", "top_p": 0.5}
    (request,) = play(bound(turns=1, user="hi", body=more))
    assert {name: value for name, value in request.body.items() if name != "messages"} == {
        "temperature": 1,
        "max_completion_tokens": 9,
        "cache_salt": "mine",
        "top_p": 0.5,
    }


# --- runs apart ------------------------------------------------------------------------------------------------------


def salts(**given: Any) -> set[str]:
    site = Site(nonce=given.pop("nonce", "n"))
    composed = bound(site, turns=2, sessions=2, **given)
    return {str(r.body.get("cache_salt")) for session in (0, 1) for r in play(composed, session=session)}


def test_a_salt_is_that_of_the_run_or_of_the_seed() -> None:
    assert len(salts()) == 1
    assert salts() == salts()
    assert salts() != salts(nonce="other")
    assert salts(seed=1) == salts(seed=1, nonce="other")
    assert salts(seed=1) not in (salts(seed=2), salts())
    assert salts(fresh=False) == {"None"}
    assert not any(salt.removeprefix("kv-") == "n" for salt in salts())


def test_without_a_salt_a_line_at_the_head_sets_runs_apart() -> None:
    def head(nonce: str, **given: Any) -> dict[str, Any]:
        (request,) = play(bound(Site(UNSALTED, nonce), turns=1, **given))
        assert "cache_salt" not in request.body
        return messages(request)[0]

    first, second = head("a", system="be brief"), head("b", system="be brief")
    assert first["role"] == "system"
    line, _, rest = str(first["content"]).partition("\n")
    assert (line.split()[0], len(line.split()), rest) == ("run", 5, "be brief")
    assert first != second
    assert head("a") == {"role": "system", "content": line}
    assert head("a", seed=7) == head("b", seed=7)
    assert head("a", fresh=False)["role"] == "user"
    assert len({str(head(str(number))["content"]) for number in range(200)}) == 200


@pytest.mark.parametrize("salt", ["tenant-a", None])
def test_a_salt_of_the_users_own_is_kept_and_a_line_sets_runs_apart(salt: str | None) -> None:
    one, other = (bound(Site(nonce=nonce), body={"cache_salt": salt}, system="be brief", turns=1) for nonce in "ab")
    (first,), (second,) = play(one), play(other)
    assert first.body.get("cache_salt") == second.body.get("cache_salt") == salt
    assert messages(first)[0]["content"] != messages(second)[0]["content"]
    assert not one.fresh  # the template's own head may be warm
    assert bound(body={"a": 1}).fresh


def test_without_a_salt_the_first_tool_is_set_apart_too() -> None:
    described = {"type": "function", "function": {"name": "walk", "description": "on foot"}}

    def tools(*given: Any, facts: ServerFacts = UNSALTED) -> tuple[str, list[Any]]:
        (request,) = play(bound(Site(facts), turns=1, tools=list(given)))
        return str(messages(request)[0]["content"]), request.body["tools"]

    line, (first, second) = tools(TOOL, described)
    assert first == {"type": "function", "function": {**TOOL["function"], "description": line}}  # type: ignore[dict-item] # an object, as written above
    assert second == described
    line, (only,) = tools(described)
    assert only["function"] == {"description": f"{line}\non foot", "name": "walk"}
    assert [*only["function"]] == ["description", "name"]  # first, so that nothing before it can be shared
    assert tools({"type": "web_search"})[1] == [{"type": "web_search"}]
    assert tools(TOOL, facts=SALTED)[1] == [TOOL]


def test_the_same_is_said_in_every_run_so_that_runs_can_be_compared() -> None:
    one, other = bound(Site(nonce="a"), sessions=3), bound(Site(nonce="b"), sessions=3)
    assert firsts(one) == firsts(other)
    assert firsts(one) != firsts(bound(seed=5, sessions=3))


def test_no_two_messages_of_ours_begin_alike() -> None:
    composed = bound(sessions=40, turns=20)
    said = [m["content"] for session in range(40) for m in messages(play(composed, session=session)[-1])]
    own = [text for text in said if text != "yes"]
    assert len(own) == len({text.split()[0] for text in own}) == 800
    assert {len(text.split()) for text in own} == {12}
    many = bound(sessions=2000, turns=1)  # more than there are words: then the second one differs
    said = [text.split() for text in firsts(many)]
    count = len(common_words())
    assert [words[1:3] for words in said[:count]] == [said[0][1:3]] * count
    assert len({(words[0], words[1]) for words in said}) == 2000


def test_the_user_may_speak(tmp_path: Path) -> None:
    (tmp_path / "said.txt").write_text("one\n\ntwo\n", encoding="utf-8")
    for user in (("one", "two"), ["one", "two"], tmp_path / "said.txt"):
        said = [m["content"] for m in messages(play(bound(user=user, turns=3))[-1]) if m["role"] == "user"]
        assert said == ["one", "two", "one"]
    composed = bound(user=lambda session, turn: f"{session}/{turn}", turns=2, sessions=2)
    assert messages(play(composed, session=1)[-1])[-1]["content"] == "1/1"
    with pytest.raises(WorkloadError, match=r"user\(0, 0\) is int; expected a text"):
        play(bound(user=lambda session, turn: session + turn))


# --- what is known of them -------------------------------------------------------------------------------------------


def test_only_turns_that_nobody_else_says_are_append_only() -> None:
    assert bound(sessions=5).append_only
    assert bound(user="hi").append_only
    assert not bound(user="hi", sessions=2).append_only
    assert not bound(fresh=False).append_only


def test_what_an_earlier_run_cached_cannot_be_predicted() -> None:
    composed = bound(fresh=False, turns=1)
    assert composed.notes == ("fresh=False: an earlier run's cache may be hit, so nothing is predicted",)
    assert "return_token_ids" not in play(composed)[0].body
    assert bound().notes == ()


def test_nothing_comes_before_the_window() -> None:
    composed = bound()
    assert [*composed.prefill(), *composed.warmed()] == []
    assert (composed.load(), composed.prefix_len, composed.warms) == (None, 0, None)


def test_pauses_are_between_answers_and_turns() -> None:
    assert [r.pause for r in play(bound(think_time=0.5, turns=3))] == [0.0, 0.5, 0.5]
    drawn = [[r.pause for r in play(bound(think_time=(1, 2), turns=4, sessions=2), session=s)] for s in (0, 1)]
    assert drawn[0][0] == drawn[1][0] == 0.0
    later = [*drawn[0][1:], *drawn[1][1:]]
    assert len(set(later)) == 6
    assert all(1 <= pause <= 2 for pause in later)
    assert [r.pause for r in play(bound(think_time=(1, 2), turns=4, sessions=2))] == drawn[0]


def test_no_text_of_the_users_is_in_titles_and_reprs() -> None:
    given = {"system": "SECRET a", "tools": [{"SECRET": 1}], "user": "SECRET b", "tool_result": "SECRET c"}
    composed = bound(**given, body={"stop": "SECRET d"}, sessions=2, turns=3, max_tokens=5)
    assert composed.title == "conversation: 2 x 3 turns, 5 out with system prompt and 1 tool"
    assert bound(tools=[TOOL, TOOL]).title == "conversation: 1 x 10 turns, 64 out with 2 tools"
    assert bound().title == "conversation: 1 x 10 turns, 64 out"
    assert "SECRET" not in repr(composed) + repr(play(composed)) + composed.title


# --- files -----------------------------------------------------------------------------------------------------------


def test_system_prompt_and_tools_may_be_files(tmp_path: Path) -> None:
    system, tools, wrapped = tmp_path / "s.md", tmp_path / "t.json", tmp_path / "w.json"
    system.write_text("\ufeffbe brief\n", encoding="utf-8")
    tools.write_text(json.dumps([TOOL]))
    wrapped.write_text(json.dumps({"tools": [TOOL]}))
    for path in (tools, wrapped):
        (request,) = play(bound(system=system, tools=path, turns=1))
        assert messages(request)[0] == {"role": "system", "content": "be brief\n"}
        assert request.body["tools"] == [TOOL]
    workload = Conversation(system=system, tools=tools)
    system.unlink()
    assert replace(workload, sessions=3).system == "be brief\n"  # read once, where it was written down


def test_a_line_of_a_file_is_what_editors_take_for_one(tmp_path: Path) -> None:
    (tmp_path / "said.txt").write_text("one\u2028and\x0bmore\r\n\ntwo\n", encoding="utf-8", newline="")
    _, second = play(bound(user=tmp_path / "said.txt", turns=2))
    assert [m["content"] for m in messages(second) if m["role"] == "user"] == ["one\u2028and\x0bmore", "two"]


@pytest.mark.parametrize("name", ["system", "tools", "user"])
@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot read .*gone .No such file"), (b"SECRET\xff", "is no UTF-8 .byte 6"), (b" \n", "empty|no JSON")],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes | None, problem: str) -> None:
    path = tmp_path / "gone"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(WorkloadError, match=f"conversation: {name}: .*({problem})") as caught:
        WorkloadBuilder().conversation(**{name: path})  # type: ignore[arg-type] # one of three
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("content", ["[]", "{}", '{"tools": {}}', "[1]", '"SECRET"', "nul SECRET", "[" * 100_000])
def test_tools_of_another_form(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tools.json"
    path.write_text(content)
    with pytest.raises(WorkloadError, match="conversation: tools: ") as caught:
        Conversation(tools=path)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"turns": 0},
        {"turns": True},
        {"sessions": 1.5},
        {"max_tokens": 0},
        {"temperature": -1},
        {"think_time": -1.0},
        {"think_time": (2, 1)},
        {"think_time": (1, 2, 3)},
        {"think_time": float("inf")},
        {"fresh": "yes"},
        {"seed": "a"},
        {"system": ""},
        {"system": 3},
        {"tools": []},
        {"tools": "look"},
        {"tools": [{"a": {1, 2}}]},
        {"user": []},
        {"user": [1]},
        {"user": 7},
        {"body": {"messages": []}},
        {"body": {"tools": [TOOL]}},  # they could not be set apart from those of an earlier run
        {"body": [("a", 1)]},
        {"body": {"a": float("nan")}},
        {"tool_result": b"ok"},
    ],
    ids=str,
)
def test_arguments_that_cannot_be_meant(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(WorkloadError, match=f"conversation: .*{name}"):
        WorkloadBuilder().conversation(**wrong)
