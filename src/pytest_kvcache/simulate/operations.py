"""The routes that do not generate: what the server says of itself, tokenising, reset, and faults on demand."""

from __future__ import annotations

import gzip
import time
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from aiohttp import web

from .body import BodyError, parse_object, render_chat
from .faults import checked_faults
from .page import content_type, render
from .refusal import refusal

if TYPE_CHECKING:
    from .server import SimServer


class OperationRoutes:
    """Health, version, models, metrics, tokenise, reset, faults and restart.

    Args:
        server: that is operated.
    """

    def __init__(self, server: SimServer) -> None:
        self._server = server

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.get("/health", self._health),
            web.get("/version", self._version),
            web.get("/metrics", self._metrics),
            web.get("/metrics/", self._metrics),
            web.get("/v1/models", self._models),
            web.post("/tokenize", self._tokenize),
            web.post("/detokenize", self._detokenize),
            web.post("/reset_prefix_cache", self._reset),
            web.put("/faults", self._set_faults),
            web.post("/restart", self._restart),
        ]

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _: web.Request) -> web.Response:
        try:
            number = version("pytest-kvcache")
        except PackageNotFoundError:
            number = "checkout"
        planted = self._server.faults.version
        return web.json_response({"version": number if planted is None else planted})

    async def _models(self, _: web.Request) -> web.Response:
        server = self._server
        entry = {
            "id": server.model,
            "object": "model",
            "created": int(server.fleet.started),
            "owned_by": "sim",
            "root": server.model,
            "parent": None,
            "max_model_len": server.config.max_model_len,
        }
        return web.json_response({"object": "list", "data": [entry]})

    async def _metrics(self, request: web.Request) -> web.Response:
        server, faults = self._server, self._server.faults
        if faults.metrics_redirect and request.path == "/metrics":
            target = "/metrics/" if faults.metrics_redirect is True else faults.metrics_redirect
            return web.Response(status=307, headers={"Location": target})
        if faults.metrics_status is not None:
            return refusal(faults.metrics_status, "planted fault", "MetricsError")
        probed = server.fleet.engines[0].counts
        probed.queries += faults.health_probe_tokens
        probed.prompt += faults.health_probe_tokens
        delay = faults.late_counters
        counts = server.late.at(time.monotonic() - delay) if delay else server.fleet.counts
        page = render(server.fleet.engines, counts, server.model, server.metric_prefix, faults).encode(
            "utf-8", "replace"
        )
        headers = {"Content-Type": content_type(faults)}
        if faults.metrics_gzip:
            page, headers["Content-Encoding"] = gzip.compress(page), "gzip"
        return web.Response(body=page, headers=headers)

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = parse_object(await request.text())
        prompt = body.get("prompt")
        if prompt is None:
            prompt = render_chat(body.get("messages") or [], body.get("tools"))
        encoded = self._server.tokenizer.encode(str(prompt))
        limit = self._server.config.max_model_len
        told = {"count": len(encoded.ids), "max_model_len": limit, "tokens": encoded.ids}
        return web.json_response({**told, "token_strs": encoded.tokens if body.get("return_token_strs") else None})

    async def _detokenize(self, request: web.Request) -> web.Response:
        tokens = parse_object(await request.text()).get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, int) and token >= 0 for token in tokens):
            raise BodyError("tokens: expected a list of token ids", "tokens")
        return web.json_response({"prompt": self._server.tokenizer.decode(tokens)})

    async def _reset(self, request: web.Request) -> web.Response:
        server, faults = self._server, self._server.faults
        if not server.dev_mode:
            return web.json_response({"detail": "Not Found"}, status=404)
        asked = request.query.get("reset_external", "").lower() in ("true", "1")
        external = asked and not faults.reset_keeps_external
        return web.json_response({"success": faults.reset_lies or server.fleet.reset(external=external)})

    async def _set_faults(self, request: web.Request) -> web.Response:
        faults = checked_faults(parse_object(await request.text()))
        self._server.set_faults(faults)
        return web.json_response(faults.model_dump())

    async def _restart(self, _: web.Request) -> web.Response:
        self._server.restart()
        return web.json_response({})
