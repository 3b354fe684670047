"""What several rooms of the suite share: a simulated engine in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from hypothesis import HealthCheck, settings

from pytest_kvcache.simulate.process import SimProcess

# The same examples in every run, and however long the machine takes for one: no test here is timed or left to chance.
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few", settings.get_profile("steady"), max_examples=20)  # where all have run already
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

FAST = ("--prefill-rate", "1e9", "--decode-time", "0")


@pytest.fixture(scope="session")
def sim() -> Iterator[str]:
    """The URL of a simulated engine without delays, for tests that leave it as it is."""
    with SimProcess(*FAST) as process:
        yield process.url


@pytest.fixture
def start_sim() -> Iterator[Callable[..., str]]:
    """Start a simulated engine with options of its own and get its URL."""
    with starting() as start:
        yield start


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that will never be at rest is waited for a second instead of ten."""
    monkeypatch.setattr("pytest_kvcache.window.SETTLE_SECONDS", 1.0)


@contextmanager
def starting() -> Iterator[Callable[..., str]]:
    """Hand out a function that starts simulated engines, and stop them all at the end."""
    with ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(SimProcess(*FAST, *arguments)).url
