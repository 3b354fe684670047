"""The HTTP front of the simulated engine: its state, who may come in, and how long it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from aiohttp import web

from ..errors import ConfigurationError
from ..workloads import builtin
from .body import BodyError
from .counts import LateCounts
from .engine import EngineConfig
from .faults import Faults
from .fleet import Fleet, Routing
from .generation import GenerationRoutes
from .operations import OperationRoutes
from .refusal import refusal

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class SimServer:
    """State of the server.

    Attributes:
        config: of each engine.
        model: the served name.
        metric_prefix: of the samples on the metrics page.
        details: False leaves ``prompt_tokens_details`` out of every usage.
        dev_mode: False hides the reset route, as a production server does.
        api_key: required as a bearer token; None: open.
        faults: in force now.
        engines: how many stand behind the port.
        routing: how requests are spread over them.
        shared_external: one external store for all of them.
        served: generation requests since the start or the last change of faults.
    """

    config: EngineConfig
    model: str = "sim"
    metric_prefix: str = "sim:"
    details: bool = True
    dev_mode: bool = True
    api_key: str | None = None
    faults: Faults = field(default_factory=Faults)
    engines: int = 1
    routing: Routing = "round-robin"
    shared_external: bool = False
    served: int = 0

    def __post_init__(self) -> None:
        self.tokenizer = builtin.load()
        numbers = (self.tokenizer.token_to_id(f" {word}") for word in builtin.common_words())
        words = [number for number in numbers if number is not None]
        self.fleet = Fleet(self.config, words, self.engines, self.routing, shared_external=self.shared_external)
        self.late = LateCounts(self.fleet.counts)

    def application(self) -> web.Application:
        """Return the routes."""
        app = web.Application(client_max_size=1 << 28, middlewares=[self._guard])
        app.add_routes([*GenerationRoutes(self).routes(), *OperationRoutes(self).routes()])
        return app

    def set_faults(self, faults: Faults) -> None:
        """Put other faults in force and count requests from here."""
        self.faults = faults
        self.served = 0
        self.late = LateCounts(self.fleet.counts)

    def restart(self) -> None:
        """Begin anew: counters at zero, caches empty, running requests unharmed."""
        self.fleet.restart()
        self.late = LateCounts(self.fleet.counts)

    def before_generation(self) -> None:
        """Plant what comes with a generation request that is about to be served."""
        faults = self.faults
        spent: dict[str, None] = {}
        if faults.restart_after is not None and self.served > faults.restart_after:
            self.restart()
            spent["restart_after"] = None
        if faults.counters_reset_once is not None and self.served > faults.counters_reset_once:
            self.fleet.reset_counters()
            spent["counters_reset_once"] = None
        self.faults = faults.model_copy(update=spent)
        counts = self.fleet.engines[0].counts  # where the others' requests go
        counts.queries += faults.foreign + faults.foreign_tokens
        counts.prompt += faults.foreign_tokens
        counts.hits += faults.foreign_hit_tokens
        counts.device += faults.foreign_hit_tokens
        counts.cached += faults.foreign_hit_tokens

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        wanted = self.api_key
        if wanted is not None and request.headers.get("Authorization") != f"Bearer {wanted}":
            return refusal(401, "Unauthorized", "AuthenticationError")
        try:
            return await handler(request)
        except BodyError as error:
            return refusal(400, str(error), "BadRequestError", error.param)
        except ConfigurationError as error:
            return refusal(400, str(error), "BadRequestError")


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
