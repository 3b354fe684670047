"""Verdicts among others: which is the worst, and how are several counted?"""

from __future__ import annotations

from collections.abc import Iterable

WORST_FIRST = ("fail", "inconclusive", "pass")
COUNTED = {"pass": "passed", "fail": "failed", "inconclusive": "inconclusive"}
"""What is said of a number of tests, in the order in which it is said."""


def worst(verdicts: Iterable[str]) -> str | None:
    """Return the worst of several verdicts; None of none."""
    return min(verdicts, key=WORST_FIRST.index, default=None)
