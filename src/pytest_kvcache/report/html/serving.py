"""Who served, how fast, and what stood in the way? Engines, latencies and pressure of a check or of one run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...figures import duration, percent
from .. import cells
from ..columns import UNKNOWN
from ..plain import Record
from .blocks import Block, Section, left, pairs, section, table
from .traces import axis, figure, log_axis

_LATENCIES = {"ttft_s": "TTFT", "itl_s": "ITL", "tpot_s": "TPOT", "e2e_s": "E2E", "arrival_s": "late"}
_SPLIT = {"queue": "@s0", "prefill": "@s1", "decode": "@s2"}
_QUANTILES = ("p50", "p95", "p99")


def engines(record: Record, most: int) -> list[Section]:
    """Return the tokens of each engine, and of each tier.

    Args:
        record: of a check or a run.
        most: engines shown.
    """
    rows: list[tuple[str, ...]] = [
        ("engine", "hit rate", "hit", "query", "local hits", "external hits", "prompt tokens")
    ]
    several = [(name, tokens) for name, tokens in record["engines"].items()]
    several += [(f"{name} (aside, not summed)", tokens) for name, tokens in record["aside"].items()]
    rows += [_engine(name, tokens) for name, tokens in several[:most]]
    tiers = [("tier", "hit rate", "hit")]
    tiers += [
        (name, cells.rate(one["hit_rate"]), cells.known(one["hit_tokens"], "{:,}".format))
        for name, one in record["tiers"].items()
    ]
    more = left(len(several) - most, "engine")
    return section("Engines", table(rows), *more, table(tiers) if len(tiers) > 2 else None, wide=True)


def _engine(name: str, tokens: Record) -> tuple[str, ...]:
    counts = ("hit_tokens", "query_tokens", "local_hit_tokens", "external_hit_tokens", "prompt_tokens")
    return name, cells.rate(tokens["hit_rate"]), *(cells.known(tokens[count], "{:,}".format) for count in counts)


def latencies(record: Record) -> list[Section]:
    """Return what the client saw: exact percentiles, as marks on one scale and as a table."""
    known = {shown: record[name] for name, shown in _LATENCIES.items() if (record[name] or {}).get("count")}
    rows: list[tuple[str, ...]] = [("", "p50", "p95", "p99", "mean", "samples")]
    for shown, one in known.items():
        rows.append((shown, *(cells.known(one[name], duration) for name in (*_QUANTILES, "mean")), f"{one['count']:,}"))
    return section("Latency at the client", _percentiles(known), table(rows))


def _percentiles(known: dict[str, Record]) -> Block | None:
    """Return the marks of all percentiles that a logarithmic scale has a place for."""
    traces, names = [], [shown for shown, one in known.items() if any((one[name] or 0) > 0 for name in _QUANTILES)]
    for number, (name, symbol) in enumerate(zip(_QUANTILES, ("circle", "diamond", "line-ns-open"), strict=True)):
        at = [shown for shown in names if (known[shown][name] or 0) > 0]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": [known[shown][name] for shown in at],
                "y": at,
                "text": [f"{shown} {name} {duration(known[shown][name])}" for shown in at],
                "marker": {
                    "color": f"@s{number}",
                    "symbol": symbol,
                    "size": 11,
                    "line": {"width": 2, "color": f"@s{number}"},
                },
            }
        )
    if not names:
        return None
    return figure(
        "Percentiles of the latencies, on a logarithmic scale",
        traces,
        height=110 + 30 * len(names),
        xaxis=log_axis((value for trace in traces for value in trace["x"]), duration),
        yaxis={
            "autorange": "reversed",
            "automargin": True,
            "type": "category",
            "categoryorder": "array",
            "categoryarray": names,
        },
    )


def split(record: Record) -> list[Section]:
    """Return where requests spent their time in the server, by its own histograms."""
    told = record["server_latency_s"]
    rows: list[tuple[str, ...]] = [("", "mean", "p50", "p95", "p99", "count")]
    for name, one in told.items():
        quantiles = (_quantile(one[q]) for q in _QUANTILES)
        rows.append((name.replace("_", " "), cells.known(one["mean"], duration), *quantiles, f"{one['count']:,}"))
    return section("In the server", _split_chart(told), table(rows), wide=True)


def _quantile(told: Record | None) -> str:
    """Return a quantile of a histogram with the bounds of its bucket, which are all that is sure."""
    if told is None:
        return UNKNOWN
    if told["high"] is None:
        return f"{duration(told['value'])} (≥ {duration(told['low'])})"
    low, high = duration(told["low"]), duration(told["high"])
    low = low.partition(" ")[0] if low.partition(" ")[2] == high.partition(" ")[2] else low
    return f"{duration(told['value'])} ({low} – {high})"


def _split_chart(told: Record) -> Block | None:
    known = {name: told[name]["mean"] for name in _SPLIT if name in told and told[name]["mean"] is not None}
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": ["mean"],
            "x": [mean],
            "text": [duration(mean)],
            "textposition": "inside",
            "insidetextanchor": "middle",
            "hovertext": f"{name} {duration(mean)}",
            "marker": {"color": _SPLIT[name]},
        }
        for name, mean in known.items()
    ]
    return figure(
        "Mean time of a request in the server: " + ", ".join(known),
        traces if sum(known.values()) > 0 else [],
        height=150,
        barmode="stack",
        xaxis=axis("seconds"),
        yaxis={"visible": False, "type": "category"},
    )


def pressure(record: Record) -> list[Section]:
    """Return what was sent, what failed, how hard the engines worked, and whether the client kept up."""
    requests, load, client = record["requests"], record["pressure"] or {}, record["client"]
    errors = ", ".join(f"{count:,} {name}" for name, count in record["errors"].items())
    told = [
        ("requests", f"{requests['total']:,}"),
        ("failed", f"{requests['failed']:,}" + (f": {errors}" if errors else "")),
        ("aborted", f"{requests['aborted']:,}" if requests["aborted"] else ""),
        ("sent before, to warm the cache", f"{requests['prefill']:,}" if requests["prefill"] else ""),
        ("output", "" if record["output_tokens_per_s"] is None else f"{record['output_tokens_per_s']:,.0f} tok/s"),
        ("KV usage at peak", _of(load, "kv_usage_peak", percent)),
        *((name.replace("_", " "), _of(load, name, "{:,}".format)) for name in ("preemptions", "evictions")),
        ("running at peak", _of(load, "running_peak", "{:,}".format)),
        ("waiting at peak", _of(load, "waiting_peak", "{:,}".format)),
        ("scrapes missed", f"{load['missed']:,}" if load.get("missed") else ""),
        *(_client(client) if client else ()),
    ]
    return section("Requests and load", pairs(told))


def _of(told: Record, name: str, form: Any) -> str:
    value = told.get(name)
    return "" if value is None else str(form(value))


def _client(client: Record) -> Iterable[tuple[str, str]]:
    lag = client["lag_s"]
    yield (
        "client's event loop late by, p50 / p99",
        f"{cells.known(lag['p50'], duration)} / {cells.known(lag['p99'], duration)}",
    )
    yield "client busy", "" if client["busy"] is None else percent(client["busy"])
