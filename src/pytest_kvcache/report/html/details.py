"""What is on the page of one check, once it is opened? Its sections, within the bytes that it may take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

from ...figures import duration, money
from ...model import Objective
from ...slo import wording
from .. import cells
from ..columns import UNKNOWN
from ..levels import kept, level_text, level_value
from ..plain import Record
from . import embed, load, reuse, serving
from .blocks import Block, Cell, Section, clean, items, left, pairs, section, table, text, toned
from .bounds import FULL, LEAST, LESS, Bounds
from .turns import turns

_VISIBLE = 0.002  # of the tokens that were looked up


def details(check: Record, room: int) -> list[Section]:
    """Return the sections of a check.

    Args:
        check: of a document.
        room: bytes that they may take; what has no room is left out, which the sections then say.
    """
    for bounds in (FULL, LESS, LEAST):
        sections: list[Section] = clean(_sections(check, bounds), bounds.characters)
        if bounds is LEAST or len(embed.data(sections).encode()) <= room:
            break
    return sections


def _sections(check: Record, bounds: Bounds) -> list[Section]:
    head = section("", text(check["sentence"]), *_findings(check, bounds), wide=True)
    rates = reuse.rates(check)
    if bounds is LEAST:
        return [*head, *rates, *section("", {"left": "All else of this check is in the JSON document (--kv-report)"})]
    return [
        *head,
        *section("Limits of latency and throughput", _objectives(check["objectives"]), wide=True),
        *rates,
        *_serving(check, serving.latencies),
        *_runs(check, bounds),
        *_serving(check, serving.split, serving.pressure),
        *serving.engines(check, bounds.engines),
        *_told(check, bounds),
    ]


def _findings(check: Record, bounds: Bounds) -> list[Block]:
    found = check["findings"]
    shown = [{name: one[name] for name in ("code", "severity", "sentence", "advice")} for one in found[: bounds.items]]
    return [*([{"findings": shown}] if shown else []), *left(len(found) - len(shown), "finding")]


def _objectives(several: Sequence[Record]) -> Block | None:
    rows: list[Sequence[Cell]] = [("limit", "verdict", "value", "wanted", "95 % interval", "samples", "note")]
    for one in several:
        asked = Objective(*(one[name] for name in ("metric", "statistic", "limit", "at_most", "name")))
        shown, limit = (UNKNOWN, None) if one["value"] is None else wording.told(asked, one["value"])
        sure = wording.between(asked, (one["low"], one["high"]))
        wanted = wording.wanted(asked, limit)
        rows.append((one["name"], toned(one["verdict"]), shown, wanted, sure, f"{one['samples']:,}", one["note"]))
    return table(rows, words=(0, 1, 3, 4, 6))


def _runs(check: Record, bounds: Bounds) -> Iterator[Section]:
    """Return the levels together, then each other run with its own turns, search and waterfall."""
    runs, levels = check["runs"], kept(check)
    if levels:
        yield from load.levels(levels, check["objectives"], bounds.levels)
    if len(runs) > 1 and len(levels) < len(runs):
        yield from section("Runs", _table_of(runs[: bounds.levels]), wide=True)
    told = runs if len(levels) < 2 else [run for run in runs if run not in levels or _lost(run)]
    for number, run in enumerate(told[: bounds.runs], 1):
        name = f"run {number}" if run["level"] is None else level_text(run["level"])
        for one in _run(run, bounds):
            yield one | ({"title": f"{one['title']}: {name}"} if len(runs) > 1 else {})
    yield from section("", *left(len(told) - bounds.runs, "run"), wide=True)


def _lost(run: Record) -> bool:
    """Tell whether a level lost what can be seen in a chart."""
    losses = run["waterfall"]["losses"] if run["waterfall"] else []
    return any(abs(loss["tokens"]) >= _VISIBLE * (run["query_tokens"] or 1) for loss in losses)


def _run(run: Record, bounds: Bounds) -> Iterator[Section]:
    yield from reuse.waterfall(run["waterfall"], run["query_tokens"])
    yield from _divergence(run["divergence"])
    if run["limit"] is not None:
        yield from load.search(run["limit"], bounds.periods)
    if run["turns"]:
        yield from turns(run["turns"], bounds.turns)


def _table_of(runs: Sequence[Record]) -> Block | None:
    rows: list[Sequence[Cell]] = [("run", "verdict", "hit rate", "hit / query", "TTFT p50/p95", "output", "workload")]
    for number, run in enumerate(runs, 1):
        rate, ttft = cells.rate(run["hit_rate"]["measured"]), cells.ttft(run)
        output = cells.output({"output_tok_s": run["output_tokens_per_s"]})
        rows.append((str(number), toned(run["verdict"]), rate, cells.tokens(run), ttft, output, run["title"]))
    return table(rows, words=(1, 6))


def _divergence(found: Record | None) -> list[Section]:
    if found is None or found["expected"]:
        return []
    names = ("message", "part", "character", "moved", "token", "block", "tokens", "recoverable")
    places = [(name, "" if found[name] is None else f"{found[name]:,}") for name in names]
    several = "" if found["pairs"] is None else f"{found['pairs']:,} of {found['of_pairs'] or 0:,}"
    told = [("cause", found["cause"].replace("_", " ")), ("where", found["where"]), ("detail", found["detail"])]
    told += [*places, ("pairs that part so", several), ("what to do", found["advice"])]
    return section("Where requests part", pairs(told))


def _serving(check: Record, *parts: Callable[[Record], list[Section]]) -> Iterator[Section]:
    """Return parts that are about times; of several levels those of the highest, as no average means anything."""
    levels = kept(check)
    highest = max(levels, key=lambda run: level_value(run["level"])) if len(levels) > 1 else None
    suffix = "" if highest is None else f", {level_text(highest['level'])}"
    for part in parts:
        for one in part(highest or check):
            yield one | {"title": one["title"] + suffix}


def _told(check: Record, bounds: Bounds) -> Iterator[Section]:
    runs = check["runs"]
    statements = [*check["statements"], *(runs[-1]["statements"] if runs else ())]
    yield from section("What stands out", *items(statements, bounds.items), wide=True)
    titles = dict.fromkeys(run["title"] for run in runs)
    notes = dict.fromkeys(note for run in runs for note in run["notes"])
    told = [
        ("answered by", cells.engine(check["engine"])),
        ("model", "" if check["engine"] is None else check["engine"]["model"]),
        ("counted", "" if check["engine"] is None else f"{check['engine']['unit']} at {check['engine']['counted']}"),
        ("note", (check["engine"] or {}).get("note") or ""),
        ("cache", check["cache_state"]),
        *_saved(check.get("saved")),
    ]
    yield from section(
        "Workload and cache",
        *items((*titles, *notes), bounds.items),
        *items((f"probe: {line}" for line in check["probes"]), bounds.items),
        pairs(told),
        wide=True,
    )


def _saved(saved: Record | None) -> Iterator[tuple[str, str]]:
    """Return what reuse saved, as far as it is told."""
    if saved is None:
        return
    yield "prefill saved", "" if saved["prefill_tokens"] is None else f"{saved['prefill_tokens']:,} tokens"
    yield "prefill time saved", "" if saved["prefill_s"] is None else duration(saved["prefill_s"])
    for name, shown in (("money", "money saved"), ("cost", "cost of what was sent")):
        yield shown, "" if saved[name] is None else money(Decimal(saved[name]), saved["currency"])
