"""How long each measurement of the sweep takes: minutes for figures to rely on, seconds to see that it works."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register ``--level-seconds``."""
    parser.addoption("--level-seconds", type=float, default=60.0, help="seconds of each level (default: 60)")


@pytest.fixture(scope="session")
def seconds(request: pytest.FixtureRequest) -> float:
    """Seconds that a level is kept."""
    return float(request.config.getoption("--level-seconds"))
