"""A sweep to lines: one axis as a table, more as a grid for each figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..figures import duration
from .columns import UNKNOWN, aligned
from .levels import level_number, level_text, unit
from .plain import Record
from .sweeps import Place, is_number, ordered_rows, place_of

_MOST_COLUMNS = 12  # values side by side; more go down
_WIDTH = 100  # characters that blocks beside each other may take
_MARKS = {"fail": "!", "inconclusive": "?"}
_FIGURES: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("hit rate", "hit_rate", "{:.3f}".format),
    ("TTFT p50", "ttft_p50_s", duration),
    ("output tok/s", "output_tok_s", "{:,.0f}".format),
    ("at", "level", level_text),
    ("{} that holds", "limit", level_number),
)


def grid(sweep: Record) -> list[str]:
    """Return the lines of a sweep: its tests, what was measured at each place, and what follows from it."""
    axes = moving_axes(sweep)
    lines = _one_axis(axes[0], sweep["cells"]) if len(axes) == 1 else _several(axes, sweep["cells"])
    return [f"sweep {sweep['name']}{outcome(sweep)}", *(f"  {line}" for line in (*lines, *sweep["statements"]))]


def outcome(sweep: Record) -> str:
    """Return what stands behind the name of a sweep: where all of it was measured, and what became of its tests."""
    cells, axes = sweep["cells"], moving_axes(sweep)
    fixed = [f"{axis['name']} {axis_text(axis['values'][0])}" for axis in sweep["axes"] if axis not in axes]
    fixed += filter(None, (_level(cells),))
    return (f" at {', '.join(fixed)}" if fixed else "") + f": {_counted(cells)}"


def tables(sweep: Record) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Return the title and the rows of each table of a sweep, a header first: one table for one axis, else a figure."""
    axes, cells = moving_axes(sweep), sweep["cells"]
    if len(axes) == 1:
        return [("", _along(axes[0], cells))]
    across = across_axis(axes)
    down = [axis for axis in axes if axis is not across]
    labels = [
        tuple(axis["name"] for axis in down),
        *(tuple(map(axis_text, place)) for place, _ in ordered_rows(down, cells)),
    ]
    found = []
    for title, key, form in _figures(cells):
        rows = [tuple(map(axis_text, across["values"])), *_beneath(across, down, cells, key, form)]
        whole = [(*label, *row) for label, row in zip(labels, rows, strict=True)]
        found.append((f"{title} by {across['name']}", whole))
    return found


def moving_axes(sweep: Record) -> list[Record]:
    """Return the axes with more than one value; one at least."""
    return [axis for axis in sweep["axes"] if len(axis["values"]) > 1] or sweep["axes"][:1]


def _level(cells: Sequence[Record]) -> str | None:
    """Return the level that all figures are from; None when there is none, or more than one."""
    levels = {level_text(cell["level"]) for cell in cells if cell["requests"]}
    return levels.pop() if len(levels) == 1 and any(cell["level"] is not None for cell in cells) else None


def _counted(cells: Sequence[Record]) -> str:
    verdicts = [cell["verdict"] for cell in cells]
    words = {"pass": "passed", "fail": "failed (!)", "inconclusive": "inconclusive (?)"}
    return ", ".join(f"{verdicts.count(verdict)} {word}" for verdict, word in words.items() if verdict in verdicts)


def _one_axis(axis: Record, cells: Sequence[Record]) -> list[str]:
    header, *rows = _along(axis, cells)
    return aligned([header, *_padded(rows, 1)])


def _along(axis: Record, cells: Sequence[Record]) -> list[tuple[str, ...]]:
    figures = _figures(cells)
    rows = [
        (axis_text(value), *(_marked(cell, key, form) for _, key, form in figures))
        for (value,), row in ordered_rows([axis], cells)
        for cell in row
    ]
    return [(axis["name"], *(title for title, _, _ in figures)), *rows]


