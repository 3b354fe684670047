"""A real Prometheus on 127.0.0.1 for the time of a ``with`` block. Standard library only."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

BINARY_VARIABLE = "PYTEST_KV_PROMETHEUS"
START_SECONDS = 60.0  # 0.1 s on two quiet cores
STOP_SECONDS = 20.0
POLL_SECONDS = 0.05
LOG_TAIL_LINES = 20


class PrometheusDied(RuntimeError):
    """It ended, or was not ready in time; the message ends with the tail of its log."""


@dataclass(frozen=True)
class Job:
    """Static targets, as ``http://HOST:PORT`` or ``HOST:PORT``, and the time between two scrapes of one."""

    targets: tuple[str, ...]
    interval: str = "1s"


class Prometheus:
    """``prometheus`` that scrapes some jobs, with its storage in a temporary folder.

    Args:
        binary: the program.
        jobs: by name.
        prefix: path of its HTTP API, such as ``/prometheus``.
    """

    def __init__(self, binary: Path, jobs: Mapping[str, Job], prefix: str = "") -> None:
        self.binary = binary
        self.jobs = dict(jobs)
        self.prefix = prefix
        self.port = 0
        self._folder = Path()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """``http://127.0.0.1:PORT/PREFIX``; the port is chosen at the start."""
        return f"http://127.0.0.1:{self.port}{self.prefix}"

    def __enter__(self) -> Prometheus:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until /-/ready answers; raises ``PrometheusDied`` and leaves nothing behind."""
        self._folder = Path(tempfile.mkdtemp(prefix="pytest-kvcache-prometheus."))
        self._write_configuration()
        self.port = _free_port()
        command = [
            str(self.binary),
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            f"--web.external-url={self.url}",
            "--web.enable-lifecycle",
        ]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it and remove its folder; a second call does nothing."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            shutil.rmtree(self._folder, ignore_errors=True)

    def wait_until_scraped(self) -> None:
        """Wait until a target has been scraped: it begins to look for them 5 s after its start."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            with urllib.request.urlopen(f"{self.url}/api/v1/query?query=up", timeout=5) as reply:
                if json.load(reply)["data"]["result"]:
                    return
            if time.monotonic() > deadline:
                raise PrometheusDied(f"nothing was scraped within {START_SECONDS:.0f} s\n{self._log_tail()}")
            time.sleep(POLL_SECONDS)

    def reload(self, jobs: Mapping[str, Job]) -> None:
        """Scrape these jobs from now on (it looks for changed targets every 5 s)."""
        self.jobs = dict(jobs)
        self._write_configuration()
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/-/reload", method="POST"), timeout=5):
            pass

    def _write_configuration(self) -> None:
        jobs = [
            {
                "job_name": name,
                "scrape_interval": job.interval,
                "scrape_timeout": "1s",
                "static_configs": [{"targets": [target.removeprefix("http://") for target in job.targets]}],
            }
            for name, job in self.jobs.items()
        ]
        text = json.dumps({"scrape_configs": jobs})  # YAML takes JSON
        (self._folder / "prometheus.yml").write_text(text, encoding="utf-8")

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(f"{self.url}/-/ready"):
            try:
                code = process.wait(timeout=POLL_SECONDS)
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline:
                    continue
                raise PrometheusDied(f"not ready within {START_SECONDS:.0f} s\n{self._log_tail()}") from None
            raise PrometheusDied(f"it ended with code {code} before it was ready\n{self._log_tail()}")

    def _log_tail(self) -> str:
        lines = (self._folder / "log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (OSError, urllib.error.URLError):
        return False
