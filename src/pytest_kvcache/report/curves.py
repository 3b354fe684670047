"""Curves of traces to lines: how much cache buys how much reuse, one line each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..capacity.budget import digits, short
from .columns import UNKNOWN, aligned, told
from .plain import Record

_HEADER = ("ceiling", "error", "knee", "GiB", "policy", "curve of", "test")
_WORDS = frozenset({4, 5, 6})  # columns


def rows(curves: Iterable[Record]) -> list[tuple[str, ...]]:
    """Return a row of cells for each curve, a header first, without columns that tell nothing; nothing for none."""
    found = [_HEADER, *map(_row, curves)]
    return told(found) if len(found) > 1 else []


def table(curves: Sequence[Record]) -> list[str]:
    """Return one aligned line a curve behind an empty one, a header first; nothing for none."""
    found = rows(curves)
    words = {n for n, name in enumerate(found[0]) if name in {_HEADER[word] for word in _WORDS}} if found else set()
    return ["", *aligned(found, left=words)] if found else []


def _row(curve: Record) -> tuple[str, ...]:
    knee = curve["knee"]
    rules = "" if curve["rules"] == "reference" else f", {curve['rules']} rules"
    warm = f", {curve['warm']:g} of it warm" if curve["warm"] else ""
    return (
        UNKNOWN if curve["ceiling"] is None else f"{curve['ceiling']:.3f}",
        UNKNOWN if curve["error"] is None else f"±{curve['error']:.3f}",
        UNKNOWN if knee is None else f"{knee['blocks']:,} blocks, {short(knee['tokens'])} tokens",
        UNKNOWN if knee is None or knee["gib"] is None else digits(knee["gib"]),
        curve["policy"] + rules + warm,
        curve["name"],
        curve["nodeid"],
    )
