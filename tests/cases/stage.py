"""A server that plays a case: its metrics pages by how many requests were answered, and the usage of each answer."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

AT_REST = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"  # every page of a vLLM has them
SGLANG_AT_REST = "sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\n"
BLOCKS_OF_16 = 'vllm:cache_config_info{engine="0",block_size="16",enable_prefix_caching="True"} 1\n'
NO_GENERATION = ("/tokenize", "/apply-template")  # a stage tells nothing of its tokens


class Reply(NamedTuple):
    """What a route answers."""

    status: int
    text: str = ""
    headers: Mapping[str, str] = {}


@dataclass
class Stage:
    """What is played.

    Attributes:
        pages: of ``/metrics``, the nth after n answered requests, the last one from then on; none: 404.
        usages: of the answers in order, and from the beginning again.
        routes: what else a GET answers; before everything else.
        compressed: metrics pages come as gzip, whatever the client asked for.
        seen: paths and headers of what was asked.
    """

    pages: Sequence[str] = ()
    usages: Sequence[Mapping[str, Any]] = ({"prompt_tokens": 1},)
    routes: Mapping[str, Reply] = field(default_factory=dict)
    compressed: bool = False
    seen: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    served: int = 0

    def get(self, path: str) -> Reply:
        if path in self.routes:
            return self.routes[path]
        if path == "/v1/models":
            return Reply(200, json.dumps({"data": [{"id": "m"}]}), {"Content-Type": "application/json"})
        if path == "/metrics" and self.pages:
            return Reply(200, self.page, {"Content-Type": "text/plain; version=0.0.4"})
        return Reply(404)

    @property
    def page(self) -> str:
        return self.pages[min(self.served, len(self.pages) - 1)]

    def post(self) -> Reply:
        usage = self.usages[self.served % len(self.usages)]
        choice = {"index": 0, "text": "x", "message": {"content": "x"}, "finish_reason": "length"}
        self.served += 1
        return Reply(200, json.dumps({"choices": [choice], "usage": usage}), {"Content-Type": "application/json"})


def window(before: str, after: str, requests: int = 1) -> list[str]:
    """Return the pages of a window of so many requests."""
    return [*[before] * requests, after]


def versioned(version: str, route: str = "/version") -> dict[str, Reply]:
    """Return the route that tells an engine's version."""
    return {route: Reply(200, json.dumps({"version": version}))}


@contextmanager
def playing(stage: Stage) -> Iterator[str]:
    """Serve a stage and hand out its URL."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: in two, each answer waits 40 ms for an acknowledgement

        def do_GET(self) -> None:
            self._answer(lambda: stage.get(self.path))

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._answer((lambda: Reply(404)) if self.path in NO_GENERATION else stage.post)

        def _answer(self, reply: Callable[[], Reply]) -> None:
            with lock:
                stage.seen.append((self.path, dict(self.headers)))
                status, text, headers = reply()
            content = text.encode()
            if stage.compressed and self.path == "/metrics":
                content = gzip.compress(content)
                headers = {**headers, "Content-Encoding": "gzip"}
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
