"""Requests that differ in one planted thing, and their tokens as the simulated engine counts them.

The built-in tokenizer has no pieces for the words of these texts, so that a token is a character. A chat of the
simulated engine is ``<|im_start|>ROLE\\nTEXT<|im_end|>\\n`` again and again, tools in a system turn of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_kvcache.simulate.body import render_chat
from pytest_kvcache.workloads.tokens import load_tokenizer

Body = Mapping[str, Any]

RULES = "Xyzzy: plugh, qwert; asdfg. Zxcvb-mnbvc, poiuyt! Lkjhg fdsaq wsxed crfvt gbyhn ujmik."
SYSTEM_TURN = len("<|im_start|>system\n")
END_OF_TURN = len("<|im_end|>\n")
USER_TURN = len("<|im_start|>user\n")
ANSWER = len("<|im_start|>assistant\n")


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def chat(system: str | None = RULES, *messages: Mapping[str, Any], **fields: Any) -> Body:
    head = [] if system is None else [said("system", system)]
    return {"messages": [*head, *(messages or [said("user", "hi")])], **fields}


def tool(name: str, **parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters or {"type": "object"}}}


def rendered(body: Body) -> str:
    return str(body["prompt"]) if "prompt" in body else render_chat(body["messages"], body.get("tools"))


def ids(a: Body, b: Body) -> tuple[Sequence[int], Sequence[int]]:
    one, other = load_tokenizer("builtin").encode([rendered(a), rendered(b)])
    return one, other


def parting(a: Sequence[int], b: Sequence[int]) -> int:
    """The oracle of token positions: looks at every token in turn."""
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
