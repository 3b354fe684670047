"""Rows of cells to aligned lines."""

from __future__ import annotations

from collections.abc import Collection, Sequence

UNKNOWN = "-"


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = ()) -> list[str]:
    """Return one line a row, two spaces between columns.

    Args:
        rows: as many cells each, a header first.
        left: columns that hold words; the others hold numbers, and stand below each other by their last digit.
    """
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def told(rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return rows without the columns that tell nothing below their header."""
    kept = [n for n in range(len(rows[0])) if any(row[n] not in ("", UNKNOWN) for row in rows[1:])]
    return [tuple(row[n] for n in kept) for row in rows]
