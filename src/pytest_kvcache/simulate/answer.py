"""One generation request to its answer, whole or as events, in the shapes that a recorded vLLM 0.32 sends."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .body import Generate
from .engine import Engine, Generation
from .faults import Faults
from .fleet import Fleet
from .logprobs import told
from .usage import Usage

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_numbers = itertools.count(1)
_HOLE = "\x00"  # stands for the text in an event that is made once and filled many times
_SIGNATURE = {"system_fingerprint": "sim"}
# What vLLM sends as null whatever is asked.
_WHOLE_NULLS = dict.fromkeys(("service_tier", "kv_transfer_params", "ec_transfer_params", "metrics"))
_CHAT_NULLS = dict.fromkeys(("prompt_logprobs", "prompt_text"))
_MESSAGE_NULLS = dict.fromkeys(("refusal", "annotations", "audio", "function_call", "reasoning"))


@dataclass
class Answerer:
    """Runs the sequences of one request and writes what they say.

    Attributes:
        fleet: the engines that generate; each sequence is routed for itself.
        tokenizer: for the text of generated tokens.
        model: served name.
        body: the request.
        prompts: token ids of each prompt.
        details: report ``prompt_tokens_details``.
        faults: in force for this request.
        rank: number of the engine that the client wants; None: the router's choice.
    """

    fleet: Fleet
    tokenizer: Tokenizer
    model: str
    body: Generate
    prompts: list[list[int]]
    details: bool
    faults: Faults
    rank: int | None = None
    _engines: list[Engine] = field(init=False)
    _sequences: list[Generation] = field(init=False)

    def __post_init__(self) -> None:
        body = self.body
        self._sequences = [self._sequence(ids, sample) for ids in self.prompts for sample in range(body.n)]
        self._engines = [
            self.fleet.engines[self.rank] if self.rank is not None else self.fleet.route(sequence.ids, sequence.salt)
            for sequence in self._sequences
        ]
        number = f"{'chatcmpl' if body.chat else 'cmpl'}-{next(_numbers):016x}"
        self._head: dict[str, Any] = {"id": number, "created": int(time.time()), "model": self.model}
        self._called = body.called
        self._every = body.stream_options.continuous_usage_stats or self.faults.usage_every_chunk
        self._plain = not (self._every or body.return_token_ids or body.wants_logprobs)

    def _sequence(self, ids: list[int], sample: int) -> Generation:
        return Generation(
            ids,
            self.body.output_len,
            None if self.faults.isolation_leak else self.body.cache_salt,
            lookup=not self.body.bypasses_cache,
            sample=sample,
            lookups=self.faults.retry_lookups,
            readable_after=self.faults.readable_after,
            preemptions=self.faults.preemptions,
            wrong_kv=self.faults.wrong_kv,
            warm_logprobs_off=self.faults.warm_logprobs_off,
        )

    async def whole(self) -> dict[str, Any]:
        """Return the answer as one object."""
        async with aclosing(self._run()) as steps:
            async for _ in steps:
                pass
        chat = self.body.chat
        choices = [self._choice(index, sequence) for index, sequence in enumerate(self._sequences)]
        answer = {**self._head, "object": "chat.completion" if chat else "text_completion", "choices": choices}
        answer.update(_WHOLE_NULLS, usage=self._usage(), **_SIGNATURE)
        if chat:
            answer.update(_CHAT_NULLS, prompt_token_ids=self.prompts[0] if self.body.return_token_ids else None)
        return answer

    async def events(self) -> AsyncGenerator[bytes | None, None]:
        """Return the events of a stream; None stands for a connection that breaks here."""
        if self.body.chat:
            yield b"".join(self._role_event(index) for index in range(len(self._sequences)))
        if self.faults.error_in_stream:
            yield _sse({"error": {"message": "planted fault: engine died", "type": "Error", "code": 500}})
            return
        held: dict[int, bytes] = {}
        sent = [0] * len(self._sequences)  # not what the engine has by now: it runs on while this is being sent
        cut = self.faults.cut_stream
        async with aclosing(self._run()) as steps:
            async for index, due in steps:
                if due is None:  # the last piece only when the engine has closed its books, so that no scrape is stale
                    yield held[index]
                    continue
                pieces = [self._token_event(index, token, at) for at, token in enumerate(due, sent[index] + 1)]
                sent[index] = done = sent[index] + len(due)
                if cut is not None and done > cut:
                    yield b"".join(pieces[: max(0, len(pieces) - (done - cut))])
                    yield None
                    return
                held[index] = b"".join(pieces)
                if done < self._sequences[index].max_tokens:
                    yield held[index]
        usage = self._usage()
        if self.body.stream_options.include_usage and usage is not None:
            yield self._event([], usage=usage, **_SIGNATURE)
        if not self.faults.no_done:
            yield b"data: [DONE]\n\n"

    async def _run(self) -> AsyncGenerator[tuple[int, list[int] | None], None]:
        """Run all sequences at once; yield (index, tokens that came due), with None when a sequence has ended."""
        queue: asyncio.Queue[tuple[int, list[int] | None]] = asyncio.Queue()

        async def pump(index: int, sequence: Generation) -> None:
            try:
                async for due in self._engines[index].generate(sequence):
                    queue.put_nowait((index, due))
            finally:
                queue.put_nowait((index, None))

        tasks = [asyncio.create_task(pump(index, sequence)) for index, sequence in enumerate(self._sequences)]
        try:
            ended = 0
            while ended < len(tasks):
                index, due = await queue.get()
                if due is None:
                    ended += 1
                    await tasks[index]  # an error of the engine is one of the request
                yield index, due
        finally:  # the client may have left: the engine must know before this request is over
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _role_event(self, index: int) -> bytes:
        delta = {"role": "assistant", "content": ""}
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        ids = self.prompts[0] if self.body.return_token_ids else None
        return self._event([choice], usage=self._usage_at(0), prompt_token_ids=ids, prompt_text=None)

    def _token_event(self, index: int, token: int, at: int) -> bytes:
        """Return the event of the ``at``-th token of a sequence, counted from one."""
        text = self.tokenizer.id_to_token(token) or ""
        sequence = self._sequences[index]
        last = at == sequence.max_tokens
        if at == 1 and self.body.echo and not self.body.chat:
            text = self.tokenizer.decode(list(sequence.ids)) + text
        if self._plain and not last and (at > 1 or self._called is None):
            before, after = self._ready[index]
            return before + json.dumps(text).encode() + after
        choice = self._delta(index, text, first=at == 1, last=last)
        choice["logprobs"] = told(self.body, sequence, [token], at - 1, self._text_of)
        if self.body.return_token_ids:
            choice["token_ids"] = [token]
            if at == 1 and not self.body.chat:
                choice["prompt_token_ids"] = sequence.ids
        if not last:
            return self._event([choice], usage=self._usage_at(at))
        choice.update(finish_reason=self._reason, stop_reason=None)
        signed = {} if self.body.stream_options.include_usage else _SIGNATURE  # it goes into the last event
        return self._event([choice], usage=self._usage_at(at), **signed)

    @cached_property
    def _ready(self) -> list[tuple[bytes, bytes]]:
        """Each sequence's plain event, up to its text and from there on."""
        made = []
        for index in range(len(self._sequences)):
            before, _, after = self._event([self._delta(index, _HOLE)]).partition(json.dumps(_HOLE).encode())
            made.append((before, after))
        return made

    @property
    def _reason(self) -> str:
        return "length" if self._called is None else "tool_calls"

    def _call_id(self, index: int) -> str:
        return f"chatcmpl-tool-{self._head['id'][-16:]}{index:04x}"  # always of one length, as it stands in histories

    def _delta(self, index: int, text: str, *, first: bool = False, last: bool = False) -> dict[str, Any]:
        if self.body.chat:
            said: dict[str, Any] = {"delta": {"content": text}}
            if self._called is not None:
                piece = self._called.delta(text, self._call_id(index), first=first, last=last)
                said = {"delta": {"tool_calls": [piece]}}
            return {"index": index, **said, "logprobs": None, "finish_reason": None, "token_ids": None}
        said = {"text": text, "logprobs": None, "finish_reason": None, "stop_reason": None}
        return {"index": index, **said, "prompt_token_ids": None, "token_ids": None}

    def _event(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None, **more: Any) -> bytes:
        kind = "chat.completion.chunk" if self.body.chat else "text_completion"
        told = {} if usage is None else {"usage": usage}
        return _sse({**self._head, "object": kind, "choices": choices, **told, **more})

    def _choice(self, index: int, sequence: Generation) -> dict[str, Any]:
        text = "".join(self.tokenizer.id_to_token(token) or "" for token in sequence.output)
        ids = self.body.return_token_ids
        end = {
            "logprobs": told(self.body, sequence, sequence.output, 0, self._text_of),
            "finish_reason": self._reason,
            "stop_reason": None,
            "token_ids": sequence.output if ids else None,
            "routed_experts": None,
        }
        if self.body.chat:
            said: dict[str, Any] = {"role": "assistant", "content": text, **_MESSAGE_NULLS}
            if self._called is not None:
                said |= {"content": None, "tool_calls": [self._called.whole(text, self._call_id(index))]}
            return {"index": index, "message": said, **end}
        text = (self.tokenizer.decode(list(sequence.ids)) if self.body.echo else "") + text
        prompt = {"prompt_logprobs": None, "prompt_token_ids": sequence.ids if ids else None}
        return {"index": index, "text": text, **end, **prompt}

    def _text_of(self, token: int) -> str:
        return self.tokenizer.id_to_token(token) or ""

    def _usage_at(self, completion: int) -> dict[str, Any] | None:
        return self._counted(completion).told_inside(self.faults) if self._every else None

    def _usage(self) -> dict[str, Any] | None:
        completion = sum(len(sequence.output) for sequence in self._sequences)
        return self._counted(completion).told(self.faults, details=self.details, stream=self.body.stream)

    def _counted(self, completion: int) -> Usage:
        last = self._sequences[-1]
        created = last.created if self.body.chat else None
        return Usage(sum(map(len, self.prompts)), completion, last.cached, created)


def _sse(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"
