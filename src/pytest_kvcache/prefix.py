"""How long is the beginning that two sequences share? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def common(left: Sequence[Any], right: Sequence[Any]) -> int:
    """Return how many first items two sequences of one type (texts, packed tokens) share.

    By comparing slices, which costs nothing beside comparing items one by one.
    """
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while high - low > 1:  # what differs lies in [low, high)
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low
