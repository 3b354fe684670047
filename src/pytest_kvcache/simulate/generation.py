"""The routes that generate: one request, checked, to an answer of the simulated engines."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from aiohttp import web

from .answer import Answerer
from .body import BodyError, Generate, parse_generate, parse_object
from .dialects import Dialect
from .messages import Messages
from .refusal import refusal
from .responses import Responses

if TYPE_CHECKING:
    from .server import SimServer

_RANK = "X-data-parallel-rank"


class GenerationRoutes:
    """Completions, chat, and what is told as another kind of chat.

    Args:
        server: whose engines generate.
    """

    def __init__(self, server: SimServer) -> None:
        self._server = server

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.post("/v1/completions", self._completions),
            web.post("/v1/chat/completions", self._chat),
            web.post("/v1/messages", self._messages),
            web.post("/v1/responses", self._responses),
        ]

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=False)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=True)

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=True, dialect=Messages())

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=True, dialect=Responses())

    async def _generate(
        self, request: web.Request, *, chat: bool, dialect: Dialect | None = None
    ) -> web.StreamResponse:
        server = self._server
        server.served += 1
        faults = server.faults.at(server.served)
        if faults.status is not None:
            return _refused(faults.status, faults.retry_after)
        given = parse_object(await request.text())
        body = parse_generate(given if dialect is None else dialect.chat_body(given), chat=chat)
        if body.model not in (None, server.model):
            message = f"The model `{body.model}` does not exist; served is {server.model}"
            return refusal(404, message, "NotFoundError", "model")
        prompts = [self._encode(prompt) for prompt in body.prompts()]
        self._check(body, prompts)
        rank = self._rank(request)
        server.before_generation()
        details = server.details or (dialect is not None and dialect.always_details)
        answerer = Answerer(server.fleet, server.tokenizer, server.model, body, prompts, details, faults, rank)
        try:
            if body.stream:
                return await _stream(request, answerer, dialect)
            answer = await answerer.whole()
            return web.json_response(answer if dialect is None else dialect.whole(answer))
        finally:
            if server.faults.late_counters:
                server.late.note(time.monotonic(), server.fleet.counts)

    def _rank(self, request: web.Request) -> int | None:
        """Return the engine that the client pins; a header that is no number is ignored (vLLM 0.32)."""
        given = request.headers.get(_RANK, "")
        if not given.lstrip("-").isdecimal():
            return None
        rank, engines = int(given), len(self._server.fleet.engines)
        if not 0 <= rank < engines:
            raise BodyError(f"data_parallel_rank {rank} is out of range [0, {engines})")
        return rank

    def _encode(self, prompt: str | list[int]) -> list[int]:
        return self._server.tokenizer.encode(prompt).ids if isinstance(prompt, str) else prompt

    def _check(self, body: Generate, prompts: list[list[int]]) -> None:
        limit, faults = self._server.config.max_model_len, self._server.faults
        if faults.no_logprobs and body.wants_logprobs:
            raise BodyError("planted fault: no log probabilities", "logprobs")
        if faults.salt_required and body.cache_salt is None:
            raise BodyError("planted fault: a cache_salt is required", "cache_salt")
        for ids in prompts:
            if not ids:
                raise BodyError("the prompt must not be empty", "prompt")
            if len(ids) + body.output_len > limit:
                raise BodyError(
                    f"This model's maximum context length is {limit} tokens. However, your request has {len(ids)} input"
                    f" and {body.output_len} output tokens",
                    "input_tokens",
                )
        if body.n > 1 and not body.temperature:
            raise BodyError("n must be 1 when using greedy sampling", "n")


async def _stream(request: web.Request, answerer: Answerer, dialect: Dialect | None) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    told = answerer.events()
    async with aclosing(told), aclosing(told if dialect is None else dialect.events(told)) as chunks:
        async for chunk in chunks:
            if chunk is None:  # a planted cut
                if request.transport is not None:
                    request.transport.abort()
                return response
            await response.write(chunk)
    await response.write_eof()
    return response


def _refused(status: int, retry_after: float | None) -> web.Response:
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    return refusal(status, "planted fault: try again later", "ServiceError", headers=headers)
