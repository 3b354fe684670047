"""A server in memory: a tokenizer and a chat template, which renders, or only counts what it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_kvcache.model import Exchange, Failure, Request, ServerFacts
from pytest_kvcache.protocols import Tokenizer
from pytest_kvcache.tokenizer import NoTokenizer

Template = Callable[[Mapping[str, Any]], str]


def chatml(body: Mapping[str, Any]) -> str:
    turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in body["messages"])
    return f"{turns}<|im_start|>assistant\n"


def trimming(body: Mapping[str, Any]) -> str:
    """Llama's kind: the content is trimmed, and a header of its own goes first."""
    turns = "".join(f"[{m['role']}]\n\n{m['content'].strip()}[/]" for m in body["messages"])
    return f"[system]\n\nToday is a day.[/]{turns}[assistant]\n\n"


def tools_first(body: Mapping[str, Any]) -> str:
    return f"Tools: {json.dumps(body.get('tools') or [])}\n\n" + chatml(body)


def inline(body: Mapping[str, Any]) -> str:
    """Mistral's kind: text on both sides with spaces."""
    return "".join(f"[INST] {m['content'].strip()} [/INST]" for m in body["messages"])


TEMPLATES: dict[str, Template] = {
    "chatml": chatml,
    "trimming": trimming,
    "tools first": tools_first,
    "inline": inline,
}


class FakeSite:
    """Renders with ``template`` and ``tokenizer``; ``renders`` and ``named`` say what it tells of them."""

    as_ids = False
    series = "s"
    nonce = "n"

    def __init__(
        self, tokenizer: Tokenizer, template: Template = chatml, *, renders: bool = True, named: bool = True
    ) -> None:
        self._tokenizer, self.template, self.renders, self.named = tokenizer, template, renders, named
        self.facts = ServerFacts(engine="usage", model="m")
        self.token_ids: Mapping[str, Any] = {}
        self.warm: set[str] = set()
        self.rendered: list[Mapping[str, Any]] = []
        self.asked: list[Request] = []
        self.failure: Failure | None = None
        self.tells_usage = True

    async def tokenizer(self) -> Tokenizer:
        if not self.named:
            raise NoTokenizer("nobody knows")
        return self._tokenizer

    def tokens(self, body: Mapping[str, Any]) -> list[int]:
        if isinstance(body.get("prompt"), list):
            return list(body["prompt"])
        text = body["prompt"] if "prompt" in body else self.template(body)
        return self._tokenizer.encode([text])[0]

    async def render(self, body: Mapping[str, Any]) -> Sequence[int] | None:
        self.rendered.append(body)
        return self.tokens(body) if self.renders else None

    async def ask(self, request: Request) -> Exchange:
        self.asked.append(request)
        assert (request.api, request.max_tokens, list(request.prompt.ids)) == ("chat", 1, [])
        count = len(self.tokens({"messages": [{"role": "user", "content": request.prompt.text}]}))
        told = count if self.tells_usage and self.failure is None else None
        return Exchange("prefill", 0.0, 1.0, prompt_tokens=told, failure=self.failure)
