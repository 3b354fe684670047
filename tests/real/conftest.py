"""Real engines for these tests, each started when a test first asks for it, and how their counters are read."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from pytest_kvcache.endpoint import MetricsSource
from pytest_kvcache.engines import Reader, shipped
from pytest_kvcache.engines.counters import in_flight, tokens_by_engine
from pytest_kvcache.model import Tokens
from pytest_kvcache.scrape import Snapshot
from pytest_kvcache.scrape.page import parse
from pytest_kvcache.scrape.snapshot import spellings

from ..engine.wire import Wire
from .llamacpp import BINARY_VARIABLE, LlamaServer
from .server import VENV_VARIABLE, VllmServer


class Counters:
    """An engine's counters read through its shipped profile, without a client and without a run."""

    def __init__(self, url: str, engine: str) -> None:
        self.page = f"{url}/metrics"
        self.profile = shipped().get(engine)

    def snapshot(self) -> Snapshot:
        with urllib.request.urlopen(self.page, timeout=30) as reply:
            samples, kinds = parse(reply.read().decode(), spellings(self.profile.samples()))
        return Snapshot(0.0, samples, self.page, kinds=kinds)

    def reader(self, snapshot: Snapshot) -> Reader:
        variant = self.profile.variant(None, snapshot.names())
        assert variant is not None, "the page fits no variant of the profile"
        return Reader(MetricsSource(self.page), self.profile, variant)

    def at_rest(self) -> bool:
        now = self.snapshot()
        return in_flight(self.reader(now), now) == 0

    @contextmanager
    def window(self) -> Iterator[dict[str, Tokens]]:
        """What each engine looked up and found in the block; filled when it has ended and the engine is at rest."""
        found: dict[str, Tokens] = {}
        before = self.snapshot()
        yield found
        Wire.wait_until(self.at_rest)
        after = self.snapshot()
        found.update(tokens_by_engine(self.reader(after), before, after))


HERE = Path(__file__).parent
# Chats go through a template with tools; an answer that is forced to call one is parsed back into a call.
CHATS = (f"--chat-template={HERE / 'chatml_tools.jinja'}", "--enable-auto-tool-choice", "--tool-call-parser=hermes")
DEFAULT_VENV = ".vllm-venv"
DEFAULT_LLAMA = ".llamacpp"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs a real engine (pytest hands every collected item to every conftest)."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("real")


@pytest.fixture(scope="session")
def counters() -> Callable[[str, str], Counters]:
    """``counters(url, engine)``; a fixture, so that no test imports a conftest."""
    return Counters


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
                server = VllmServer(tiny_model, log, venv=vllm_venv, block_size=block, arguments=CHATS)
                running[block] = stack.enter_context(server)
            return running[block]

        yield serve


@pytest.fixture(scope="session")
def llama_binary(pytestconfig: pytest.Config) -> Path:
    """The llama.cpp server. A wrong path in the variable is an error; no server at all is a skip."""
    named = os.environ.get(BINARY_VARIABLE)
    binary = Path(named) if named else pytestconfig.rootpath / DEFAULT_LLAMA / "llama-server"
    if os.access(binary, os.X_OK):
        return binary.absolute()
    if named:
        pytest.fail(f"{BINARY_VARIABLE}={named} is no program: run tests/real/install_llamacpp.sh", pytrace=False)
    pytest.skip(f"no llama.cpp here: run tests/real/install_llamacpp.sh {DEFAULT_LLAMA}, or set {BINARY_VARIABLE}")


@pytest.fixture(scope="session")
def tiny_gguf(llama_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model as a GGUF file; made in a second, so it is not kept."""
    python = llama_binary.parent / "venv/bin/python"
    if not python.is_file():
        pytest.fail(f"no {python} to make a model with: run tests/real/install_llamacpp.sh", pytrace=False)
    model = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    made = subprocess.run([python, HERE / "make_tiny_gguf.py", model], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.fail(f"make_tiny_gguf.py ended with {made.returncode}\n{made.stderr}", pytrace=False)
    return model


@pytest.fixture
def llama(llama_binary: Path, tiny_gguf: Path, tmp_path: Path) -> Iterator[Callable[..., LlamaServer]]:
    """``llama(*arguments)``: a llama.cpp server of the test's own, with an empty cache."""
    with ExitStack() as stack:

        def serve(*arguments: str) -> LlamaServer:
            log = tmp_path / f"llama-server-{len(arguments)}.log"
            return stack.enter_context(LlamaServer(llama_binary, tiny_gguf, log, arguments))

        yield serve
