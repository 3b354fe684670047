"""What every pitfall needs: no waiting for counters that are known to stop short."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _short_settling(impatient: None) -> None:
    """Counters that stop short are waited for a second."""
