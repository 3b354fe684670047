"""How many engines the router has: without it an engine that is never asked would not be missed."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register ``--engines``."""
    parser.addoption("--engines", type=int, default=4, help="engines behind the router (default: 4)")


@pytest.fixture(scope="session")
def engines(request: pytest.FixtureRequest) -> int:
    """Engines behind the router."""
    return int(request.config.getoption("--engines"))
