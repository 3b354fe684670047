"""What came out at each level of load, and where does the limit lie?"""

from __future__ import annotations

from collections.abc import Sequence

from ...figures import duration, percent
from ..cells import known
from ..levels import level_number, level_value, unit
from ..plain import Record
from .blocks import Block, Section, folded, left, section, table, text, toned
from .ramp import ramp_chart
from .traces import axis, bound, figure, line

_LEVELS = (
    "requests",
    "failed",
    "TTFT p50",
    "TTFT p95",
    "TPOT p50",
    "input tok/s",
    "output tok/s",
    "goodput",
    "hit rate",
    "KV usage",
    "waiting",
)


def levels(runs: Sequence[Record], objectives: Sequence[Record], most: int) -> list[Section]:
    """Return the levels of a check beside each other.

    Args:
        runs: that kept a level.
        objectives: of the check, for the limit to TTFT.
        most: levels shown.
    """
    shown = runs[:most]
    rows = [(unit([run["level"] for run in shown]), "verdict", *_LEVELS), *map(_row, shown)]
    chart = _chart(shown, objectives) if len(shown) > 1 else None
    return section("Levels of load", chart, table(rows, words=(1,)), *left(len(runs) - len(shown), "level"), wide=True)


def _row(run: Record) -> tuple[str | dict[str, str], ...]:
    stretch, pressure = run["stretch"], run["pressure"] or {}
    rate = run["hit_rate"]["measured"]
    return (
        level_number(run["level"]),
        toned(run["verdict"]),
        f"{stretch['requests']:,}",
        f"{stretch['failed']:,}",
        *(
            known(value, duration)
            for value in (stretch["ttft_s"]["p50"], stretch["ttft_s"]["p95"], stretch["tpot_s"]["p50"])
        ),
        known(stretch["input_tok_s"], "{:,.0f}".format),
        known(stretch["output_tok_s"], "{:,.0f}".format),
        known(stretch["goodput"], "{:.2f}".format),
        known(rate if rate is not None else stretch["hit_rate"], "{:.3f}".format),
        known(pressure.get("kv_usage_peak"), percent),
        known(pressure.get("waiting_peak"), "{:,d}".format),
    )


def _chart(several: Sequence[Record], objectives: Sequence[Record]) -> Block | None:
    runs = sorted(several, key=lambda run: level_value(run["level"]))  # they were measured in any order, or in laps
    at = [level_value(run["level"]) for run in runs]
    title = unit([run["level"] for run in runs])
    lines = [
        (0, "TTFT p50", [run["stretch"]["ttft_s"]["p50"] for run in runs], "y"),
        (1, "TTFT p95", [run["stretch"]["ttft_s"]["p95"] for run in runs], "y"),
        (2, "output tok/s", [run["stretch"]["output_tok_s"] for run in runs], "y2"),
        (3, "input tok/s", [run["stretch"]["input_tok_s"] for run in runs], "y2"),  # a click away: it dwarfs the other
    ]
    traces = [
        line(
            number, name, at, values, [_hover(name, title, x, y) for x, y in zip(at, values, strict=True)], yaxis=panel
        )
        for number, name, values, panel in lines
        if any(value is not None for value in values)
    ]
    for trace in traces:
        trace |= {"visible": "legendonly"} if trace["name"] == "input tok/s" else {}
    traces += [
        bound(f"limit of {one['statistic']}", (min(at), max(at)), one["limit"])
        for one in objectives
        if one["metric"] == "ttft" and one["at_most"]
    ]
    return figure(
        "TTFT and throughput at each level",
        traces,
        height=440,
        xaxis=axis(title, anchor="y2", rangemode="tozero"),
        yaxis=axis("TTFT (s)", domain=[0.54, 1], rangemode="tozero"),
        yaxis2=axis("tok/s", domain=[0, 0.42], rangemode="tozero"),
    )


def _hover(name: str, title: str, at: float, value: float | None) -> str:
    shown = known(value, duration if name.startswith("TTFT") else "{:,.0f}".format)
    return f"{title} {at:g}: {name} {shown}"


def search(limit: Record, most: int) -> list[Section]:
    """Return a search for the highest level: what it found, how it went, and every period.

    Args:
        limit: of a run.
        most: periods shown.
    """
    periods = limit["periods"][:most]
    rows: list[tuple[str | dict[str, str], ...]] = [
        ("start", unit([one["level"] for one in periods]), "outcome", "seconds", "requests", "failed", "TTFT p50",
         "TTFT p95", "tok/s each", "output tok/s", "why")
    ]  # fmt: skip
    rows += [_period(one) for one in periods]
    return section(
        "Search for the highest level",
        text(limit["sentence"]),
        ramp_chart(limit, periods),
        folded(table(rows, words=(2, 10))),
        *left(len(limit["periods"]) - len(periods), "period"),
        wide=True,
    )


def _period(period: Record) -> tuple[str | dict[str, str], ...]:
    stalled = f"{period['stalled']:,} requests stalled" if period["stalled"] else ""
    return (
        f"{period['start']:.1f} s",
        level_number(period["level"]),
        {"text": period["held"], "tone": {"held": "pass", "breached": "fail"}.get(period["held"], "")},
        f"{period['seconds']:.1f}",
        f"{period['requests']:,}",
        f"{period['failed']:,}",
        known(period["ttft_s"]["p50"], duration),
        known(period["ttft_s"]["p95"], duration),
        known(period["tokens_per_s"]["mean"], "{:,.1f}".format),
        known(period["output_tok_s"], "{:,.0f}".format),
        "; ".join(filter(None, (period["why"], stalled))),
    )
