"""What the profiles make of an answer: recorded answers of engines, and providers' forms as they document them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_kvcache.engines import shipped
from pytest_kvcache.replies.usage import UsageMeter, readings

from .pages import DATA


def told(
    profile: str, api: str, body: dict[str, Any], version: str | None = None, headers: dict[str, str] | None = None
) -> tuple[int | None, int | None, int | None]:
    meter = UsageMeter(api, readings(api, shipped().get(profile).usage, version))
    meter.take(body)
    usage = meter.read(headers)
    return usage.prompt, usage.cached, usage.written


@pytest.mark.parametrize(
    ("profile", "api", "answer", "prompt", "cached"),
    [
        ("vllm", "completions", "vllm-0.32.0/02_first_response", 801, 0),
        ("vllm", "completions", "vllm-0.32.0/03_identical_response", 801, 768),
        ("sglang", "completions", "sglang-0.5.23/03_identical_completion", 801, 800),
        ("sglang", "chat", "sglang-0.5.23/05_chat_identical", 819, 818),
        ("sglang", "generate", "sglang-0.5.23/06_generate_native", 801, 800),
        ("llamacpp", "completions", "llamacpp-b11434/04_identical_completion", 801, 800),
        ("llamacpp", "chat", "llamacpp-b11434/07_chat_identical", 819, 818),
        ("llamacpp", "completion", "llamacpp-b11434/08_native_completion", 801, 800),
    ],
)
def test_recorded_answers(profile: str, api: str, answer: str, prompt: int, cached: int) -> None:
    body = json.loads((DATA / f"{answer}.json").read_text())
    assert told(profile, api, body)[:2] == (prompt, cached)


@pytest.mark.parametrize(
    ("answer", "cached", "written"), [("70_messages_first", 0, 896), ("71_messages_cached", 896, 0)]
)
def test_vllm_messages_leave_cached_and_written_tokens_out_of_the_prompt(
    answer: str, cached: int, written: int
) -> None:
    body = json.loads((DATA / f"vllm-0.32.0/{answer}.json").read_text())
    assert told("vllm", "messages", body) == (114 + 896, cached, written)


DETAILS = "prompt_tokens_details"
FIREWORKS = {"fireworks-prompt-tokens": "1000", "fireworks-cached-prompt-tokens": "900"}


@pytest.mark.parametrize(
    ("profile", "api", "usage", "numbers"),
    [
        ("openai", "chat", {"prompt_tokens": 2000, DETAILS: {"cached_tokens": 1920}}, (2000, 1920, None)),
        (
            "openai",
            "responses",
            {"input_tokens": 2000, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 1920}},
            (2000, 0, 1920),
        ),
        (
            "anthropic",
            "messages",
            {"input_tokens": 50, "cache_read_input_tokens": 1800, "cache_creation_input_tokens": 150},
            (2000, 1800, 150),
        ),
        ("deepseek", "chat", {"prompt_tokens": 100, "prompt_cache_hit_tokens": 64}, (100, 64, None)),
        ("moonshot", "chat", {"prompt_tokens": 100, "cached_tokens": 64}, (100, 64, None)),
        ("mistral", "chat", {"prompt_tokens": 100, "num_cached_tokens": 64}, (100, 64, None)),
        ("qwen", "chat", {"prompt_tokens": 100, DETAILS: {"cached_tokens": 64}}, (100, 64, None)),
        ("openrouter", "chat", {"prompt_tokens": 100, DETAILS: {"cached_tokens": 64}}, (100, 64, None)),
        ("litellm", "chat", {"prompt_tokens": 100, "cache_read_input_tokens": 64}, (100, 64, None)),
        ("ollama", "chat", {"prompt_tokens": 100}, (100, None, None)),  # not told is not zero
        ("tgi", "chat", {"prompt_tokens": 100}, (100, None, None)),
        ("lmdeploy", "responses", {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}}, (9, None, None)),
    ],
)
def test_providers(profile: str, api: str, usage: dict[str, Any], numbers: tuple[int | None, ...]) -> None:
    assert told(profile, api, {"usage": usage}) == numbers


def test_fireworks_tells_in_headers() -> None:
    assert told("fireworks", "chat", {"usage": {"prompt_tokens": 1000}}, headers=FIREWORKS) == (1000, 900, None)
    body = {"usage": {"prompt_tokens": 1000, DETAILS: {"cached_tokens": 800}}}
    assert told("fireworks", "chat", body) == (1000, 800, None)


@pytest.mark.parametrize(("version", "cached"), [("0.23.0", 0), ("0.24.0", None), (None, None)])
def test_vllm_left_a_zero_out_before_0_24(version: str | None, cached: int | None) -> None:
    assert told("vllm", "chat", {"usage": {"prompt_tokens": 100, DETAILS: None}}, version)[:2] == (100, cached)


def test_gemini_and_bedrock_say_where_and_what_the_prompt_is() -> None:
    (gemini,) = (rule for rule in shipped().get("gemini").usage if rule.api == "gemini")
    assert (gemini.prompt, gemini.cached) == (
        ("usageMetadata.promptTokenCount",),
        ("usageMetadata.cachedContentTokenCount",),
    )
    assert (gemini.prompt_is, gemini.absent_is_zero) == ("total", ">=0")  # every version leaves a zero out
    (bedrock,) = (rule for rule in shipped().get("bedrock").usage if rule.api == "converse")
    assert bedrock.prompt_is == "uncached"
    assert bedrock.written == ("usage.cacheWriteInputTokens",)
    warm = {"promptTokenCount": 2000, "cachedContentTokenCount": 1800}
    assert told("gemini", "gemini", {"usageMetadata": warm}) == (2000, 1800, None)
    assert told("gemini", "gemini", {"usageMetadata": {"promptTokenCount": 2000}}) == (2000, 0, None)
    assert told("usage", "gemini", {"usageMetadata": {"promptTokenCount": 2000}}) == (2000, None, None)
    split = {"inputTokens": 50, "cacheReadInputTokens": 1800, "cacheWriteInputTokens": 150}
    assert told("bedrock", "converse", {"usage": split}) == (2000, 1800, 150)
    assert told("bedrock", "converse", {"usage": {"inputTokens": 50}}) == (None, None, None)
