"""A curve to a few lines of text: hit rate over the budget, on a logarithmic axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ..errors import TraceError
from .budget import short

if TYPE_CHECKING:
    from .curve import Curve

OCTAVES = 10  # a curve is drawn from a thousandth of the budget that reaches the ceiling
LEAST = 30, 4  # columns and lines
_TICK_COLUMNS = 10
_EIGHTHS = " ▁▂▃▄▅▆▇█"


class _Pen(NamedTuple):
    """The characters of a drawing. Levels are the heights of a column's top within one line, from nothing to full."""

    levels: str
    point: str
    ceiling: str
    left: str
    corner: str
    axis: str
    tick: str
    knee: str


_UNICODE = _Pen(_EIGHTHS, "●", "╌", "│", "└", "─", "┴", "▲")
_ASCII = _Pen(" .:#", "o", "-", "|", "+", "-", "+", "^")


class Axis(NamedTuple):
    """A logarithmic axis of budgets: ``low`` to ``high`` blocks over so many columns."""

    low: int
    high: int
    columns: int

    def at(self, column: float) -> int:
        """Return the budget of a column."""
        octaves = math.log2(self.high / self.low)
        return round(self.low * 2 ** (octaves * column / (self.columns - 1)))

    def column(self, blocks: int) -> int:
        """Return the column of a budget; the first or the last one for what lies outside."""
        return next((at for at in range(self.columns) if self.at(at) >= blocks), self.columns - 1)


def needs_ascii(encoding: str | None) -> bool:
    """Tell whether an output takes ASCII alone, as far as a drawing is concerned."""
    try:
        "".join(_UNICODE).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def draw(curve: Curve, width: int = 60, height: int = 12, *, unicode: bool = True) -> str:
    """Return a drawing of the curve, its ceiling and its knee.

    Args:
        curve: with at least one counted token.
        width: columns of the whole drawing, from 30.
        height: lines of the whole drawing, from 8: the ceiling on top, two lines of legend below.
        unicode: False: ASCII alone.
    """
    if min(width - LEAST[0], height - 4 - LEAST[1]) < 0:
        raise TraceError(
            f"a drawing of {width} x {height}: expected at least {LEAST[0]} columns and {LEAST[1] + 4} lines"
        )
    pen = _UNICODE if unicode else _ASCII
    if not curve.ceiling:
        return f"{'hit rate 0: no block is used twice' if curve.input_tokens else 'no tokens were counted'}"
    high = curve.budget_for(hit_rate=curve.ceiling).blocks
    axis = Axis(max(1, high >> OCTAVES), max(2, high), width - 7)
    lines = height - 4
    top = f"{curve.ceiling:.3f} {pen.ceiling * (axis.columns - 8)} ceiling"
    body = _points(curve, axis, lines, pen) if curve.points else _area(curve, axis, lines, pen)
    labelled = [
        f"{_label(curve.ceiling, line, lines):>5} {pen.left}{''.join(cells).rstrip()}"
        for line, cells in enumerate(body)
    ]
    return "\n".join([top, *labelled, *_legend(curve, axis, pen)])


def _label(ceiling: float, line: int, lines: int) -> str:
    # the value at the foot of a line, on every other one
    return "" if (lines - 1 - line) % 2 == 0 else f"{ceiling * (lines - 1 - line) / lines:.3f}"


def _area(curve: Curve, axis: Axis, lines: int, pen: _Pen) -> list[list[str]]:
    full = len(pen.levels) - 1
    heights = [
        round(curve.hit_tokens(blocks=axis.at(column)) * lines * full / curve.ceiling_tokens)
        for column in range(axis.columns)
    ]
    return [
        [pen.levels[min(full, max(0, height - foot * full))] for height in heights] for foot in reversed(range(lines))
    ]


def _points(curve: Curve, axis: Axis, lines: int, pen: _Pen) -> list[list[str]]:
    cells = [[" "] * axis.columns for _ in range(lines)]
    for blocks in curve.points:
        if axis.low <= blocks <= axis.high:
            foot = curve.hit_tokens(blocks=blocks) * lines // curve.ceiling_tokens
            cells[max(0, lines - 1 - foot)][axis.column(blocks)] = pen.point
    return cells


def _legend(curve: Curve, axis: Axis, pen: _Pen) -> list[str]:
    ticks = {axis.columns - 1 - at: None for at in range(0, axis.columns - _TICK_COLUMNS // 2, _TICK_COLUMNS)}
    line = "".join(pen.tick if column in ticks else pen.axis for column in range(axis.columns))
    knee = curve.knee()
    names = [" "] * (axis.columns + 7)
    for column in ticks:
        text = short(axis.at(column) * curve.block_size).replace(" ", "")
        start = min(max(0, column + 7 - len(text) // 2), axis.columns + 7 - len(text))
        names[start : start + len(text)] = text
    names[:6] = "tokens"
    mark = f"{pen.knee} knee {knee}"
    place = axis.column(knee.blocks) + 7
    if place + len(mark) > axis.columns + 7:
        mark = f"knee {knee} {pen.knee}"
        place -= len(mark) - 1
    return [f"0.000 {pen.corner}{line}", "".join(names), " " * max(0, place) + mark]
