"""How much cache is enough? The hit rate of traces at every budget, with the knee."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...capacity.budget import short
from ..cells import known, rate
from ..columns import UNKNOWN
from ..plain import Record
from .blocks import Block, Section, folded, section, table
from .traces import SERIES, Trace, axis, bound, figure, label, line, log_axis, thinned

_ROWS = 40  # of a table; a chart has more points


def curves_section(curves: Sequence[Record], most: int) -> list[Section]:
    """Return the curves of a session together, as many as can be told apart in one chart.

    Args:
        curves: of a document.
        most: points of each.
    """
    charts = [curves[start : start + SERIES] for start in range(0, len(curves), SERIES)]
    drawn = [_chart(several, most) for several in charts]
    return section("Hit rate against budget", *drawn, _summary(curves), *map(_points, curves), wide=True)


def _title(curve: Record) -> str:
    return f"{curve['name']}, {curve['policy']}"


def _chart(curves: Sequence[Record], most: int) -> Block | None:
    traces: list[Trace] = []
    for number, curve in enumerate(curves):
        points = thinned(_drawn(curve), most)
        if not points:
            continue
        at, rates = [point["tokens"] for point in points], [point["hit_rate"] for point in points]
        name, told = _title(curve), [f"{label(_title(curve))}: {_point(point)}" for point in points]
        traces.append(line(number, name, at, rates, told, legendgroup=label(name), mode="lines"))
        traces += _knee(number, curve)
        if curve["ceiling"] is not None:
            ends = (at[0], at[-1])
            said = {"text": f"ceiling {curve['ceiling']:.3f}", "showlegend": False}
            traces.append(bound("ceiling", ends, curve["ceiling"], f"@s{number}", legendgroup=label(name), **said))
    budgets = [tokens for trace in traces for tokens in trace["x"]]
    if not budgets:
        return None
    return figure(
        "Hit rate of each budget; dashed: the ceiling, diamond: the knee",
        traces,
        height=400,
        xaxis=log_axis(budgets, lambda tokens: short(round(tokens)), "budget (tokens)"),
        yaxis=axis("hit rate", range=[0, 1.03], tickformat=".1f"),
    )


def _drawn(curve: Record) -> list[Record]:
    """Return the points that a logarithmic axis has room for."""
    return [point for point in curve["points"] if point["tokens"] and point["hit_rate"] is not None]


def _knee(number: int, curve: Record) -> Iterator[Trace]:
    knee = curve["knee"]
    if knee is None:
        return
    at = next((point["hit_rate"] for point in _drawn(curve) if point["tokens"] >= knee["tokens"]), None)
    if at is not None:
        told = [f"knee of {label(_title(curve))}: {_size(knee)}"]
        group = {"legendgroup": label(_title(curve)), "showlegend": False, "mode": "markers"}
        trace = line(number, "knee", [knee["tokens"]], [at], told, **group)
        trace["marker"] |= {"symbol": "diamond", "size": 14, "line": {"width": 2, "color": "@paper"}}
        yield trace


def _point(point: Record) -> str:
    return f"{point['hit_rate']:.3f} at {_size(point)}"


def _size(budget: Record) -> str:
    gib = "" if budget["gib"] is None else f", {budget['gib']:,.2f} GiB"
    return f"{budget['tokens']:,} tokens ({budget['blocks']:,} blocks{gib})"


def _summary(curves: Sequence[Record]) -> Block | None:
    rows = [("trace", "policy", "block size", "bytes per token", "ceiling", "knee")]
    for curve in curves:
        knee = UNKNOWN if curve["knee"] is None else _size(curve["knee"])
        ceiling = rate(curve["ceiling"])
        sizes = (curve["block_size"], curve["bytes_per_token"])
        told = (known(size, "{:,}".format) for size in sizes)
        rows.append((curve["name"], curve["policy"], *told, ceiling, knee))
    return table(rows, words=(0, 1))


def _points(curve: Record) -> Block | None:
    rows: list[tuple[Any, ...]] = [("tokens", "blocks", "GiB", "hit rate")]
    for point in thinned(curve["points"], _ROWS):
        gib = known(point["gib"], "{:,.2f}".format)
        rows.append((f"{point['tokens']:,}", f"{point['blocks']:,}", gib, rate(point["hit_rate"])))
    more = f" ({len(rows) - 1:,} of {len(curve['points']):,} budgets)" if len(curve["points"]) > _ROWS else ""
    return folded(table(rows, words=(), title=f"{_title(curve)}{more}"))
