"""How did a search for the highest level go? The level over time, and what was asked of it beside its limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...figures import duration
from ..columns import UNKNOWN
from ..levels import level_text, level_value, unit
from ..plain import Record
from .blocks import Block
from .traces import Trace, axis, bound, figure, label

_OUTCOMES = {"held": ("@pass", "solid"), "breached": ("@fail", "dot"), "transition": ("@muted", "solid")}
_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E", "tokens_per_s": "tok/s of a request"}
_NEAREST = {"each": "p95", "max": "p99", "min": "p5"}  # what a record tells where it has no such statistic


def ramp_chart(limit: Record, periods: Sequence[Record]) -> Block | None:
    """Return two charts above each other.

    Args:
        limit: of a run, with what was ``asked``.
        periods: those that are shown.
    """
    if not periods:
        return None
    asked = [one for one in limit.get("asked", []) if one["metric"] in _NAMES]
    wanted: Record = asked[0] if asked else {"metric": "ttft", "statistic": "p95", "limit": None, "unit": "s"}
    name, values = _watched(wanted, periods)
    traces = []
    for outcome, (colour, dash) in _OUTCOMES.items():
        these = [(one, value) for one, value in zip(periods, values, strict=True) if one["held"] == outcome]
        if these:
            style = {"line": {"color": colour, "width": 7 if outcome != "transition" else 3, "dash": dash}}
            told = [_hover(one, name, wanted["unit"], value) for one, value in these]
            spans = [one for one, _ in these]
            traces.append(_spans(outcome, spans, [level_value(one["level"]) for one in spans], told) | style)
            second = {"yaxis": "y2", "showlegend": False}
            traces.append(_spans(outcome, spans, [value for _, value in these], told) | style | second)
    end = periods[-1]["start"] + periods[-1]["seconds"]
    if wanted["limit"] is not None:
        said = "limit of each request" if wanted["statistic"] == "each" else "limit"
        traces.append(bound(f"{said} {wanted['limit']:g} {wanted['unit']}", (0, end), wanted["limit"], yaxis="y2"))
    return figure(
        f"The level over time, and {name} against what was asked",
        traces,
        height=460,
        xaxis=axis("seconds since the first period", anchor="y2", rangemode="tozero"),
        yaxis=axis(unit([one["level"] for one in periods]), domain=[0.54, 1], rangemode="tozero"),
        yaxis2=axis(f"{name} ({wanted['unit']})", domain=[0, 0.42], rangemode="tozero"),
    )


def _watched(wanted: Record, periods: Sequence[Record]) -> tuple[str, list[float | None]]:
    """Return the figure of each period that the limit is about, or the nearest that is known, with its name."""
    metric, statistic = wanted["metric"], wanted["statistic"]
    key = metric if metric == "tokens_per_s" else f"{metric}_s"
    known = periods[0][key]
    told = statistic if statistic in known else _NEAREST.get(statistic, "p50")
    return f"{_NAMES[metric]} {told}", [period[key].get(told) for period in periods]


def _spans(outcome: str, periods: Sequence[Record], values: Sequence[float | None], told: Sequence[str]) -> Trace:
    """Return one trace of level pieces, from the start of each period to its end, gaps between them."""
    x: list[Any] = []
    y: list[Any] = []
    text: list[str] = []
    for period, value, line in zip(periods, values, told, strict=True):
        x += [period["start"], period["start"] + period["seconds"], None]
        y += [value, value, None]
        text += [line, line, ""]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": outcome,
        "legendgroup": outcome,
        "x": x,
        "y": y,
        "text": text,
    }


def _hover(period: Record, name: str, unit_: str, value: float | None) -> str:
    shown = UNKNOWN if value is None else duration(value) if unit_ == "s" else f"{value:,.1f} {unit_}"
    why = f"<br>{label(period['why'], 90)}" if period["why"] else ""
    return f"{level_text(period['level'])} {period['held']}: {name} {shown}{why}"
