"""The HTTP front of the simulated engine: OpenAI routes, tokenise, metrics, reset, and faults on demand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from aiohttp import web

from ..errors import ConfigurationError
from ..workloads import builtin
from .answer import Answerer
from .body import BodyError, Generate, parse_generate, parse_object, render_chat
from .counts import LateCounts
from .engine import Engine, EngineConfig
from .faults import Faults, checked_faults
from .page import render

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class SimServer:
    """State of the server.

    Attributes:
        config: of the engine.
        model: the served name.
        metric_prefix: of the samples on the metrics page.
        details: False leaves ``prompt_tokens_details`` out of every usage.
        dev_mode: False hides the reset route, as a production server does.
        api_key: required as a bearer token; None: open.
        faults: in force now.
        served: generation requests since the start or the last change of faults.
    """

    config: EngineConfig
    model: str = "sim"
    metric_prefix: str = "sim:"
    details: bool = True
    dev_mode: bool = True
    api_key: str | None = None
    faults: Faults = field(default_factory=Faults)
    served: int = 0

    def __post_init__(self) -> None:
        self.tokenizer = builtin.load()
        numbers = (self.tokenizer.token_to_id(f" {word}") for word in builtin.common_words())
        self.engine = Engine(self.config, [number for number in numbers if number is not None])
        self._late = LateCounts(self.engine.counts)

    def application(self) -> web.Application:
        """Return the routes."""
        app = web.Application(client_max_size=1 << 28, middlewares=[self._guard])
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/version", self._version),
                web.get("/metrics", self._metrics),
                web.get("/v1/models", self._models),
                web.post("/v1/completions", self._completions),
                web.post("/v1/chat/completions", self._chat),
                web.post("/tokenize", self._tokenize),
                web.post("/detokenize", self._detokenize),
                web.post("/reset_prefix_cache", self._reset),
                web.put("/faults", self._set_faults),
                web.post("/restart", self._restart),
            ]
        )
        return app

    # --- generation --------------------------------------------------------------------------------------------------

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=False)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=True)

    async def _generate(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        self.served += 1
        refused = self._refusal()
        if refused is not None:
            return refused
        body = parse_generate(await request.text(), chat=chat)
        if body.model not in (None, self.model):
            message = f"The model `{body.model}` does not exist; served is {self.model}"
            return _error(404, message, "NotFoundError", "model")
        prompts = [self._encode(prompt) for prompt in body.prompts()]
        self._check(body, prompts)
        if self.faults.restart_after is not None and self.served > self.faults.restart_after:
            self._begin_anew()
            self.faults = self.faults.model_copy(update={"restart_after": None})
        self.engine.counts.queries += self.faults.foreign
        answerer = Answerer(self.engine, self.tokenizer, self.model, body, prompts, self.details, self._faults_now())
        try:
            if body.stream:
                return await self._stream(request, answerer)
            return web.json_response(await answerer.whole())
        finally:
            if self.faults.late_counters:
                self._late.note(time.monotonic(), self.engine.counts)

    async def _stream(self, request: web.Request, answerer: Answerer) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        async with aclosing(answerer.events()) as chunks:
            async for chunk in chunks:
                if chunk is None:  # a planted cut
                    if request.transport is not None:
                        request.transport.abort()
                    return response
                await response.write(chunk)
        await response.write_eof()
        return response

    def _refusal(self) -> web.Response | None:
        status = self.faults.status
        if status is None or self.served % self.faults.every:
            return None
        wait = self.faults.retry_after
        headers = {} if wait is None else {"Retry-After": f"{wait:g}"}
        return _error(status, "planted fault: try again later", "ServiceError", headers=headers)

    def _faults_now(self) -> Faults:
        if self.faults.cut_stream is not None and self.served % self.faults.every:
            return self.faults.model_copy(update={"cut_stream": None})
        return self.faults

    def _encode(self, prompt: str | list[int]) -> list[int]:
        return self.tokenizer.encode(prompt).ids if isinstance(prompt, str) else prompt

    def _check(self, body: Generate, prompts: list[list[int]]) -> None:
        limit = self.config.max_model_len
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

    # --- the rest ----------------------------------------------------------------------------------------------------

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _: web.Request) -> web.Response:
        try:
            number = version("pytest-kvcache")
        except PackageNotFoundError:
            number = "checkout"
        return web.json_response({"version": number})

    async def _models(self, _: web.Request) -> web.Response:
        entry = {
            "id": self.model,
            "object": "model",
            "created": int(self.engine.started),
            "owned_by": "sim",
            "root": self.model,
            "parent": None,
            "max_model_len": self.config.max_model_len,
        }
        return web.json_response({"object": "list", "data": [entry]})

    async def _metrics(self, _: web.Request) -> web.Response:
        if self.faults.metrics_status is not None:
            return _error(self.faults.metrics_status, "planted fault", "MetricsError")
        delay = self.faults.late_counters
        counts = self._late.at(time.monotonic() - delay) if delay else self.engine.counts
        text = render(self.engine, counts, self.model, self.metric_prefix, self.faults)
        kind = "text/html" if self.faults.metrics_body == "html" else "text/plain; version=1.0.0"
        return web.Response(body=text.encode(), headers={"Content-Type": f"{kind}; charset=utf-8"})

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = parse_object(await request.text())
        prompt = body.get("prompt")
        if prompt is None:
            prompt = render_chat(body.get("messages") or [], body.get("tools"))
        encoded = self.tokenizer.encode(str(prompt))
        told = {"count": len(encoded.ids), "max_model_len": self.config.max_model_len, "tokens": encoded.ids}
        return web.json_response({**told, "token_strs": encoded.tokens if body.get("return_token_strs") else None})

    async def _detokenize(self, request: web.Request) -> web.Response:
        tokens = parse_object(await request.text()).get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, int) and token >= 0 for token in tokens):
            raise BodyError("tokens: expected a list of token ids", "tokens")
        return web.json_response({"prompt": self.tokenizer.decode(tokens)})

    async def _reset(self, _: web.Request) -> web.Response:
        if not self.dev_mode:
            return web.json_response({"detail": "Not Found"}, status=404)
        return web.json_response({"success": self.faults.reset_lies or self.engine.reset()})

    async def _set_faults(self, request: web.Request) -> web.Response:
        self.faults = checked_faults(parse_object(await request.text()))
        self.served = 0
        self._late = LateCounts(self.engine.counts)
        return web.json_response(self.faults.model_dump())

    async def _restart(self, _: web.Request) -> web.Response:
        self._begin_anew()
        return web.json_response({})

    def _begin_anew(self) -> None:
        self.engine.restart()
        self._late = LateCounts(self.engine.counts)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        wanted = self.api_key
        if wanted is not None and request.headers.get("Authorization") != f"Bearer {wanted}":
            return _error(401, "Unauthorized", "AuthenticationError")
        try:
            return await handler(request)
        except BodyError as error:
            return _error(400, str(error), "BadRequestError", error.param)
        except ConfigurationError as error:
            return _error(400, str(error), "BadRequestError")


async def serve(server: SimServer, host: str, port: int, ready: Callable[[str], None], stop: asyncio.Event) -> None:
    """Serve until ``stop`` is set.

    Args:
        server: state.
        host: address to listen on.
        port: 0 picks a free one.
        ready: called once with the URL.
        stop: ends the server.
    """
    runner = web.AppRunner(server.application(), handler_cancellation=True, access_log=None, shutdown_timeout=0.5)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runner.cleanup)
        await runner.setup()
        site = web.TCPSite(runner, host, port)
        await site.start()
        address = runner.addresses[0]
        ready(f"http://{address[0]}:{address[1]}")
        await stop.wait()


def _error(
    status: int, message: str, kind: str, param: str | None = None, headers: dict[str, str] | None = None
) -> web.Response:
    body = {"error": {"message": message, "type": kind, "param": param, "code": status}}
    return web.json_response(body, status=status, headers=headers)