def _several(axes: Sequence[Record], cells: Sequence[Record]) -> list[str]:
    """Return one block a figure; the blocks beside each other where they are narrow."""
    across = across_axis(axes)
    down = [axis for axis in axes if axis is not across]
    places = ordered_rows(down, cells)
    labels = aligned([[axis["name"] for axis in down], *([*map(axis_text, place)] for place, _ in places)])
    blocks = [["", *labels]]
    for title, key, form in _figures(cells):
        block = aligned([[*map(axis_text, across["values"])], *_padded(_beneath(across, down, cells, key, form), 0)])
        blocks.append([title, *block])
    by = f"by {across['name']}:"
    if sum(_width(block) + 3 for block in blocks) <= _WIDTH:
        return [by, *_beside(blocks)]
    return [line for block in blocks[1:] for line in (f"{block[0]} {by}", *_beside([labels, block[1:]]))]


def _beneath(
    across: Record, down: Sequence[Record], cells: Sequence[Record], key: str, form: Callable[[Any], str]
) -> list[tuple[str, ...]]:
    """Return a figure in rows, a column for each value of an axis."""
    return [tuple(_marked(cell, key, form) for cell in row) for _, row in laid_out(across, down, cells)]


def laid_out(
    across: Record, down: Sequence[Record], cells: Sequence[Record]
) -> list[tuple[Place, list[Record | None]]]:
    """Return cells in rows, by their place on the axes that go down, one for each value of the axis across."""
    rows = []
    for place, row in ordered_rows(down, cells):
        found: dict[Place, Record] = {}
        for cell in sorted(row, key=_worth):
            found.setdefault(place_of(cell["axes"].get(across["name"])), cell)
        rows.append((place, [found.get(place_of(value)) for value in across["values"]]))
    return rows


def _beside(blocks: Sequence[Sequence[str]]) -> list[str]:
    widths = [_width(block) for block in blocks]
    return [
        "   ".join(line.ljust(width) for line, width in zip(lines, widths, strict=True)).rstrip()
        for lines in zip(*blocks, strict=True)
    ]


def _width(block: Sequence[str]) -> int:
    return max(map(len, block))


def _figures(cells: Sequence[Record]) -> list[tuple[str, str, Callable[[Any], str]]]:
    """Return what is known of any cell: title, key and form."""
    level = unit([cell["limit"] for cell in cells])
    known = [figure for figure in _FIGURES if any(cell[figure[1]] is not None for cell in cells)]
    in_title = "level" if _level(cells) is not None else None
    return [(title.format(level), key, form) for title, key, form in known if key != in_title]


def across_axis(axes: Sequence[Record]) -> Record:
    """Return the axis whose values stand side by side: that of the rates, else the one with most numbers."""
    fitting = [axis for axis in axes if len(axis["values"]) <= _MOST_COLUMNS]
    if not fitting:
        return min(axes, key=lambda axis: len(axis["values"]))
    return max(
        fitting,
        key=lambda axis: ("rate" in axis["name"].split("_"), sum(map(is_number, axis["values"]))),
    )


def _worth(cell: Record) -> int:
    """Return a rank by verdict: of several tests at one place the worst is shown, so that no failed one is hidden."""
    return [*_MARKS, "pass"].index(cell["verdict"])


def _marked(cell: Record | None, key: str, form: Callable[[Any], str]) -> str:
    if cell is None:
        return ""
    return (UNKNOWN if cell[key] is None else form(cell[key])) + _MARKS.get(cell["verdict"], "")


def _padded(rows: Sequence[tuple[str, ...]], words: int) -> list[tuple[str, ...]]:
    """Return rows whose digits stand below each other where some carry a mark."""
    marks = tuple(_MARKS.values())
    if not any(cell.endswith(marks) for row in rows for cell in row[words:]):
        return list(rows)
    return [
        (*row[:words], *(cell if cell.endswith(marks) or not cell else f"{cell} " for cell in row[words:]))
        for row in rows
    ]


def axis_text(value: object) -> str:
    """Return a value of an axis."""
    return UNKNOWN if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
