"""The messages agree and the prompts do not: what a chat template did."""

from __future__ import annotations

import pytest

from pytest_kvcache.divergence import first
from pytest_kvcache.model import Divergence
from pytest_kvcache.workloads.tokens import load_tokenizer

from .prompts import said

ASK = said("user", "Plugh?")
GROWN = [ASK, said("assistant", "Xyzzy!"), said("user", "Qwert?")]
TURN = "<|im_start|>user\nPlugh?<|im_end|>\n<|im_start|>assistant\n"
ANSWERED = "Xyzzy!<|im_end|>\n<|im_start|>user\nQwert?<|im_end|>\n<|im_start|>assistant\n"
EMPTY = "<think>\n\n</think>\n\n"


def parted(
    left: str, right: str, a: list[dict[str, object]], b: list[dict[str, object]], *, shown: bool = True
) -> Divergence | None:
    one, other = load_tokenizer("builtin").encode([left, right])
    return first({"messages": a}, {"messages": b}, ids=(one, other), block=16, texts=(left, right) if shown else None)


def test_an_empty_think_block_on_the_last_turn() -> None:
    found = parted(TURN + EMPTY, TURN + ANSWERED + EMPTY, [ASK], GROWN)
    assert found is not None
    assert (found.cause, found.detail, found.message) == ("template_history", "think block", 1)
    assert (found.where, found.character) == ("message 1 (assistant)", None)
    assert found.shared.endswith("<|im_start|>assistant\n")
    assert found.left == EMPTY
    assert found.token == found.recoverable == len(TURN)  # the answer was in no earlier prompt
    assert "a template that keeps it" in found.advice


def test_seen_from_tokens_alone() -> None:
    found = parted(TURN + EMPTY, TURN + ANSWERED + EMPTY, [ASK], GROWN, shown=False)
    assert found is not None
    assert (found.cause, found.detail, found.message) == ("template_history", "start of the answer", 1)
    assert (found.token, found.recoverable) == (len(TURN), len(TURN))


@pytest.mark.parametrize("mark", ["<think>", "<thinking>", "[THINK]", "<|channel|>analysis<|message|>"])
def test_reasoning_that_a_template_strips_from_earlier_turns(mark: str) -> None:
    reasoning = f"{mark}\nZxcvb mnbvc poiuyt lkjhg.\n</think>\n\n"
    a, b = GROWN, [*GROWN, said("assistant", "Asdfg!"), ASK]
    left = TURN + reasoning + ANSWERED
    found = parted(left, TURN + ANSWERED + "Asdfg!<|im_end|>\n" + TURN, a, b)
    assert found is not None
    assert (found.cause, found.detail, found.message) == ("template_history", "think block", 1)
    assert found.token == len(TURN)
    assert found.recoverable == len(TURN + ANSWERED)
    found = parted(left, TURN + ANSWERED + "Asdfg!<|im_end|>\n" + TURN, a, b, shown=False)
    assert found is not None
    assert (found.cause, found.where, found.message, found.detail) == ("template_history", "rendered prompt", None, "")
    assert (found.token, found.recoverable) == (len(TURN), len(TURN + ANSWERED))


def test_a_date_that_the_template_writes() -> None:
    dated = "<|im_start|>system\nToday: 2026-01-0{}.<|im_end|>\n"
    found = parted(dated.format(5) + TURN, dated.format(6) + TURN, [ASK], [ASK])
    assert found is not None
    assert (found.cause, found.message) == ("timestamp", 0)  # before the first message ends


def test_something_else_in_the_template() -> None:
    found = parted("Xyzzy " + TURN, "Plugh " + TURN, [], [])
    assert found is not None
    assert (found.cause, found.where, found.message, found.character) == (
        "template_history",
        "rendered prompt",
        None,
        0,
    )
    assert "chat_template_kwargs" in found.advice
    found = parted("Xyzzy " * 9 + TURN, "Plugh " * 9 + TURN, [ASK], [ASK], shown=False)
    assert found is not None
    assert (found.where, found.token) == ("rendered prompt", 0)


def test_what_only_the_end_of_the_prompt_shows_is_no_difference() -> None:
    assert parted(TURN, TURN + ANSWERED, [ASK], GROWN) is None
    one, other = [1, 2, 3], [1, 2, 9, 4]  # the last token joined with the first letter of the answer
    texts = ("ab\n", "ab\n\nc")
    assert first({"messages": [ASK]}, {"messages": GROWN}, ids=(one, other), texts=texts) is None
    assert first({"messages": [ASK]}, {"messages": [*GROWN, ASK]}, texts=texts) is None


def test_ids_of_tool_calls_that_a_template_writes() -> None:
    def called(number: str) -> list[dict[str, object]]:
        call = {"id": number, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        return [ASK, {"role": "assistant", "content": None, "tool_calls": [call]}, said("tool", "ok")]

    a, b = called("call_Zq81kLx7"), called("call_Pm42nWv3")
    written = "<|im_start|>assistant\nf({{}}){}<|im_end|>\n"
    left, right = (TURN[:-22] + written.format(turns[1]["tool_calls"][0]["id"]) + ANSWERED for turns in (a, b))
    for shown in (True, False):
        found = parted(left, right, a, b, shown=shown)
        assert found is not None
        assert (found.cause, found.message, found.detail) == ("random_id", 1, "id of a tool call")
        assert found.advice.startswith("send every tool call back with the id that it came with")
    assert first({"messages": a}, {"messages": b}) is None  # most templates do not
