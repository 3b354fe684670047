"""Starts a vLLM for the session when no endpoint was given; copy this file into your own tests.

With ``--kv-endpoint=URL`` (or its environment and ini twins) nothing is started. Otherwise:

    VLLM_COMMAND   the program, possibly with a path and arguments (default: vllm)
    VLLM_MODEL     what it serves: a model's directory or hub id
    VLLM_ARGS      further arguments of ``vllm serve``, as in a shell
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

START_SECONDS = 600.0  # a large model loads for minutes
STOP_SECONDS = 30.0
POLL_SECONDS = 0.5


@pytest.fixture(scope="session")
def kv_settings(kv_settings: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The settings of this run, with the endpoint of a vLLM of our own where none was named."""
    if kv_settings.endpoint is not None:
        yield kv_settings
        return
    command = shlex.split(os.environ.get("VLLM_COMMAND", "vllm"))
    model = os.environ.get("VLLM_MODEL")
    if shutil.which(command[0]) is None:
        pytest.skip(f"no endpoint, and no {command[0]} to start: give --kv-endpoint=URL or set VLLM_COMMAND")
    if model is None:
        pytest.skip("no endpoint, and no model to serve: give --kv-endpoint=URL or set VLLM_MODEL")
    arguments = shlex.split(os.environ.get("VLLM_ARGS", ""))
    log = tmp_path_factory.mktemp("vllm") / "vllm.log"
    with vllm([*command, "serve", model, *arguments], log) as url:
        yield dataclasses.replace(kv_settings, endpoint=url)


@contextmanager
def vllm(command: list[str], log: Path) -> Iterator[str]:
    """Run the server, yield its URL once it answers, and end it with all its workers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = ["--host=127.0.0.1", f"--port={port}", "--enable-prefix-caching", "--enable-prompt-tokens-details"]
    # Development mode adds POST /reset_prefix_cache, so that a run can start from a cold cache (--kv-reset).
    environment = {**os.environ, "VLLM_SERVER_DEV_MODE": "1"}
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, *settings], env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        wait_until_healthy(server, f"http://127.0.0.1:{port}", log)
        yield f"http://127.0.0.1:{port}"
    finally:
        end(server)


def wait_until_healthy(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Return when /health answers; fail with the end of the log when it does not."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:  # nobody listens yet
            pass
        try:
            server.wait(timeout=POLL_SECONDS)
            break
        except subprocess.TimeoutExpired:  # still starting
            continue
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
    pytest.fail(f"vLLM did not start (exit code {server.poll()}); the end of {log}:\n{tail}", pytrace=False)


def end(server: subprocess.Popen[bytes]) -> None:
    """Ask the server to end, which ends its workers, and then end whoever is left of its process group."""
    server.terminate()
    with suppress(subprocess.TimeoutExpired):
        server.wait(timeout=STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
