"""A curve to aligned lines: one budget a line."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from .budget import digits

if TYPE_CHECKING:
    from .curve import Curve


def tabulate(curve: Curve, budgets: Iterable[int] | None = None) -> str:
    """Return the curve at some budgets; the knee and the smallest budget that reaches the ceiling are marked.

    Args:
        curve: whose.
        budgets: in blocks; None: powers of two up to the ceiling (or the budgets that were simulated), and the knee.
    """
    marks = _marks(curve)
    chosen = sorted({*(usual(curve) if budgets is None else budgets)})
    columns = [
        ("blocks", [f"{at:,}" for at in chosen]),
        ("tokens", [f"{at * curve.block_size:,}" for at in chosen]),
        ("GiB", [_gib(curve, at) for at in chosen]),
        ("hit rate", [f"{curve.hit_rate(blocks=at):.4f}" for at in chosen]),
        ("error", [f"{curve.error(blocks=at):.4f}" for at in chosen]),
        ("of ceiling", [_share(curve, at) for at in chosen]),
        ("gain", _gains(curve, chosen)),
        ("evictions", [f"{curve.evictions(blocks=at):,}" for at in chosen]),
        ("", [marks.get(at, "") for at in chosen]),
    ]
    left_out = {"GiB"} if curve.bytes_per_token is None else set()
    left_out |= set() if curve.errors else {"error"}
    return "\n".join(_aligned([column for column in columns if column[0] not in left_out]))


def usual(curve: Curve, step: int = 1, rows: int = 11) -> list[int]:
    """Return the budgets of a table: powers of ``2 ** step`` up to the ceiling, the knee and the ceiling."""
    marks = _marks(curve)
    if curve.points:
        return sorted({*curve.points, *marks})
    last = max(marks, default=1).bit_length() - 1
    return sorted({*marks, *(2**power for power in range(last, -1, -step)[:rows])})


def _marks(curve: Curve) -> dict[int, str]:
    if not curve.ceiling:
        return {}
    knee, top = curve.knee().blocks, curve.budget_for(hit_rate=curve.ceiling).blocks
    return {top: "ceiling", knee: "knee, ceiling" if knee == top else "knee"}


def _gib(curve: Curve, blocks: int) -> str:
    gib = curve.sizes.budget(blocks).gib
    return "" if gib is None else digits(gib)


def _share(curve: Curve, blocks: int) -> str:
    return f"{curve.hit_tokens(blocks=blocks) / curve.ceiling_tokens:.1%}" if curve.ceiling_tokens else "-"


def _gains(curve: Curve, budgets: list[int]) -> list[str]:
    rates = [curve.hit_rate(blocks=at) for at in budgets]
    return ["", *(f"{after - before:+.4f}" for before, after in pairwise(rates))][: len(rates)]


def _aligned(columns: list[tuple[str, list[str]]]) -> Iterable[str]:
    rows = [[head for head, _ in columns], *zip(*(cells for _, cells in columns), strict=True)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(columns))]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        yield "  ".join([*cells, row[-1]]).rstrip()
