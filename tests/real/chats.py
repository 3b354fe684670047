"""Chats with tools that a model of random weights brings to an end, and a cache by hand to hold their reuse against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

COLOURS = [{"name": "red"}, {"name": "green"}]
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Looks a colour up.",
            "parameters": {"enum": COLOURS},  # as an object with properties it might be filled with blanks without end
            "strict": True,  # else any JSON is an argument
        },
    },
    {"type": "function", "function": {"name": "stop", "description": "Ends it.", "parameters": {"type": "object"}}},
]
FORCED: dict[str, Any] = {"tool_choice": {"type": "function", "function": {"name": "look_up"}}}
UNTHINKING: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}
INSTRUCTIONS = "You name colours and nothing else. " * 8
SYSTEM = {"role": "system", "content": INSTRUCTIONS}


class Endless:
    """A cache of full blocks that never forgets. Of an answer everything stays but its last token."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.kept: set[tuple[int, ...]] = set()  # a block is all tokens up to its end

    def hits(self, prompt: Sequence[int], answer: Sequence[int]) -> int:
        """Return the hit tokens of a prompt, and keep its blocks and its answer's."""
        found = 0
        while found + self.block < len(prompt) and tuple(prompt[: found + self.block]) in self.kept:
            found += self.block
        written = [*prompt, *answer[:-1]]
        self.kept.update(tuple(written[:end]) for end in range(self.block, len(written) + 1, self.block))
        return found
