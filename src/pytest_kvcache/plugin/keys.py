"""Where the plugin keeps its state: typed stash keys, nothing on attributes of pytest's objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pytest

from .settings import Settings
from .state import TestState

if TYPE_CHECKING:
    from ..model import Grain
    from ..regression.values import Entry
    from ..report.record import Record
    from .curves import Curves
    from .keeping import Keeper
    from .rows import Rows

SETTINGS = pytest.StashKey[Settings]()
RUN = pytest.StashKey[str]()
WARM = pytest.StashKey[dict[str, set[str]]]()
GRAINS: pytest.StashKey[dict[tuple[str, str | None], Grain]] = pytest.StashKey()
STATE = pytest.StashKey[TestState]()
EVIDENCE = pytest.StashKey[Iterable[tuple[str, str]]]()
RECORD: pytest.StashKey[Record] = pytest.StashKey()
ROWS: pytest.StashKey[Rows] = pytest.StashKey()
CURVES: pytest.StashKey[Curves] = pytest.StashKey()
KEEPER: pytest.StashKey[Keeper] = pytest.StashKey()
BASELINE: pytest.StashKey[Mapping[str, Entry] | None] = pytest.StashKey()
ATTEMPTS = pytest.StashKey[int]()
