"""A simulated engine that says what it is told to: as its model and version, in labels of its metrics, in errors."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aiohttp import web

from pytest_kvcache.simulate.engine import EngineConfig
from pytest_kvcache.simulate.faults import Faults
from pytest_kvcache.simulate.server import SimServer, serve

_REFUSED = re.compile(r'"max_tokens":\s*3\b')  # what a request asks for that is refused

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Talking(SimServer):
    """Its state.

    Attributes:
        label: of the engine on the metrics page.
        refusal: what a refused request is told, after all the headers that came with it.
    """

    label: str = "0"
    refusal: str = ""

    def application(self) -> web.Application:
        app = super().application()
        app.middlewares.append(self._talk)
        return app

    @web.middleware
    async def _talk(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method == "POST" and _REFUSED.search(await request.text()):
            echo = " ".join(request.headers.values())
            return web.json_response({"error": {"message": f"{self.refusal} {echo}"}}, status=400)
        if not request.path.startswith("/metrics"):
            return await handler(request)
        model, self.model = self.model, self.label  # its name is a label of every sample
        response = await handler(request)
        self.model = model
        label = self.label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        page = str(getattr(response, "text", "")).replace('engine="0"', f'engine="{label}"')
        return web.Response(body=page.encode("utf-8", "replace"), headers={"Content-Type": "text/plain"})


def talking(text: str, **others: str) -> Talking:
    """Return a server that says a text wherever it can; ``others`` replace it in single places."""
    config = EngineConfig(prefill_rate=1e9, decode_time=0.0)
    told = {"model": text, "label": text, "refusal": text, "version": text, **others}
    faults = Faults(version=told.pop("version"))
    return Talking(config, faults=faults, **told)  # type: ignore[arg-type] # texts only


@contextmanager
def served(server: SimServer) -> Iterator[str]:
    """Serve from a thread, and hand out the URL."""
    ready: list[str] = []
    loop, stop, up = asyncio.new_event_loop(), asyncio.Event(), threading.Event()

    def listening(url: str) -> None:
        ready.append(url)
        up.set()

    def run() -> None:
        loop.run_until_complete(serve(server, "127.0.0.1", 0, listening, stop))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert up.wait(30)
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
