"""A server that is never the bottleneck: nginx sends one prebuilt answer in one go, and notes when.

    with Burst(tokens=128) as server:
        ...  # POST to server.url + "/v1/chat/completions"
    server.answered  # monotonic seconds at which each answer had been sent

It answers before it has read the body, with a Content-Length: the cheapest case for every client.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from load_stream import MODELS, PATHS, stream

_CONFIGURATION = """
daemon off; worker_processes 1; pid nginx.pid; error_log error.log; {user}
events {{ worker_connections 2048; }}
http {{
    log_format answered '$msec $status $uri $body_bytes_sent';
    client_max_body_size 0; keepalive_requests 1000000; tcp_nodelay on; sendfile on;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{port} backlog=2048;
        root {folder};
        access_log off;
        location /v1/models {{ default_type application/json; }}
        location = /health {{ return 200; }}
        location /stream/ {{ internal; default_type text/event-stream; access_log {folder}/answered.log answered; }}
        {routes}
    }}
}}
"""
_ROUTE = "location = {route} {{ error_page 405 =200 /stream{route}; return 405; }}\n"


class Burst:
    """nginx while the block lasts.

    Args:
        tokens: content events of each answer.
        prompt_tokens: what its usage says.
    """

    def __init__(self, tokens: int = 128, prompt_tokens: int = 2048) -> None:
        self._tokens, self._prompt_tokens = tokens, prompt_tokens
        self.answered: list[float] = []

    def __enter__(self) -> Burst:
        program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            raise SystemExit("nginx is not on PATH; it is Debian's package nginx, and need not run as a service")
        self._held = tempfile.TemporaryDirectory(prefix="burst-")
        self.folder = Path(self._held.name)
        self._write()
        self._offset = time.time() - time.monotonic()
        self._process = subprocess.Popen(
            [program, "-p", str(self.folder), "-c", "nginx.conf", "-e", str(self.folder / "error.log")],
            stdin=subprocess.DEVNULL,
        )
        self._until_up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        self.answered = sorted(float(line.split()[0]) - self._offset for line in self._log())
        self._held.cleanup()

    def began(self, requests: int) -> float:
        """When the first of the last so many requests was answered, which took no time."""
        return self.answered[-requests]

    def _log(self) -> list[str]:
        return [line for line in (self.folder / "answered.log").read_text().splitlines() if " 200 " in line]

    def _write(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        for route, chat in PATHS.items():
            answer = self.folder / f"stream{route}"
            answer.parent.mkdir(parents=True, exist_ok=True)
            answer.write_bytes(stream(self._tokens, self._prompt_tokens, chat=chat, finish_apart=True).whole())
        (self.folder / "v1").mkdir()
        (self.folder / "v1" / "models").write_bytes(MODELS)
        configuration = _CONFIGURATION.format(
            port=port,
            folder=self.folder,
            user="user root;" if os.geteuid() == 0 else "",
            routes="".join(_ROUTE.format(route=route) for route in PATHS),
        )
        (self.folder / "nginx.conf").write_text(configuration)

    def _until_up(self) -> None:
        host, port = self.url.removeprefix("http://").split(":")
        for _ in range(200):
            with socket.socket() as trial:
                if trial.connect_ex((host, int(port))) == 0:
                    return
            time.sleep(0.02)
        raise SystemExit(f"nginx does not answer: {(self.folder / 'error.log').read_text()[-1000:]}")
