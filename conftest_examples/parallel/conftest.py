"""A server for each worker, where there are several: ``KV_ENDPOINTS="http://gpu-a:8000 http://gpu-b:8000"``.

With one endpoint (``--kv-endpoint``) the workers take turns on it, and nothing here is needed.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import pytest


@pytest.fixture(scope="session")
def kv_settings(kv_settings: Any) -> Any:
    """The settings of this run, with the endpoint of this worker where several are listed."""
    urls = os.environ.get("KV_ENDPOINTS", "").split()
    if not urls:
        return kv_settings
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return dataclasses.replace(kv_settings, endpoint=urls[worker % len(urls)])
