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


def told(rows: Sequence[Sequence[str]], always: int = 1) -> list[tuple[str, ...]]:
    """Return rows without the columns that tell nothing below their header; the first ``always`` stay."""
    kept = [
        column
        for column in range(len(rows[0]))
        if column < always or any(row[column] not in ("", UNKNOWN) for row in rows[1:])
    ]
    return [tuple(row[column] for column in kept) for row in rows]
