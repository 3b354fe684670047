"""Where the plugin keeps its state: typed stash keys, nothing on attributes of pytest's objects."""

from __future__ import annotations

import pytest

from ..report.record import Record
from .settings import Settings
from .state import TestState

SETTINGS = pytest.StashKey[Settings]()
RUN = pytest.StashKey[str]()
STATE = pytest.StashKey[TestState]()
RECORD = pytest.StashKey[Record]()
ATTEMPTS = pytest.StashKey[int]()
