"""When cached blocks can be read: hosted caches need some seconds from the first answer until its prefix is found."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence


class Visibility:
    """Moments (monotonic seconds) from which blocks are readable; one that was never hidden always is."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}

    def hide(self, keys: Iterable[int]) -> None:
        """Take newly written blocks out of sight until :meth:`show`."""
        self._since.update(dict.fromkeys(keys, math.inf))

    def show(self, keys: Iterable[int], moment: float) -> None:
        """Make hidden blocks readable from ``moment`` on; a block that has a moment keeps it."""
        for key in keys:
            if self._since.get(key) == math.inf:
                self._since[key] = moment

    def reach(self, keys: Sequence[int]) -> int:
        """Return how many leading blocks of ``keys`` can be read now."""
        now = time.monotonic()
        for depth, key in enumerate(keys):
            if self._since.get(key, -math.inf) > now:
                return depth
        return len(keys)
