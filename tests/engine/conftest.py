"""A simulated engine of a test file's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ..conftest import starting


@pytest.fixture(scope="module")
def start_module_sim() -> Iterator[Callable[..., str]]:
    """Start a simulated engine that lives as long as the test file, and get its URL."""
    with starting() as start:
        yield start
