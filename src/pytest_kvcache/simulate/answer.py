"""One generation request to its answer, whole or as events, in the shapes that a recorded vLLM 0.32 sends."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .body import Generate
from .engine import Engine, Generation
from .faults import Faults

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_numbers = itertools.count(1)


@dataclass
class Answerer:
    """Runs the sequences of one request and writes what they say.

    Attributes:
        engine: that generates.
        tokenizer: for the text of generated tokens.
        model: served name.
        body: the request.
        prompts: token ids of each prompt.
        details: report ``prompt_tokens_details``.
        faults: in force for this request.
    """

    engine: Engine
    tokenizer: Tokenizer
    model: str
    body: Generate
    prompts: list[list[int]]
    details: bool
    faults: Faults
    _sequences: list[Generation] = field(init=False)

    def __post_init__(self) -> None:
        body = self.body
        self._sequences = [
            Generation(ids, body.output_len, body.cache_salt, lookup=not body.bypasses_cache)
            for ids in self.prompts
            for _ in range(body.n)
        ]
        kind = "chatcmpl" if body.chat else "cmpl"
        self._head: dict[str, Any] = {"id": f"{kind}-{next(_numbers):016x}", "created": 0, "model": self.model}

    async def whole(self) -> dict[str, Any]:
        """Return the answer as one object."""
        await asyncio.gather(*(self._exhaust(sequence) for sequence in self._sequences))
        kind = "chat.completion" if self.body.chat else "text_completion"
        choices = [self._choice(index, sequence) for index, sequence in enumerate(self._sequences)]
        return {**self._head, "object": kind, "choices": choices, "usage": self._usage()}

    async def events(self) -> AsyncGenerator[bytes | None, None]:
        """Return the events of a stream; None stands for a connection that breaks here."""
        for index, sequence in enumerate(self._sequences):
            if self.body.chat:
                yield self._event([self._delta(index, {"role": "assistant", "content": ""})])
            if self.faults.error_in_stream:
                yield _sse({"error": {"message": "planted fault: engine died", "type": "Error", "code": 500}})
                return
            piece = b""
            async with aclosing(self.engine.generate(sequence)) as steps:
                async for due in steps:
                    piece = self._token_events(index, sequence, due)
                    cut = self.faults.cut_stream
                    if cut is not None and len(sequence.output) > cut:
                        yield None
                        return
                    if len(sequence.output) < sequence.max_tokens:
                        yield piece
            yield piece  # the last one only when the engine has closed its books, so that no scrape is stale
        if self.body.stream_options.include_usage:
            yield self._event([], self._usage())
        if not self.faults.no_done:
            yield b"data: [DONE]\n\n"

    async def _exhaust(self, sequence: Generation) -> None:
        async for _ in self.engine.generate(sequence):
            pass

    def _token_events(self, index: int, sequence: Generation, due: list[int]) -> bytes:
        finished = len(sequence.output) == sequence.max_tokens
        return b"".join(
            self._token_event(index, token, last=finished and number == len(due)) for number, token in enumerate(due, 1)
        )

    def _token_event(self, index: int, token: int, *, last: bool) -> bytes:
        text = self.tokenizer.id_to_token(token)
        reason = "length" if last else None
        if self.body.chat:
            choice = {"index": index, "delta": {"content": text}, "logprobs": None, "finish_reason": reason}
        else:
            choice = {"index": index, "text": text, "logprobs": None, "finish_reason": reason}
        if self.body.return_token_ids:
            choice["token_ids"] = [token]
        every = self.body.stream_options.continuous_usage_stats or self.faults.usage_every_chunk
        return self._event([choice], self._usage(details=False) if every else None)

    def _event(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        kind = "chat.completion.chunk" if self.body.chat else "text_completion"
        chunk = {**self._head, "object": kind, "choices": choices}
        return _sse(chunk if usage is None else {**chunk, "usage": usage})

    @staticmethod
    def _delta(index: int, delta: dict[str, Any]) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def _choice(self, index: int, sequence: Generation) -> dict[str, Any]:
        text = "".join(self.tokenizer.id_to_token(token) or "" for token in sequence.output)
        if self.body.chat:
            said: dict[str, Any] = {"message": {"role": "assistant", "content": text}}
        else:
            said = {"text": (self.tokenizer.decode(list(sequence.ids)) if self.body.echo else "") + text}
        if self.body.return_token_ids:
            said["token_ids"] = sequence.output
        return {"index": index, **said, "logprobs": None, "finish_reason": "length"}

    def _usage(self, *, details: bool = True) -> dict[str, Any]:
        prompt = sum(map(len, self.prompts)) + self.faults.tokens_off
        completion = sum(len(sequence.output) for sequence in self._sequences)
        usage = {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}
        if not details:
            return usage
        if not self.details or self.faults.no_cached_tokens:
            return {**usage, "prompt_tokens_details": None}
        last = self._sequences[-1]  # of several prompts only the last one's cached tokens are told (vLLM 0.32)
        created = last.created if self.body.chat else None
        return {**usage, "prompt_tokens_details": {"cached_tokens": last.hit, "created_cache_tokens": created}}


def _sse(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"
