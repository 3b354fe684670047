"""When cached blocks can be read.

Hosted caches need some seconds from the first answer until its prefix is found, and forget what was not used for long.
"""

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


class Expiry:
    """How long blocks are found after their last use.

    Args:
        lifetime: seconds; 0: for ever.
    """

    def __init__(self, lifetime: float) -> None:
        self._lifetime = lifetime
        self._used: dict[int, float] = {}

    def use(self, keys: Iterable[int]) -> None:
        """Note that blocks are used now."""
        if self._lifetime:
            self._used.update(dict.fromkeys(keys, time.monotonic()))

    def reach(self, keys: Sequence[int]) -> int:
        """Return how many leading blocks of ``keys`` were used within the lifetime."""
        if not self._lifetime:
            return len(keys)
        since = time.monotonic() - self._lifetime
        for depth, key in enumerate(keys):
            if self._used.get(key, -math.inf) < since:
                return depth
        return len(keys)
