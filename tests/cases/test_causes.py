"""What made prompts part in the field: a clock, tools in another order, a template, an image."""

from __future__ import annotations

from typing import Any

from pytest_kvcache.divergence import advice, first, sentence
from pytest_kvcache.workloads.builder import WorkloadBuilder
from pytest_kvcache.workloads.tokens import load_tokenizer


def lines(a: Any, b: Any) -> str:
    return str(WorkloadBuilder().lint(a, b, show_text=False))


def test_x01_a_clock_in_the_system_prompt() -> None:
    def at(second: int) -> list[dict[str, Any]]:
        text = f"You help. Now: 2026-01-05 10:41:0{second}. Rules: ..."
        return [{"role": "system", "content": text}, {"role": "user", "content": "hi"}]

    found = first({"messages": at(7)}, {"messages": at(9)})
    assert found is not None
    assert (found.cause, found.message, found.character) == ("timestamp", 0, 33)
    assert found.shared == "You help. Now: 2026-01-05 10:41:0"
    assert (found.left, found.right) == ("7", "9")
    assert lines(at(7), at(9)) == (
        "requests 0 and 1 part in the system message, character 33: timestamp or date; move the date to the end of the"
        " prompt"
    )
    assert not WorkloadBuilder().lint(at(7), at(7))  # sent in the same second the two look the same
    assert WorkloadBuilder().lint(at(7))  # but the clock is seen in one of them alone


def test_x02_the_same_tools_in_another_order() -> None:
    read, search, write = (
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("read", "search", "write")
    )
    a = {"messages": [{"role": "user", "content": "hi"}], "tools": [read, search, write]}
    b = {**a, "tools": [search, read, write]}
    found = first(a, b)
    assert found is not None
    assert (found.cause, found.moved, found.message) == ("tool_order", 0, None)
    assert lines(a, b) == (
        "requests 0 and 1 part in the tools, character 44: reordered tools (first moved: position 0); sort the tools by"
        " name when the list is built"
    )


def test_x03_an_empty_think_block_only_on_the_last_turn() -> None:
    a = {"messages": [{"role": "user", "content": "Hi"}]}
    b = {"messages": [*a["messages"], {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Bye"}]}
    begun = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    think = "<think>\n\n</think>\n\n"
    texts = (
        f"{begun}{think}",
        f"{begun}Hello!<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n{think}",
    )
    one, other = load_tokenizer("builtin").encode(texts)
    found = first(a, b, ids=(one, other), block=16, texts=texts)
    assert found is not None
    assert (found.cause, found.detail, found.message) == ("template_history", "think block", 1)
    assert begun.endswith(found.shared)
    assert found.shared.endswith("assistant\n")
    assert (found.token, found.block) == (len(begun), len(begun) // 16) == (52, 3)  # a token is a character here
    assert sentence(found, show_text=False).endswith(
        "part at token 52 (block 3) in message 1 (assistant): an earlier turn is written differently (think block)"
    )
    assert "a template that keeps it" in advice(found)
    completions = first({"prompt": texts[0]}, {"prompt": texts[1]})  # the same, rendered by the client
    assert completions is not None
    assert completions.cause == "template_history"


def test_x07_images_are_placeholder_tokens() -> None:
    def shown(data: str) -> dict[str, Any]:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        return {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}]}

    ids = [1, 2, 3, 99, 99, 99, 4, 5]
    found = first(shown("AAAA"), shown("AAAB"), ids=(ids, ids))
    assert found is not None
    assert (found.cause, found.message, found.part) == ("image", 0, 1)
    assert found.shared == "What is it?"
    assert (found.token, found.recoverable) == (None, None)
    assert lines(shown("AAAA"), shown("AAAB")) == (
        "requests 0 and 1 part in message 0 (user), part 1: different image; text and token ids are equal, only the"
        " image differs: a miss from the image on is right; put images behind everything that is shared"
    )
    assert first(shown("AAAA"), shown("AAAA")) is None
    assert first(shown("AAAA"), shown("AA AA")) is not None  # no base64: compared as it is written
