"""Usage by rules: where it stands, what the prompt number holds, and what a missing number means."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kvcache.engines.rules import UsageRule
from pytest_kvcache.replies import UsageReading, declared, readings

from .streams import tokens, whole

END = {"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}]}


def rule(prompt: Any, cached: Any = (), written: Any = (), **more: Any) -> UsageReading:
    zero = more.pop("absent_is_zero", False)
    data = {"api": "chat", "prompt": prompt, "cached": cached, "written": written, **more}
    return UsageReading(UsageRule.model_validate(data), zero)


def read(usage: Any, *rules: UsageReading, **more: Any) -> tuple[int | None, ...]:
    answer = whole("chat", {**END, "usage": usage}, *rules, **more)
    assert answer.failure is None
    return tokens(answer)[:3]


def details(cached: object) -> dict[str, object]:
    return {"prompt_tokens": 2000, "prompt_tokens_details": cached}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (details({"cached_tokens": 1984}), (2000, 1984, None)),
        (details({"cached_tokens": 0}), (2000, 0, None)),
        (details({"cached_tokens": None}), (2000, None, None)),
        (details({}), (2000, None, None)),
        (details(None), (2000, None, None)),
        ({"prompt_tokens": 2000}, (2000, None, None)),
        ({"prompt_tokens": 0}, (0, None, None)),
        ({"prompt_tokens_details": {"cached_tokens": 5}}, (None, None, None)),
        (None, (None, None, None)),
        ({}, (None, None, None)),
        (details({"cached_tokens": 16, "cache_write_tokens": 1024}), (2000, 16, 1024)),
        (details({"cached_tokens": 16, "created_cache_tokens": 512}), (2000, 16, 512)),
        # one convention's prompt leaves the cached part out; nothing is clipped here
        ({"prompt_tokens": 200, "prompt_tokens_details": {"cached_tokens": 1800}}, (200, 1800, None)),
    ],
)
def test_absent_null_and_zero(usage: object, expected: tuple[int | None, ...]) -> None:
    assert read(usage) == expected


def test_unknown_keys_and_totals_are_not_used() -> None:
    usage = {
        "prompt_tokens": 2181,
        "completion_tokens": 57,
        "total_tokens": "2518",
        "reasoning_tokens": 280,
        "prompt_tokens_details": None,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 2181}],
    }
    assert tokens(whole("chat", {**END, "usage": usage})) == (2181, None, None, 57)


@pytest.mark.parametrize("odd", [-1, 1.0, 1.5, True, False, "7", [7], {"n": 7}])
@pytest.mark.parametrize(
    ("field", "wrap"),
    [
        ("usage.prompt_tokens", lambda v: {"prompt_tokens": v}),
        ("usage.completion_tokens", lambda v: {"prompt_tokens": 5, "completion_tokens": v}),
        ("usage.prompt_tokens_details.cached_tokens", lambda v: details({"cached_tokens": v})),
        ("usage.prompt_tokens_details.cache_write_tokens", lambda v: details({"cache_write_tokens": v})),
    ],
)
def test_what_is_no_number_of_tokens_names_the_field(field: str, wrap: Any, odd: object) -> None:
    answer = whole("chat", {**END, "usage": wrap(odd)})
    assert answer.failure is not None
    assert answer.failure.kind == "protocol"
    assert answer.failure.message.startswith(f"{field}: expected a whole number of tokens, got ")


@pytest.mark.parametrize(
    ("usage", "field"), [("12", "usage"), (7, "usage"), (details([8]), "usage.prompt_tokens_details")]
)
def test_what_is_no_object_names_the_field(usage: object, field: str) -> None:
    answer = whole("chat", {**END, "usage": usage})
    assert answer.failure is not None
    assert answer.failure.message.startswith(f"{field}: expected an object, got ")


def test_the_first_path_that_is_there_wins() -> None:
    deepseek = rule(
        "usage.prompt_tokens", ["usage.prompt_cache_hit_tokens", "usage.prompt_tokens_details.cached_tokens"]
    )
    assert read(details({"cached_tokens": 9}), deepseek) == (2000, 9, None)
    assert read({**details({"cached_tokens": 9}), "prompt_cache_hit_tokens": 0}, deepseek) == (2000, 0, None)


def test_the_first_rule_whose_prompt_is_there_wins() -> None:
    rules = (rule("usage.input_tokens", "usage.a"), rule("usage.prompt_tokens", "usage.b"))
    assert read({"prompt_tokens": 5, "a": 1, "b": 2}, *rules) == (5, 2, None)
    assert read({"prompt_tokens": 5, "input_tokens": 0, "a": 1, "b": 2}, *rules) == (0, 1, None)
    assert read({"a": 1, "b": 2}, *rules) == (None, None, None)


@pytest.mark.parametrize(
    ("prompt_is", "usage", "expected"),
    [
        ("total", {"p": 100, "c": 60, "w": 30}, (100, 60, 30)),
        ("uncached", {"p": 100, "c": 60, "w": 30}, (190, 60, 30)),
        ("computed", {"p": 100, "c": 60, "w": 30}, (160, 60, 30)),
        ("uncached", {"p": 100, "c": 0}, (100, 0, None)),
        ("uncached", {"p": 100, "w": 30}, (None, None, 30)),
        ("computed", {"p": 100}, (None, None, None)),
        ("total", {"p": 100}, (100, None, None)),
    ],
)
def test_what_the_prompt_number_holds(prompt_is: str, usage: dict[str, int], expected: tuple[int | None, ...]) -> None:
    assert read(usage, rule("usage.p", "usage.c", "usage.w", prompt_is=prompt_is)) == expected


def test_absent_counts_as_zero_only_beside_a_prompt_and_only_when_it_says_so() -> None:
    zero = rule("usage.p", "usage.c", absent_is_zero=True)
    assert read({"p": 100}, zero) == (100, 0, None)
    assert read({"p": 100, "c": None}, zero) == (100, 0, None)
    assert read({"p": 100, "c": 60}, zero) == (100, 60, None)
    assert read({}, zero) == (None, None, None)
    assert read({"p": 100}, rule("usage.p", "usage.c", absent_is_zero=True, prompt_is="uncached")) == (100, 0, None)


def test_numbers_in_headers() -> None:
    fireworks = rule("fireworks-prompt-tokens", "fireworks-cached-prompt-tokens", headers=True)
    told = {"Fireworks-Prompt-Tokens": "300", "Fireworks-Cached-Prompt-Tokens": " 256 "}
    assert read(None, fireworks, headers=told) == (300, 256, None)
    assert read(None, rule("FIREWORKS-Prompt-Tokens", headers=True), headers=told) == (300, None, None)
    assert read(details(None), fireworks, rule("usage.prompt_tokens"), headers={}) == (2000, None, None)
    for odd in ("-1", "3.5", "", "many", "٣"):
        answer = whole("chat", END, fireworks, headers={"fireworks-prompt-tokens": odd})
        assert answer.failure is not None
        assert answer.failure.message.startswith("fireworks-prompt-tokens: expected a whole number")


def test_readings_take_the_rules_of_the_api_else_its_defaults() -> None:
    own = UsageRule(api="chat", prompt=("usage.p",))
    other = UsageRule(api="messages", prompt=("usage.q",))
    assert readings("chat", (other, own)) == (UsageReading(own),)
    assert [r.rule.prompt for r in readings("chat", (other,))] == [("usage.prompt_tokens",), ("timings.prompt_n",)]
    assert read({"p": 3}, *readings("chat", (own,))) == (3, None, None)


@pytest.mark.parametrize(
    ("versions", "version", "zero"),
    [
        (None, "0.20.0", False),
        ("", "0.20.0", False),
        ("<0.24", "0.23.1", True),
        ("<0.24", "0.24.0", False),
        ("<0.24", None, False),
        ("<0.24", "custom build", False),
        (">=0", None, True),
        (">=0", "custom build", True),
    ],
)
def test_absent_is_zero_by_version(versions: str | None, version: str | None, zero: bool) -> None:
    own = UsageRule(api="chat", prompt=("usage.p",), absent_is_zero=versions)
    assert readings("chat", (own,), version)[0].absent_is_zero is zero


def test_what_the_user_declares_wins() -> None:
    usage = {"prompt_tokens": 200, "prompt_tokens_details": {"cached_tokens": 1800}}
    assert read(usage, *declared(readings("chat"), prompt_is="uncached")) == (2000, 1800, None)
    assert read(details(None), *declared(readings("chat"), absent="zero")) == (2000, 0, None)
    zero = rule("usage.prompt_tokens", "usage.c", absent_is_zero=True)
    assert read(details(None), *declared((zero,), absent="unknown")) == (2000, None, None)
    assert read(details(None), *declared((zero,))) == (2000, 0, None)
    message = {"input_tokens": 100, "cache_read_input_tokens": 60}
    total = whole(
        "messages", {"stop_reason": "x", "usage": message}, *declared(readings("messages"), prompt_is="total")
    )
    assert tokens(total)[:2] == (100, 60)


def test_what_an_engine_calls_computed_is_not_declared_away() -> None:
    timings = {"timings": {"prompt_n": 1, "cache_n": 800}}
    answer = whole("chat", {**END, **timings}, *declared(readings("chat"), prompt_is="total"))
    assert tokens(answer)[:2] == (801, 800)
