"""What every pitfall needs: no waiting for counters that are known to stop short."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _short_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_kvcache.window.SETTLE_SECONDS", 1.0)
