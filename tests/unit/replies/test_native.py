"""SGLang's ``/generate`` and llama.cpp's ``/completion``, and what these engines add to the OpenAI forms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_kvcache.replies import Answer

from .streams import failed, lines, recorded, stream, tokens, whole

SGLANG, LLAMA = "sglang-0.5.23", "llamacpp-b11434"


def test_recorded_generate() -> None:
    answer = recorded("generate", f"{SGLANG}/06_generate_native.json")
    assert tokens(answer) == (801, 800, None, 4)
    assert (answer.text, answer.finish_reason, answer.failure) == (["    "], "length", None)


def chunk(text: str, completion: int, finish: object = None, **more: object) -> dict[str, object]:
    meta = {"prompt_tokens": 9, "cached_tokens": 8, "completion_tokens": completion, "finish_reason": finish}
    return {"text": text, "meta_info": meta, **more}


def test_generate_streams_the_whole_text_again_and_again() -> None:
    end = {"type": "stop", "matched": 2}
    answer = stream("generate", lines(chunk("", 0), chunk("a", 1), chunk("a", 2), chunk("ab", 3, end), "[DONE]"))
    assert ("".join(answer.text), list(answer.chunks), answer.finish_reason) == ("ab", [1.0, 3.0], "stop")
    assert (tokens(answer), answer.failure) == ((9, 8, None, 3), None)


def test_generate_that_streams_only_what_is_new() -> None:
    answer = stream("generate", lines(chunk("a", 1), chunk("b", 2), chunk("c", 3), "[DONE]"))
    assert ("".join(answer.text), list(answer.chunks)) == ("abc", [0.0, 1.0, 2.0])


def test_generate_with_several_samples() -> None:
    answer = stream(
        "generate", lines(chunk("x", 1, index=1), chunk("a", 1, index=0), chunk("xy", 2, index=1), "[DONE]")
    )
    assert ("".join(answer.text), list(answer.chunks)) == ("a", [0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("told", "message"),
    [({"message": "too long"}, "too long"), ({}, "the engine gave the request up (finish reason 'abort')")],
)
def test_generate_that_was_aborted(told: dict[str, str], message: str) -> None:
    answer = stream("generate", lines(chunk("a", 1), chunk("a", 1, {"type": "abort", **told}), "[DONE]"))
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.message) == ("server", message)


def test_generate_without_an_end_is_cut() -> None:
    assert failed(stream("generate", lines(chunk("a", 1)))) == "cut"
    assert failed(stream("generate", lines(chunk("a", 1), "[DONE]"))) is None


def test_recorded_completion_of_llama_cpp() -> None:
    # tokens_cached is 804 there: the slot's content, generated tokens included, and no hit
    answer = recorded("completion", f"{LLAMA}/08_native_completion.json")
    assert tokens(answer) == (801, 800, None, 4)
    assert (answer.text, answer.finish_reason) == ([" some intedenominatoroperator"], "limit")


def test_completion_stream_of_llama_cpp() -> None:
    last = {"index": 0, "content": "", "stop": True, "stop_type": "eos", "tokens_evaluated": 40, "tokens_predicted": 2}
    timings = {"cache_n": 39, "prompt_n": 1, "predicted_n": 2}
    part = {"index": 0, "stop": False, "tokens_evaluated": 40, "tokens_predicted": 1}
    answer = stream(
        "completion", lines({**part, "content": "a"}, {**part, "content": "b"}, {**last, "timings": timings})
    )
    assert (answer.text, list(answer.chunks), answer.finish_reason) == (["a", "b"], [0.0, 1.0], "eos")
    assert (tokens(answer), answer.failure) == ((40, 39, None, 2), None)
    old = stream("completion", lines({**part, "content": "a"}, {"content": "", "stop": True, "tokens_evaluated": 40}))
    assert (tokens(old), old.failure) == ((40, None, None, 1), None)
    assert failed(stream("completion", lines({**part, "content": "a"}))) == "cut"


@pytest.mark.parametrize(
    ("api", "name", "expected"),
    [
        ("completions", f"{LLAMA}/04_identical_completion.json", (801, 800, None, 8)),
        ("chat", f"{LLAMA}/07_chat_identical.json", (819, 818, None, 4)),
        ("chat", f"{LLAMA}/09_chat_stream.sse", (819, 809, None, 3)),  # no usage was asked for: timings are there
        ("chat", f"{LLAMA}/10_chat_stream_include_usage.sse", (819, 818, None, 3)),
        ("chat", f"{LLAMA}/11_chat_stream_timings_per_token.sse", (819, 818, None, 3)),
        ("completions", f"{SGLANG}/03_identical_completion.json", (801, 800, None, 8)),
        ("chat", f"{SGLANG}/05_chat_identical.json", (819, 818, None, 4)),
        ("chat", f"{SGLANG}/07_chat_stream_no_usage.sse", (None, None, None, None)),
        ("chat", f"{SGLANG}/08_chat_stream_include_usage.sse", (819, 818, None, 3)),
        ("chat", "dynamo-mocker-1.6.1/04_chat_stream.sse", (819, 800, None, 3)),
    ],
)
def test_recorded_openai_forms_of_other_engines(
    api: str, name: str, expected: tuple[int | None, int | None, int | None, int | None]
) -> None:
    answer = recorded(api, name)
    assert tokens(answer) == expected
    assert (answer.finish_reason, answer.failure) == ("length", None)


def test_usage_comes_before_timings() -> None:
    body = {
        "choices": [{"index": 0, "text": "a", "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 40, "completion_tokens": 1},
        "timings": {"cache_n": 30, "prompt_n": 7, "predicted_n": 5},
    }
    assert tokens(whole("completions", body)) == (40, 30, None, 1)


# --- lists of SGLang -------------------------------------------------------------------------------------------------


def one(prompt: Any, cached: Any, text: str = "a", finish: Any = "length") -> dict[str, Any]:
    reason = {"type": finish} if isinstance(finish, str) else finish
    meta = {"prompt_tokens": prompt, "cached_tokens": cached, "completion_tokens": 2, "finish_reason": reason}
    return {"text": text, "meta_info": meta}


def listed(entries: object, samples: int) -> Answer:
    answer = Answer("generate", samples=samples)
    answer.take_body(json.dumps(entries), 0.0)
    answer.close()
    return answer


def test_answers_to_several_prompts_add_up() -> None:
    answer = listed([one(10, 8, "a"), one(7, 0, "b"), one(5, 4, "c")], 1)
    assert (tokens(answer), answer.failure) == ((22, 12, None, 6), None)
    assert (answer.text, answer.finish_reason) == (["a"], "length")
    assert tokens(listed([one(10, 8)], 1)) == (10, 8, None, 2)


@pytest.mark.parametrize(
    ("entries", "samples", "prompt"),
    [
        ([one(10, 9), one(10, 9)], 2, 10),
        ([one(10, 9), one(10, 9), one(7, 6), one(7, 6)], 2, 17),  # the samples of a prompt side by side
        ([one(10, 9), one(7, 6), one(10, 9), one(7, 6)], 2, None),  # they are not
        ([one(10, 9), one(10, 9), one(10, 9)], 2, None),  # one is missing
    ],
)
def test_samples_of_one_prompt_count_it_once_and_find_what_it_put_there(
    entries: list[Any], samples: int, prompt: int | None
) -> None:
    assert tokens(listed(entries, samples)) == (prompt, None, None, 2 * len(entries))


def test_a_number_that_one_of_the_answers_leaves_out_is_unknown() -> None:
    assert tokens(listed([one(10, 8), one(7, None)], 1)) == (17, None, None, 4)
    assert tokens(listed([one(10, 8), one(None, 3)], 1)) == (None, None, None, 4)


@pytest.mark.parametrize("odd", [-8, "8", True, 8.0])
def test_a_number_that_is_none_is_not_added(odd: object) -> None:
    answer = listed([one(10, 9), one(7, odd)], 1)
    assert answer.failure is not None
    assert answer.failure.message == f"meta_info.cached_tokens: expected a whole number of tokens, got {odd!r}"


@pytest.mark.parametrize(
    ("last", "kind", "message"),
    [
        (one(7, 0, finish={"type": "abort", "message": "too long"}) | {"index": 1}, "server", "too long"),
        ({"error": {"message": "out of memory"}}, "server", "out of memory"),
        (one(7, 0, finish=None), "cut", "ended without"),
        (3, "protocol", "expected a JSON object"),
    ],
)
def test_one_broken_answer_breaks_the_list(last: Any, kind: str, message: str) -> None:
    answer = listed([one(10, 8), last], 1)
    assert answer.failure is not None
    assert answer.failure.kind == kind
    assert message in answer.failure.message


def test_no_other_form_is_a_list_and_an_empty_one_is_nothing() -> None:
    assert failed(listed([], 1)) == "protocol"
    assert failed(whole("chat", [{"choices": [{"text": "a", "finish_reason": "stop"}]}])) == "protocol"


# --- Ollama ----------------------------------------------------------------------------------------------------------


def test_ollama_tells_the_prompt_and_nothing_of_its_cache() -> None:
    body = {"model": "m", "response": "ab", "thinking": "t", "done": True, "done_reason": "length"}
    answer = whole("ollama", {**body, "prompt_eval_count": 26, "eval_count": 290})
    assert (answer.text, answer.reasoning, answer.finish_reason) == (["ab"], ["t"], "length")
    assert (tokens(answer), answer.failure) == ((26, None, None, 290), None)


def test_ollama_without_an_end_is_cut_and_an_error_is_one() -> None:
    assert failed(whole("ollama", {"response": "a", "done": False})) == "cut"
    assert failed(whole("ollama", {"response": "a", "done": True})) is None
    assert failed(whole("ollama", {"error": "model 'm' not found"})) == "server"
