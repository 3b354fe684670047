"""A simulated engine of a test file's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pytest_kvcache.simulate.process import SimProcess

from ..conftest import FAST


@pytest.fixture(scope="module")
def start_module_sim() -> Iterator[Callable[..., str]]:
    """Start a simulated engine that lives as long as the test file, and get its URL."""
    started: list[SimProcess] = []

    def start(*arguments: str) -> str:
        started.append(SimProcess(*FAST, *arguments).start())
        return started[-1].url

    yield start
    for process in started:
        process.stop()
