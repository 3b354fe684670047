"""How do TTFT and throughput follow what a sweep varies? Its charts: lines, a heat map, and bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...figures import duration
from ..columns import UNKNOWN
from ..grid import across_axis, axis_text, laid_out, moving_axes, outcome, tables
from ..levels import headline
from ..plain import Record
from ..sweeps import is_number
from .blocks import Block, Section, folded, items, left, section, table
from .traces import SERIES, Trace, axis, figure, label, line, symbols

Row = tuple[str, list[Record | None]]
_WORSE = {"fail": " !", "inconclusive": " ?"}


def sweep_section(sweep: Record, checks: Mapping[str, Record], most: int) -> list[Section]:
    """Return what a sweep shows.

    Args:
        sweep: of a document.
        checks: of the document, by node id: for what cells do not tell.
        most: places in a chart; the tables have as many rows.
    """
    axes = moving_axes(sweep)
    cells = sweep["cells"][:most]
    across = across_axis(axes)
    down = [one for one in axes if one is not across]
    rows = [(", ".join(map(_named, down, place)), row) for place, row in laid_out(across, down, cells)]
    kept = [(title, list(grid)) for title, grid in tables(sweep | {"cells": cells})]
    words = range(len(down)) if down else (0,)
    return section(
        f"Sweep {sweep['name']}{outcome(sweep)}",
        *items(sweep["statements"], most=40),
        _lines("TTFT p50", "s", "ttft_p50_s", across, rows),
        _heat_map(across, rows) if down else None,
        _lines("output throughput", "tok/s", "output_tok_s", across, rows),
        _throughput(across, down, rows, checks),
        _lines("limit that holds", "level", "limit", across, rows),
        *(folded(table(grid, words=words, title=title)) for title, grid in kept),
        _input_table(across, rows, checks),
        *left(len(sweep["cells"]) - len(cells), "place"),
        wide=True,
    )


def _named(one: Record, value: Any) -> str:
    return f"{one['name']} {axis_text(value)}"


def _value(cell: Record | None, key: str) -> float | None:
    if cell is None or cell[key] is None:
        return None
    told: Any = cell[key]
    if key == "limit":
        told = told["concurrency"] if told["rate"] is None else told["rate"]
    return float(told)


def _across(across: Record) -> tuple[list[Any], dict[str, Any]]:
    """Return the places on the axis, as numbers where all are."""
    values = across["values"]
    if all(map(is_number, values)):
        return list(values), axis(label(across["name"]))
    return [label(axis_text(value)) for value in values], axis(label(across["name"]), type="category")


def _lines(what: str, unit: str, key: str, across: Record, rows: Sequence[Row]) -> Block | None:
    """Return one line for each place on the other axes."""
    at, x = _across(across)
    traces: list[Trace] = []
    for number, (name, row) in enumerate(rows[:SERIES]):
        values = [_value(cell, key) for cell in row]
        if any(value is not None for value in values):
            told = [_hover(name, across, value, cell, key) for value, cell in zip(across["values"], row, strict=True)]
            trace = line(number, name or what, at, values, told)
            trace["marker"]["symbol"] = symbols(number, (None if cell is None else cell["verdict"] for cell in row))
            traces.append(trace)
    more = f", first {SERIES} of {len(rows)}" if len(rows) > SERIES else ""
    return figure(
        f"{what[0].upper()}{what[1:]} by {across['name']}{more}",
        traces,
        xaxis=x,
        yaxis=axis(f"{what} ({unit})", rangemode="tozero"),
        showlegend=len(traces) > 1,
    )


def _hover(name: str, across: Record, value: Any, cell: Record | None, key: str) -> str:
    figure_ = _value(cell, key)
    if cell is None or figure_ is None:
        return ""
    shown = duration(figure_) if key.endswith("_s") and key != "output_tok_s" else f"{figure_:,.4g}"
    rate = "" if cell["hit_rate"] is None else f", hit rate {cell['hit_rate']:.3f}"
    where = ", ".join(filter(None, (_named(across, value), name)))
    return f"{label(where, 90)}: {shown}{rate}{'' if cell['verdict'] == 'pass' else ', ' + cell['verdict']}"


def _heat_map(across: Record, rows: Sequence[Row]) -> Block | None:
    values = [[_value(cell, "ttft_p50_s") for cell in row] for _, row in rows]
    if not any(value is not None for row in values for value in row):
        return None
    told = [
        ["" if (seconds := _value(cell, "ttft_p50_s")) is None else duration(seconds) + _mark(cell) for cell in row]
        for _, row in rows
    ]
    trace = {
        "type": "heatmap",
        "x": [label(axis_text(value)) for value in across["values"]],
        "y": [label(name) for name, _ in rows],
        "z": values,
        "text": told,
        "texttemplate": "%{text}",
        "textfont": {"color": "@ink"},
        "hovertext": [
            [_hover(name, across, value, cell, "ttft_p50_s") for value, cell in zip(across["values"], row, strict=True)]
            for name, row in rows
        ],
        "colorscale": "@heat",
        "colorbar": {"title": {"text": "s"}, "thickness": 12},
        "xgap": 2,
        "ygap": 2,
        "hoverongaps": False,
    }
    return figure(
        f"TTFT p50 ({across['name']} across)",
        [trace],
        height=130 + 42 * min(len(rows), 24),
        xaxis=axis(label(across["name"]), type="category"),
        yaxis={"type": "category", "automargin": True, "autorange": "reversed"},
    )


def _mark(cell: Record | None) -> str:
    return "" if cell is None else _WORSE.get(cell["verdict"], "")


def _throughput(
    across: Record, down: Sequence[Record], rows: Sequence[Row], checks: Mapping[str, Record]
) -> Block | None:
    """Return input and output throughput of each place, a colour for each value of the axis across."""
    traces: list[Trace] = []
    names = [label(name or across["name"]) for name, _ in rows]
    for number, value in enumerate(across["values"][:SERIES]):
        cells = [row[number] for _, row in rows]
        shown = {"y": [_value(cell, "output_tok_s") for cell in cells], "y2": [_input(cell, checks) for cell in cells]}
        for panel, throughput in shown.items():
            if any(one is not None for one in throughput):
                traces.append(_bars(label(_named(across, value)), number, names, throughput, panel))
    panels = {trace["yaxis"] for trace in traces}
    if panels != {"y", "y2"}:
        return None  # without both there is nothing to compare
    return figure(
        f"Input and output throughput by {', '.join(one['name'] for one in down or [across])}",
        traces,
        height=440,
        barmode="group",
        xaxis=axis("", type="category", anchor="y2"),
        yaxis=axis("output tok/s", domain=[0.54, 1]),
        yaxis2=axis("input tok/s", domain=[0, 0.42]),
    )


def _bars(name: str, number: int, at: Sequence[str], values: Sequence[float | None], panel: str) -> Trace:
    return {
        "type": "bar",
        "name": name,
        "legendgroup": name,
        "showlegend": panel == "y",
        "x": list(at),
        "y": list(values),
        "yaxis": panel,
        "marker": {"color": f"@s{number % SERIES}"},
        "hovertemplate": "%{x}, %{fullData.name}: %{y:,.0f} tok/s<extra></extra>",
    }


def _input_table(across: Record, rows: Sequence[Row], checks: Mapping[str, Record]) -> Block | None:
    """Return the input throughput, which the tables of a sweep have not; nothing where it is not told."""
    told = [[_input(cell, checks) for cell in row] for _, row in rows]
    if all(value is None for row in told for value in row):
        return None
    head = ("", *map(axis_text, across["values"]))
    shown = [[UNKNOWN if value is None else f"{value:,.0f}" for value in row] for row in told]
    lines = [(name, *row) for (name, _), row in zip(rows, shown, strict=True)]
    return folded(table([head, *lines], title=f"input tok/s by {across['name']}"))


def _input(cell: Record | None, checks: Mapping[str, Record]) -> float | None:
    """Return prompt tokens per second of the test at a place; only levels and searches tell them."""
    check = None if cell is None else checks.get(cell["nodeid"])
    figures = None if check is None else headline(check)[0]
    told: float | None = None if figures is None else figures.get("input_tok_s")
    return told
