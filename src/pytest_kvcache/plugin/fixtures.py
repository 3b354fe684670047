"""Fixtures: a chain of small links, data first, each of which a conftest can override."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ..endpoint import Endpoint
from .keys import CURVES, SETTINGS, STATE
from .observing import Sampler
from .runner import Runner
from .settings import SIM, Settings
from .state import TestState

if TYPE_CHECKING:
    from ..workloads import WorkloadBuilder
    from .replaying import TraceOpener

NO_ENDPOINT = "no endpoint to measure: give --kv-endpoint=URL, or --kv-endpoint=sim for the built-in simulated engine"


@pytest.fixture(scope="session")
def kv_settings(pytestconfig: pytest.Config) -> Settings:
    """What options, environment and ini file say; override it with ``dataclasses.replace`` to say something else."""
    return pytestconfig.stash[SETTINGS]


@pytest.fixture(scope="session")
def kv_endpoint(kv_settings: Settings) -> Iterator[Endpoint]:
    """The endpoint under test, as data; ``sim`` starts the simulated engine for the session. Skips without one."""
    if kv_settings.endpoint is None:
        pytest.skip(NO_ENDPOINT)
    if kv_settings.endpoint != SIM:
        yield kv_settings.connect(kv_settings.endpoint)
        return
    from ..simulate.process import SimProcess

    with SimProcess() as process:
        yield kv_settings.connect(process.url)


@pytest.fixture
def kv_workload() -> WorkloadBuilder:
    """Builds workloads whose reuse is known to the token, such as ``kv_workload.shared_prefix(...)``."""
    from ..workloads import WorkloadBuilder

    return WorkloadBuilder()


@pytest.fixture(scope="module")
def kv_trace(request: pytest.FixtureRequest) -> TraceOpener:
    """Opens traces: ``kv_trace("requests.jsonl", block_size=512)``. No endpoint is needed to simulate caches on them.

    A relative path is taken from the current directory, else from the folder of the test file. A fixture of the whole
    session has no test file: it calls ``pytest_kvcache.open_trace`` itself.
    """
    from .replaying import TraceOpener

    return TraceOpener(request.path.parent, request.config.stash[CURVES].take)


@pytest.fixture
def kv_metrics(kv_endpoint: Endpoint, request: pytest.FixtureRequest) -> Sampler:
    """Reads the server's counters: ``snapshot()`` now, ``window()`` around a block."""
    return Sampler(kv_endpoint, _state(request))


@pytest.fixture
def kv(kv_endpoint: Endpoint, kv_settings: Settings, request: pytest.FixtureRequest) -> Runner:
    """Runs workloads and measures what the cache reused: ``kv.run(...)``, ``await kv.arun(...)``, ``kv.measure()``."""
    return Runner(kv_endpoint, kv_settings, _state(request), request.node)


def _state(request: pytest.FixtureRequest) -> TestState:
    state: TestState = request.node.stash[STATE]
    return state
