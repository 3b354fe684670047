"""Hooks that this plugin calls: a conftest or another plugin may implement them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest


def pytest_kvcache_engine(config: pytest.Config) -> Path | Mapping[str, Any] | Sequence[Path | Mapping[str, Any]]:  # type: ignore[empty-body] # a specification
    """Return engine profiles of your own: files, or tables of the same form (see docs/engines.md).

    One with the id of a shipped profile takes its place.
    """
