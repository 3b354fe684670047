"""Where two requests that should share a prefix part."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Class = Literal[
    "timestamp",
    "random_id",
    "counter",
    "tool_order",
    "key_order",
    "notation",
    "whitespace",
    "template_history",
    "truncated_history",
    "system_prompt",
    "tools",
    "model",
    "adapter",
    "salt",
    "image",
    "text",
]


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference of two requests.

    Attributes:
        cause: its class; ``text`` when it is none of the others.
        detail: what more is known of it in words, such as ``think block``; never the user's text.
        where: place in the request, such as ``system message`` or ``tools``; never the user's text.
        message: number of the message; None when it is in none (tools, salt, model).
        part: number of the content part in a message of several; None otherwise.
        character: position in the text of the message or part, or in the JSON of the tools; None when that means
            nothing.
        moved: for ``tool_order`` the position of the first moved tool.
        token: position of the first differing token in the rendered prompt; None without a tokenizer.
        block: number of its block; None when the block size is not known.
        tokens: tokens of the second prompt; None without a tokenizer.
        recoverable: of these, how many could be reused if the advice were taken; None when that is not known.
        shared / left / right: the text before the difference and the two that differ, shortened. The user's own, so it
            is shown only where that was asked for.
        advice: what to do.
    """

    cause: Class
    where: str
    detail: str = ""
    message: int | None = None
    part: int | None = None
    character: int | None = None
    moved: int | None = None
    token: int | None = None
    block: int | None = None
    tokens: int | None = None
    recoverable: int | None = None
    shared: str = field(default="", repr=False)
    left: str = field(default="", repr=False)
    right: str = field(default="", repr=False)
    advice: str = ""
    requests: tuple[int, ...] = ()
    pairs: int | None = None
    of_pairs: int | None = None
    expected: bool = False
