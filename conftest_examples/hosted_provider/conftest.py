"""A hosted API shows no counters and no tokenizer: it is measured by ``usage`` alone.

export OPENAI_API_KEY=...        # read from the environment, never shown
pytest --kv-endpoint=https://api.openai.com/v1 --kv-model=NAME
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest


@pytest.fixture(scope="session")
def kv_settings(kv_settings: Any) -> Any:
    """The settings of this run, judged by usage where no engine profile was named."""
    return dataclasses.replace(kv_settings, engine=kv_settings.engine or "usage")
