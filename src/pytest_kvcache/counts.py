"""What do counts come to of which one may not be told? Pure, and imports nothing of ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

N = TypeVar("N", int, float)


def total(counts: Iterable[N | None]) -> N | None:
    """Return the sum, 0 of none; None when one of them is not told."""
    every = list(counts)
    told = [count for count in every if count is not None]
    return sum(told) if len(told) == len(every) else None
