"""Options of this recipe: how often each load is repeated. Five runs on each side are the least that a test needs."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--repeats", type=int, default=10, help="runs of each load (default: 10)")


@pytest.fixture
def repeats(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--repeats"))
