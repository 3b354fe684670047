"""Real engines for the tests in this folder: one vLLM per block size, started when a test first asks for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from filelock import FileLock

from .server import VENV_VARIABLE, VllmServer

HERE = Path(__file__).parent
DEFAULT_VENV = ".vllm-venv"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs a real engine (pytest hands every collected item to every conftest)."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("real")


@pytest.fixture(scope="session")
def vllm_venv(pytestconfig: pytest.Config) -> Path:
    """The virtual environment that holds vLLM. A wrong path in the variable is an error; no vLLM at all is a skip."""
    named = os.environ.get(VENV_VARIABLE)
    venv = Path(named) if named else pytestconfig.rootpath / DEFAULT_VENV
    if (venv / "bin" / "vllm").is_file():
        return venv.absolute()
    if named:
        pytest.fail(f"{VENV_VARIABLE}={named} holds no bin/vllm: run tests/real/install_vllm.sh {named}", pytrace=False)
    pytest.skip(f"no vLLM here: run tests/real/install_vllm.sh {DEFAULT_VENV}, or set {VENV_VARIABLE}")


@pytest.fixture(scope="session")
def tiny_model(vllm_venv: Path) -> Path:
    """The directory of the tiny model, built once and kept in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pytest-kvcache"
    cache.mkdir(parents=True, exist_ok=True)
    model = cache / "tiny-qwen3"
    with FileLock(cache / "tiny-qwen3.lock"):
        made = subprocess.run(
            [vllm_venv / "bin" / "python", HERE / "make_tiny_model.py", model],
            capture_output=True,
            text=True,
            check=False,
        )
    if made.returncode:
        pytest.fail(f"make_tiny_model.py ended with {made.returncode}\n{made.stderr}", pytrace=False)
    return model


@pytest.fixture(scope="session")
def vllm_server(
    vllm_venv: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[int], VllmServer]]:
    """``vllm_server(block)``: the running server of that block size (32 or 128 tokens), the same one all session."""
    running: dict[int, VllmServer] = {}
    with ExitStack() as stack:

        def serve(block: int) -> VllmServer:
            if block not in running:
                log = tmp_path_factory.mktemp("vllm") / f"block{block}.log"
                server = VllmServer(tiny_model, log, venv=vllm_venv, block_size=block)
                running[block] = stack.enter_context(server)
            return running[block]

        yield serve
