"""How much was reused of what could have been, and where was the rest lost? Sections of a check or of one run."""

from __future__ import annotations

from .. import cells
from ..columns import UNKNOWN
from ..plain import Record
from .blocks import Block, Section, pairs, section, table, text
from .traces import axis, bound, figure, label

_NAMES = {
    "ceiling": ("ceiling", "of an ideal cache", "@ideal"),
    "predicted": ("predicted", "of an unlimited cache with the server's blocks", "@forecast"),
    "simulated": ("simulated", "of a cache as large as the server's", "@forecast"),
    "measured": ("measured", "", "@measured"),
}


def rates(record: Record) -> list[Section]:
    """Return the rates beside each other, how sure the measured one is, and what it was computed from."""
    told = record["hit_rate"]
    rows = [
        ("rate", "", "is"),
        ("target", cells.target(told), told["target_from"] or ""),
        *((name, cells.rate(told[key]), said) for key, (name, said, _) in reversed(_NAMES.items())),
        ("warm", cells.rate(told["warm"]), "over the requests that had something to hit"),
    ]
    rows = [row for row in rows if row[1] != UNKNOWN]
    return section("Hit rate", _rates_chart(told), table(rows, words=(0, 2)), _basis(record))


def _rates_chart(told: Record) -> Block | None:
    known = [(name, told[key], colour) for key, (name, _, colour) in _NAMES.items() if told[key] is not None]
    if not known:
        return None
    names, values, colours = (list(column) for column in zip(*known, strict=True))
    places = list(range(len(names)))
    bars = {
        "type": "bar",
        "orientation": "h",
        "name": "hit rate",
        "y": places,
        "x": values,
        "text": [f"{name} {value:.3f}" for name, value in zip(names, values, strict=True)],
        "textposition": "none",
        "marker": {"color": colours},
        "showlegend": False,
    }
    if told["measured"] is not None and told["low"] is not None and told["high"] is not None:
        at = names.index("measured")
        above, below = ([0.0] * len(names) for _ in range(2))
        above[at], below[at] = max(0.0, told["high"] - values[at]), max(0.0, values[at] - told["low"])
        bars["error_x"] = {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": "@ink"}
    target = [] if told["target"] is None else [_target(len(names), told["target"])]
    top = max(1.0, *values)
    return figure(
        "Hit rate: measured, predicted, ceiling" + (" and target" if target else ""),
        [bars, *target],
        height=(92 if target else 66) + 42 * len(names),
        xaxis={"range": [0, 1.02 * top], "tickformat": ".1f"},
        yaxis={
            "tickvals": places,
            "ticktext": [f"{name}<br><b>{value:.3f}</b>" for name, value in zip(names, values, strict=True)],
        },
        showlegend=bool(target),
    )


def _target(bars: int, value: float) -> Record:
    mark = bound(f"target {value:.3f}", (value, value), 0.0, text=f"target {value:.3f}")
    return mark | {"y": [-0.5, bars - 0.5], "line": {"color": "@limit", "width": 3}, "mode": "lines+markers",
                   "marker": {"symbol": "line-ns-open", "size": 16, "color": "@limit"}}  # fmt: skip


def _basis(record: Record) -> Block | None:
    told, cache = record["hit_rate"], record["simulated_cache"]
    sure = told["low"] is not None and told["high"] is not None
    return pairs(
        [
            ("hit / query tokens", cells.tokens(record)),
            ("read from", record["source"] or ""),
            ("between", f"{told['low']:.3f} and {told['high']:.3f}, as far as the counters can tell" if sure else ""),
            ("simulated cache", _cache(cache)),
        ]
    )


def _cache(cache: Record | None) -> str:
    if cache is None:
        return ""
    capacity = "unlimited" if cache["capacity_tokens"] is None else f"{cache['capacity_tokens']:,} tokens"
    return f"{capacity} in blocks of {cache['block_size']}"


def waterfall(losses: Record | None, query: int | None) -> list[Section]:
    """Return the way from the ceiling down to what was measured, each loss with its evidence and advice.

    Args:
        losses: of a run; None: not known.
        query: tokens looked up, for shares; None: not known.
    """
    if losses is None:
        return []
    rows = [("step", "tokens", "of all", "requests", "evidence", "advice")]
    rows.append(("could be reused", f"{losses['ceiling']:,}", _share(losses["ceiling"], query), "", "", ""))
    rows += [
        (
            loss["title"],
            f"{-loss['tokens']:,}",
            _share(-loss["tokens"], query),
            "" if loss["requests"] is None else f"{loss['requests']:,}",
            loss["evidence"],
            loss["advice"],
        )
        for loss in losses["losses"]
    ]
    rows.append(("was reused", f"{losses['measured']:,}", _share(losses["measured"], query), "", "", ""))
    whole = None if losses["losses"] else text("Nothing: all that an ideal cache reuses was reused.")
    chart = _waterfall_chart(losses, query) if losses["losses"] else None
    return section(
        "Where reuse was lost",
        whole,
        chart,
        table(rows, words=(0, 4, 5)) if losses["losses"] else None,
        wide=bool(chart),
    )


def _share(tokens: int, query: int | None) -> str:
    if not query:
        return ""
    return "< 0.001" if 0 < abs(tokens) < 0.0005 * query else f"{tokens / query:.3f}"


def _waterfall_chart(losses: Record, query: int | None) -> Block | None:
    steps = losses["losses"]
    titles = ["could be reused", *(label(loss["title"]) for loss in steps), "was reused"]
    values = [losses["ceiling"], *(-loss["tokens"] for loss in steps), losses["measured"]]
    shares = [f" ({label(_share(value, query))})" if query else "" for value in values]
    told = [f"{value:,}{share}" for value, share in zip(values, shares, strict=True)]
    trace = {
        "type": "waterfall",
        "orientation": "h",
        "name": "tokens",
        "measure": ["absolute", *["relative"] * len(steps), "total"],
        "y": list(range(len(titles))),
        "x": values,
        "text": [f"{title}: {tokens}" for title, tokens in zip(titles, told, strict=True)],
        "textposition": "none",
        "connector": {"line": {"color": "@rule", "width": 1}},
        "decreasing": {"marker": {"color": "@loss"}},
        "increasing": {"marker": {"color": "@forecast"}},
        "totals": {"marker": {"color": "@measured"}},
    }
    top = max(1, losses["ceiling"], losses["measured"])
    return figure(
        "Tokens from what could be reused down to what was",
        [trace],
        height=70 + 42 * len(titles),
        xaxis=axis("tokens", range=[0, 1.05 * top]),
        yaxis={
            "autorange": "reversed",
            "tickvals": list(range(len(titles))),
            "ticktext": [f"{title}<br><b>{tokens}</b>" for title, tokens in zip(titles, told, strict=True)],
        },
        showlegend=False,
    )
