"""The bodies of different APIs, read alike."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kvcache.divergence import first
from pytest_kvcache.divergence.request import read

OPENAI = {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]}
ALIKE: dict[str, dict[str, Any]] = {
    "openai with parts": {
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "S"}]},
            {"role": "user", "content": [{"type": "text", "text": "U"}]},
        ]
    },
    "anthropic": {"system": "S", "messages": [{"role": "user", "content": [{"type": "text", "text": "U"}]}]},
    "responses": {"instructions": "S", "input": "U"},
    "responses with items": {
        "instructions": "S",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "U"}]}],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "S"}]},
        "contents": [{"role": "user", "parts": [{"text": "U"}]}],
    },
    "converse": {"system": [{"text": "S"}], "messages": [{"role": "user", "content": [{"text": "U"}]}]},
}


@pytest.mark.parametrize("body", ALIKE.values(), ids=ALIKE.keys())
def test_system_and_user(body: dict[str, Any]) -> None:
    found = read(body)
    assert [message.text for message in found.system] == ["S"]
    assert [(message.role, message.text) for message in found.messages] == [("user", "U")]
    assert first(OPENAI, body) is None


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (OPENAI, "system message"),
        ({"system": "S", "messages": []}, "system prompt"),
        ({"messages": [*OPENAI["messages"][:1], {"role": "developer", "content": "D"}]}, "message 1 (developer)"),
    ],
)
def test_names_of_system_prompts(body: dict[str, Any], where: str) -> None:
    assert read(body).system[-1].where == where


def test_a_later_system_message_stands_where_it_stands() -> None:
    found = read({"messages": [*OPENAI["messages"], {"role": "system", "content": "late"}]})
    assert (len(found.system), found.messages[-1].where) == (1, "message 2 (system)")


def test_a_role_of_the_users_own_is_not_named() -> None:
    assert read({"messages": [{"role": "secret", "content": "x"}]}).messages[0].where == "message 0 (other)"


@pytest.mark.parametrize("name", ["prompt", "text"])
def test_bare_text(name: str) -> None:
    (message,) = read({name: "P"}).messages
    assert (message.where, message.text) == ("prompt", "P")


@pytest.mark.parametrize("name", ["prompt", "input_ids"])
def test_bare_ids(name: str) -> None:
    (message,) = read({name: [3, 1]}).messages
    assert [(part.kind, part.value) for part in message.parts] == [("ids", (3, 1))]


def test_calls_and_results_of_tools_of_every_api() -> None:
    call = {"id": "random", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    (openai,) = read({"messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]}).messages
    assert [(part.kind, part.text) for part in openai.parts] == [("call", 'f({"a": 1})')]
    (responses,) = read({"input": [{"type": "function_call", "name": "f", "arguments": '{"a": 1}'}]}).messages
    assert responses.parts == openai.parts
    used = {"type": "tool_use", "id": "random", "name": "f", "input": {"a": 1}}
    (anthropic,) = read({"messages": [{"role": "assistant", "content": [used]}]}).messages
    assert "random" not in anthropic.text
    output = {"type": "function_call_output", "call_id": "random", "output": "ok"}
    assert [(m.role, m.text) for m in read({"input": [output]}).messages] == [("tool", "ok")]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "random", "content": "ok"}]}
    assert read({"messages": [result]}).messages[0].text == "ok"


def test_reasoning_stands_before_the_answer() -> None:
    (message,) = read({"messages": [{"role": "assistant", "reasoning_content": "R", "content": "A"}]}).messages
    assert [(part.kind, part.text) for part in message.parts] == [("reasoning", "R"), ("text", "A")]
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "R"}, {"type": "text", "text": "A"}]}
    (message,) = read({"messages": [thought]}).messages
    assert [(part.kind, part.text) for part in message.parts] == [("reasoning", "R"), ("text", "A")]


IMAGES: list[Any] = [
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    {"inline_data": {"mime_type": "image/png", "data": "AAAA"}},
]


@pytest.mark.parametrize("part", IMAGES)
def test_one_image_is_the_same_in_every_form(part: Any) -> None:
    def digest(given: Any) -> str:
        (message,) = read({"messages": [{"role": "user", "content": [given]}]}).messages
        assert [p.kind for p in message.parts] == ["image"]
        return message.parts[0].text

    # sha256 of the three bytes 00 00 00
    assert digest(part) == "709e80c88487a2411e1ee4dfb9f22a861492d20c4765150c0c794abd70f8147c"
    assert digest({"type": "image_url", "image_url": {"url": "https://x/a.png"}}) != digest(part)
    assert digest({"type": "image_url", "image_url": {"url": "data:image/png;base64,???"}}) != digest(part)


def test_text_between_images_is_no_image() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://x/a.png"}}
    (message,) = read({"messages": [{"role": "user", "content": ["a", part, {"type": "text", "text": "b"}]}]}).messages
    assert [(p.kind, p.number) for p in message.parts] == [("text", 0), ("image", 1), ("text", 2)]
    assert message.text == "a\nb"


def test_the_result_of_a_tool_in_parts() -> None:
    def result(content: Any) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": content}]}]}

    def image(data: str) -> dict[str, Any]:
        return {"type": "image", "source": {"type": "base64", "data": data}}

    assert first(result("found"), result([{"type": "text", "text": "found"}])) is None
    parted = first(result([image("YQ==")]), result([image("Yg==")]))
    assert parted is not None
    assert (parted.cause, parted.left, parted.right) == ("image", "", "")
