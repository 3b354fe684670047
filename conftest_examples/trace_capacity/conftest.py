"""Recorded traffic and the model that serves it; put yours in the place of these two files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def traffic(kv_trace: Any) -> Any:
    """Eleven minutes of 24 agents. The file does not say how long its blocks are, so it has to be said here."""
    return kv_trace(HERE / "traffic.jsonl", block_size=256, model=HERE / "config.json")


@pytest.fixture(scope="module")
def curve(traffic: Any) -> Any:
    """The hit rate at every budget of an engine: only full blocks hit, and never the last token of a prompt."""
    return traffic.sweep(rules="engine")
