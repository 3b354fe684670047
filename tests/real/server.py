"""Real engines on 127.0.0.1 for the time of a ``with`` block. Standard library only."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

VENV_VARIABLE = "PYTEST_KV_VLLM_VENV"
SERVED_NAME = "tiny"
STOP_SECONDS = 20.0
POLL_SECONDS = 0.05
LOG_TAIL_LINES = 40

# One small engine beside a test run on two cores: 1 GiB of KV space (4 M tokens of the tiny model), no thread pinning,
# and one thread, because two that wait for each other by spinning come to a stand on a machine that does more.
# Development mode adds POST /reset_prefix_cache.
SMALL_ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_SERVER_DEV_MODE": "1",
}
SMALL_ARGUMENTS = (
    "--enforce-eager",
    "--dtype=bfloat16",
    "--max-model-len=16384",
    "--max-num-seqs=16",
    "--enable-prefix-caching",
    "--enable-prompt-tokens-details",
)


class ServerDied(RuntimeError):
    """The server ended, or did not answer in time; the message ends with the tail of its log."""


_Running = TypeVar("_Running", bound="Server")


class Server:
    """A command that serves HTTP, in a process group of its own; its output goes to ``log``.

    A subclass says which command and names the time that it may take until /health answers.
    """

    title = "the server"
    start_seconds = 60.0

    def __init__(self, log: Path) -> None:
        self.log = log
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        """The command that listens on 127.0.0.1 and ``self.port``."""
        raise NotImplementedError

    def environ(self) -> dict[str, str]:
        """The environment of the command: the caller's."""
        return dict(os.environ)

    @property
    def url(self) -> str:
        """``http://127.0.0.1:PORT``; the port is chosen at the start."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self: _Running) -> _Running:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server and wait until /health answers; raises ``ServerDied`` and leaves nothing behind."""
        self.port = _free_port()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self.command(),
                env=self.environ(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # its workers join its group, and Ctrl-C in the terminal reaches pytest alone
            )
        try:
            self._wait_until_healthy(self._process)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the whole process group and wait for it; a second call does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        for ending in (signal.SIGTERM, signal.SIGKILL):
            if not _signal_group(process.pid, ending):
                break
            if _wait_for_group(process, time.monotonic() + STOP_SECONDS):
                break
        process.wait()

    def _wait_until_healthy(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self.start_seconds
        while not _answers(f"{self.url}/health"):
            try:
                code = process.wait(timeout=POLL_SECONDS)
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline:
                    continue
                raise ServerDied(
                    f"{self.title} did not answer within {self.start_seconds:.0f} s\n{self._log_tail()}"
                ) from None
            raise ServerDied(f"{self.title} ended with code {code} before it answered\n{self._log_tail()}")

    def _log_tail(self) -> str:
        """The first error and the last lines: vLLM logs the cause hundreds of lines above what it ends with."""
        lines = self.log.read_text(errors="replace").splitlines()
        cause = [line for line in lines if re.search(r" ERROR .*Error: ", line)][:1]
        return "\n".join([*cause, f"--- the end of {self.log}", *lines[-LOG_TAIL_LINES:]])


class VllmServer(Server):
    """``vllm serve MODEL`` of one virtual environment.

    ``block_size`` is in tokens: the CPU backend of vLLM 0.32 takes multiples of 32 and has 128 as its default.
    ``arguments`` and ``environment`` are added to, and win over, the small settings above. Without ``venv`` the
    variable PYTEST_KV_VLLM_VENV names it.
    """

    title = "vLLM"
    start_seconds = 300.0  # 20 s on two quiet cores; the first start after an installation compiles its bytecode

    def __init__(
        self,
        model: Path,
        log: Path,
        *,
        venv: Path | None = None,
        block_size: int = 128,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(log)
        if venv is None and VENV_VARIABLE not in os.environ:
            raise ValueError(f"no virtual environment with vLLM: pass venv= or set {VENV_VARIABLE}")
        self.venv = Path(os.environ[VENV_VARIABLE]) if venv is None else venv
        self.model = model
        self.block_size = block_size
        self.arguments = tuple(arguments)
        self.environment = {**SMALL_ENVIRONMENT, **(environment or {})}

    def command(self) -> list[str]:
        return [
            str(self.venv / "bin" / "vllm"),
            "serve",
            str(self.model),
            "--host=127.0.0.1",
            f"--port={self.port}",
            f"--served-model-name={SERVED_NAME}",
            f"--block-size={self.block_size}",
            *SMALL_ARGUMENTS,
            *self.arguments,
        ]

    def environ(self) -> dict[str, str]:
        """The caller's environment without its Python paths, which belong to another virtual environment."""
        inherited = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
        path = f"{self.venv / 'bin'}{os.pathsep}{inherited.get('PATH', os.defpath)}"
        return {**inherited, "PATH": path, **self.environment}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (OSError, http.client.HTTPException):  # nobody is there yet, or somebody who speaks no HTTP
        return False


def _signal_group(group: int, number: int) -> bool:
    """Whether there was anybody to receive it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def _wait_for_group(leader: subprocess.Popen[bytes], deadline: float) -> bool:
    """Whether the leader and its workers were gone by the deadline (signal 0 asks without ending anything)."""
    while True:
        leader.poll()  # reaps it: a zombie would count as a member of the group
        if not _signal_group(leader.pid, 0):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
