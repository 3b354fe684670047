"""From a request to a call: how often its prompt is looked up, what of its usage holds, which zeros are meant."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kvcache.calls import Calls
from pytest_kvcache.engines import shipped
from pytest_kvcache.model import Exchange, Prompt, Request, ServerFacts


def calls(engine: str, version: str | None = None, **more: Any) -> Calls:
    return Calls(shipped().get(engine), ServerFacts(engine, "m", version=version), **more)


def own(body: dict[str, Any], api: str = "completions") -> Request:
    return Request(Prompt(()), 0, "load", api=api, body=body, whole=True)


@pytest.mark.parametrize(
    ("engine", "body", "lookups", "partial", "prompt_len"),
    [
        ("vllm", {"prompt": "a b"}, 1, False, None),
        ("vllm", {"prompt": "a b", "n": 3}, 3, True, None),  # 0.32: 3 * L on the counters, usage of one
        ("vllm", {"prompt": [[1, 2], [3]]}, 1, True, 3),  # the sum, and the cached tokens of the last
        ("vllm", {"prompt": [1, 2, 3]}, 1, False, 3),
        ("vllm", {"prompt": "a", "prompt_logprobs": 0}, 0, False, None),  # not looked up at all
        ("vllm", {"prompt": "a", "echo": True, "logprobs": 1}, 0, False, None),
        ("vllm", {"prompt": "a", "logprobs": 1}, 1, False, None),
        ("sglang", {"prompt": "a", "n": 3}, 1, False, None),  # 0.5.23: counted once
        ("llamacpp", {"prompt": ["a", "b"]}, 1, True, None),  # neither number covers both
    ],
)
def test_what_a_body_adds_to_the_counters(
    engine: str, body: dict[str, Any], lookups: int, partial: bool, prompt_len: int | None
) -> None:
    call = calls(engine)(own(body))
    assert (call.lookups, call.partial, call.prompt_len) == (lookups, partial, prompt_len)
    assert all(bool(reading.rule.cached) is not partial for reading in call.usage)


def test_a_list_of_which_no_number_covers_all_tells_no_prompt() -> None:
    assert not any(reading.rule.prompt for reading in calls("llamacpp")(own({"prompt": ["a", "b"]})).usage)


@pytest.mark.parametrize(
    ("api", "added"),
    [
        ("chat", {"stream": True, "stream_options": {"include_usage": True}}),
        ("messages", {"stream": True}),
        ("responses", {"stream": True}),
        ("ollama", {"stream": False}),
    ],
)
def test_how_an_answer_is_asked_for(api: str, added: dict[str, Any]) -> None:
    assert calls("usage")(own({"x": 1}, api)).body == {"model": "m", "x": 1, **added}
    assert calls("usage")(own({"x": 1, "model": "other"}, api)).model == "other"
    assert "stream_options" not in calls("usage", stream=False)(own({"x": 1}, api)).body


@pytest.mark.parametrize(
    ("api", "given", "options"),
    [
        ("chat", {"stream": True}, {"include_usage": True}),  # as clients record their streams
        ("chat", {"stream": True, "stream_options": None}, {"include_usage": True}),
        ("completions", {"stream": True, "stream_options": {"a": 1}}, {"include_usage": True, "a": 1}),
        ("chat", {"stream_options": {"include_usage": False}}, {"include_usage": False}),
        ("chat", {"stream": False}, None),
        ("messages", {"stream": True}, None),
    ],
)
def test_a_stream_of_the_users_own_is_asked_for_its_usage(api: str, given: dict[str, Any], options: Any) -> None:
    body = calls("usage")(own({"x": 1, **given}, api)).body
    assert body["stream"] is given.get("stream", True)
    assert body.get("stream_options") == options


def test_a_model_that_is_filled_in_and_a_salt_that_is_null_separate_nothing() -> None:
    space = calls("vllm").space
    plain = space(own({"prompt": "a"}))
    assert space(own({"prompt": "a", "model": "m"})) == space(own({"model": None, "cache_salt": None})) == plain
    others = [space(own(body)) for body in ({"model": "adapter"}, {"cache_salt": "s"}, {"cache_salt": "t"})]
    assert len({plain, *others}) == 4


def exchange(cached: int | None, *, partial: bool = False) -> Exchange:
    return Exchange("load", 0.0, 1.0, prompt_tokens=100, cached_tokens=cached, partial=partial)


def test_zeros_that_a_version_leaves_out_count_once_it_has_told_one() -> None:
    cold, warm, part = exchange(None), exchange(96), exchange(None, partial=True)

    def told(version: str | None, *exchanges: Exchange, **more: Any) -> list[int | None]:
        return [e.cached_tokens for e in calls("vllm", version, **more).with_zeros(exchanges)]

    assert told("0.23.0", cold, warm, part) == [0, 96, None]
    assert told("0.23.0", cold, cold) == [None, None]  # it may report nothing at all
    assert told("0.24.0", cold, warm) == [None, 96]  # from here on zero is told
    assert told(None, cold, warm) == [None, 96]
    assert told("0.23.0", cold, warm, usage_absent="unknown") == [None, 96]
