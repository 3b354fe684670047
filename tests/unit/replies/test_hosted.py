"""Gemini's ``generateContent`` and Bedrock's ``converse``, and the errors of both."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kvcache.replies import error_message

from .streams import failed, tokens, whole


def gemini(*parts: dict[str, Any], finish: str | None = "STOP", **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": finish}], **more}


def converse(*blocks: dict[str, Any], **usage: int) -> dict[str, Any]:
    return {
        "output": {"message": {"role": "assistant", "content": list(blocks)}},
        "stopReason": "max_tokens",
        "usage": usage,
    }


def test_gemini() -> None:
    usage = {"promptTokenCount": 2000, "cachedContentTokenCount": 1800, "candidatesTokenCount": 3}
    body = gemini({"text": "think", "thought": True}, {"text": "a"}, {"text": "b"}, usageMetadata=usage)
    answer = whole("gemini", body)
    assert (answer.text, answer.reasoning, answer.finish_reason) == (["ab"], ["think"], "STOP")
    assert (tokens(answer), answer.failure, list(answer.chunks)) == ((2000, 1800, None, 3), None, [0.0])


def test_gemini_leaves_numbers_out_and_they_are_unknown_without_a_profile() -> None:
    assert tokens(whole("gemini", gemini({"text": "a"}, usageMetadata={"promptTokenCount": 7}))) == (
        7,
        None,
        None,
        None,
    )


def test_the_first_of_several_candidates() -> None:
    body = gemini({"text": "a"})
    second = {"content": {"parts": [{"text": "b"}]}, "finishReason": "MAX_TOKENS", "index": 1}
    answer = whole("gemini", {"candidates": [*body["candidates"], second]})
    assert (answer.text, answer.finish_reason) == (["a"], "STOP")


def test_gemini_calls_a_function() -> None:
    answer = whole("gemini", gemini({"functionCall": {"name": "f"}}))
    assert (answer.text, list(answer.chunks), answer.failure) == ([], [0.0], None)


def test_gemini_without_an_end_is_cut_and_a_blocked_prompt_says_so() -> None:
    assert failed(whole("gemini", gemini({"text": "a"}, finish=None))) == "cut"
    answer = whole("gemini", {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 7}})
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.message) == ("server", "the prompt was blocked (SAFETY)")


def test_converse_adds_what_was_read_and_written_to_its_prompt() -> None:
    thought = {"reasoningContent": {"reasoningText": {"text": "think"}}}
    body = converse(
        thought, {"text": "a"}, {"text": "b"},
        inputTokens=50, cacheReadInputTokens=1800, cacheWriteInputTokens=150, outputTokens=3,
    )  # fmt: skip
    answer = whole("converse", body)
    assert (answer.text, answer.reasoning, answer.finish_reason) == (["ab"], ["think"], "max_tokens")
    assert (tokens(answer), answer.failure) == ((2000, 1800, 150, 3), None)


def test_converse_that_tells_nothing_of_its_cache_tells_only_a_part_of_the_prompt() -> None:
    assert tokens(whole("converse", converse({"text": "a"}, inputTokens=50, outputTokens=3))) == (None, None, None, 3)
    assert list(whole("converse", converse({"toolUse": {"name": "f"}})).chunks) == [0.0]
    assert failed(whole("converse", {"output": {}})) == "cut"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"code": 400, "message": "API key not valid", "status": "INVALID_ARGUMENT"}}, "API key not valid"),
        ({"message": "Too many tokens"}, "Too many tokens"),
        ({"Message": "not authorized"}, "not authorized"),
        ({"__type": "ValidationException", "message": "no such model"}, "no such model"),
        ({"message": {"content": "a"}}, None),
        ({"message": "a", "response": "b"}, None),
        ({"message": "a", "type": "ping"}, None),
        (gemini({"text": "a"}, message="as asked"), None),
    ],
)
def test_errors(body: dict[str, Any], message: str | None) -> None:
    assert error_message(body) == message
