"""What is a chart made of? Traces of Plotly as plain data, colours by name, every foreign text fit for its labels.

Colours that begin with ``@`` are names; the page looks them up in its styles, so that a chart follows light and dark.
Plotly takes some tags in labels and resolves entities there: texts of others go through :func:`label`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..text import shortened, visible
from .blocks import Block

Trace = dict[str, Any]
SERIES = 8  # lines that can be told apart by colour and mark
MARKS = ("circle", "square", "diamond", "triangle-up", "pentagon", "star", "hexagon", "triangle-down")
_LONGEST = 48  # characters of a label


def label(text: object, longest: int = _LONGEST) -> str:
    """Return a text as Plotly shows it, and as nothing else: in one line, without tags and entities."""
    line = shortened(visible(" ".join(str(text).split())), longest)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def figure(name: str, traces: Sequence[Trace], height: int = 280, **layout: Any) -> Block | None:
    """Return a chart; nothing without anything to draw.

    Args:
        name: what it shows, for who does not see it, and below it.
        traces: of Plotly.
        height: pixels.
        layout: of Plotly, beside what all charts have in common.
    """
    return {"figure": {"name": name, "height": height, "data": list(traces), "layout": layout}} if traces else None


def axis(title: str, **more: Any) -> dict[str, Any]:
    """Return an axis with its title."""
    return {"title": {"text": title}, **more}


def log_axis(values: Iterable[float], shown: Callable[[float], str], title: str = "") -> dict[str, Any]:
    """Return a logarithmic axis, with few marks: of one decade or two at 1, 2 and 5 of each.

    Args:
        values: all that is on it, above 0.
        shown: how a mark is written.
        title: of the axis.
    """
    known = list(values)
    low, high = math.log10(min(known)) - 0.15, math.log10(max(known)) + 0.15
    decades = high - low
    steps = (1, 2, 5) if decades < 1.9 else (1, 3) if decades < 3.2 else (1,)
    marks = [step * 10.0**power for power in range(math.floor(low), math.ceil(high)) for step in steps]
    marks = [mark for mark in marks if low <= math.log10(mark) <= high]
    marks = marks or [min(known)]  # between two steps
    told = {"tickmode": "array", "tickvals": marks, "ticktext": [shown(mark) for mark in marks]}
    return axis(title, type="log", range=[low, high], **told)


def line(number: int, name: str, x: Sequence[Any], y: Sequence[Any], hover: Iterable[str] = (), **more: Any) -> Trace:
    """Return one of several lines with a colour and a mark of its own.

    Args:
        number: among them.
        name: foreign or not.
        x / y: of its points; None: a gap.
        hover: a text for each point, escaped, which the page shows on hovering; else Plotly tells x and y.
        more: of the trace.
    """
    colour = f"@s{number % SERIES}"
    told = list(hover)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label(name),
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "width": 2},
        "marker": {"color": colour, "symbol": MARKS[number % len(MARKS)], "size": 8},
        **({"text": told} if told else {}),
        **more,
    }


def symbols(number: int, verdicts: Iterable[str | None]) -> list[str]:
    """Return a mark for each point of a line: its own, a cross where a test failed, open where it is inconclusive."""
    own = MARKS[number % len(MARKS)]
    return [{"fail": "x", "inconclusive": f"{own}-open"}.get(verdict or "", own) for verdict in verdicts]


def bound(name: str, x: Sequence[Any], value: float, colour: str = "@limit", **more: Any) -> Trace:
    """Return a dashed line at one value: a limit, a ceiling."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(x),
        "y": [value] * len(x),
        "line": {"color": colour, "width": 2, "dash": "dash"},
        **more,
    }


def thinned(points: Sequence[Any], most: int) -> list[Any]:
    """Return at most so many of many points, evenly, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    step = (len(points) - 1) / (most - 1)
    return [points[round(n * step)] for n in range(most)]
