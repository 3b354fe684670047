"""Records to lines: the section under a failure, and the table at the end."""

from __future__ import annotations

from collections.abc import Iterable

from ..figures import duration, plural
from . import cells
from .columns import aligned
from .levels import headline, is_load, kept, level_text, level_value, levels_table, ramp
from .losses import waterfall
from .plain import Record
from .saved import line_of_test
from .text import shortened
from .turns_table import turns_table

_HEADER = ("verdict", "hit rate", "target", "predicted", "hit/query tokens", "TTFT p50/p95", "output", "engine", "test")
_WORDS = frozenset({0, 7, 8})  # columns
_SPLIT = {"queue": "queue", "prefill": "prefill", "ttft": "TTFT", "itl": "ITL", "decode": "decode", "e2e": "E2E"}
_RESIDENCY = {
    "block_lifetime": "lifetime",
    "block_idle_before_evict": "idle before eviction",
    "block_reuse_gap": "reuse gap",
}


def section(record: Record) -> str:
    """Return the evidence of one test: the arithmetic, what an ideal cache reaches, and every finding with its code."""
    return "\n".join([record["sentence"], *evidence(record), *(f"  -> {_finding(one)}" for one in untold(record))])


def evidence(record: Record) -> list[str]:
    """Return what stands between the sentence and the findings."""
    several = len(kept(record)) > 1
    lines = [*_objectives(record), *_regressions(record), *_arithmetic(record)]
    lines += _timing(record) if not several else [f"  failed: {_errors(record)}"] if record["errors"] else []
    lines += _runs(record)
    if is_load(record):
        lines += _statements(record, several=several)
    lines += [f"  probe: {line}" for line in record["probes"]]
    lines += [f"  {told}" for told in filter(None, [line_of_test(record["saved"])])]
    return lines + ([f"  cache: {record['cache_state']}"] if record["cache_state"] else [])


def untold(record: Record) -> list[Record]:
    """Return the findings that are not told with an objective or a comparison."""
    told = {one["sentence"] for one in (*record["objectives"], *record["regressions"])}
    return [finding for finding in record["findings"] if finding["sentence"] not in told]


def _finding(finding: Record) -> str:
    advice = f"; {finding['advice']}" if finding["advice"] else ""
    return f"{finding['sentence']}{advice} [{finding['code']}]"


def _objectives(record: Record) -> list[str]:
    """Return one line for each limit to latency and throughput: whether it was met, by what, and the finding on it.

    Of a single one nothing, where the sentence on the test has it.
    """
    objectives = record["objectives"]
    findings = {finding["sentence"]: _finding(finding) for finding in record["findings"]}
    width = max((len(one["verdict"]) for one in objectives), default=0)
    lines = []
    for one in objectives:
        said = findings.get(one["sentence"], one["sentence"]) or one["name"]
        if len(objectives) == 1 and said in record["sentence"]:
            return []  # that is all of it
        notes = "; ".join(note for note in one["note"].split("; ") if note not in said)
        lines.append(f"  {one['verdict']:<{width}}  {said}{f' ({notes})' if notes else ''}")
    return lines


def _regressions(record: Record) -> list[str]:
    """Return one line for each of several comparisons with the baseline; a single one is told with the verdict."""
    compared = record["regressions"]
    if len(compared) == 1 and compared[0]["sentence"] in record["sentence"]:
        return []
    width = max((len(one["verdict"]) for one in compared), default=0)
    findings = {finding["sentence"]: _finding(finding) for finding in record["findings"]}
    return [f"  {one['verdict']:<{width}}  {findings.get(one['sentence'], one['sentence'])}" for one in compared]


def _runs(record: Record) -> list[str]:
    """Return what each run adds: a sentence of each of several, the levels in one table, a search with its periods."""
    runs, levels = record["runs"], kept(record)
    if len(runs) == 1 and not levels:
        return [line for run in runs for line in _run(run)]
    lines = []
    for number, run in enumerate(runs, 1):
        told = len(runs) == 1 and run["sentence"] == record["sentence"]
        if not told and (run["stretch"] is None or run["limit"] is not None or run["verdict"] != "pass"):
            lines.append(f"  run {number}: {run['sentence']}")
        lines += _search(run) if run["limit"] is not None else []
    for title in dict.fromkeys(run["title"] for run in levels):
        of_it = [run for run in levels if run["title"] == title]
        notes = [note for note in of_it[0]["notes"] if all(note in run["notes"] for run in of_it)]
        lines += [f"  {title}", *(f"  {note}" for note in notes), *(f"    {row}" for row in levels_table(of_it))]
    if len(levels) == 1:
        lines += [line for run in levels for line in (*_turns(run), *waterfall(run["waterfall"]))]
    return lines


def _run(run: Record) -> list[str]:
    """Return what was sent, what is to know of it, turn by turn, and where reuse was lost."""
    return [
        f"  {run['title']}",
        *(f"  {note}" for note in run["notes"]),
        *(_search(run) if run["limit"] is not None else []),
        *_turns(run),
        *waterfall(run["waterfall"]),
    ]


def _turns(run: Record) -> list[str]:
    return [f"  {line}" for line in turns_table(run["turns"])]


def _search(run: Record) -> list[str]:
    return [f"  {run['limit']['sentence']}", *(f"    {line}" for line in ramp(run["limit"]))]


def _statements(record: Record, *, several: bool) -> list[str]:
    """Return how levels compare, and where the time of each run went: of several levels of the highest."""
    lines = [f"  {line}" for line in record["statements"]]
    runs = [(run, f"run {number}") for number, run in enumerate(record["runs"], 1)]
    if several:
        highest = max(kept(record), key=lambda run: level_value(run["level"]))
        runs = [(highest, f"at {level_text(highest['level'])}")]
    elif len(runs) == 1:
        runs = [(run, "over the whole search" if run["limit"] is not None else "") for run, _ in runs]
    for run, where in runs:
        indent = "    " if where else "  "
        lines += [f"  {where}:"] if where and run["statements"] else []
        lines += [f"{indent}{line}" for line in run["statements"]]
    return lines


def _errors(record: Record) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in record["errors"].items())


def _arithmetic(record: Record) -> list[str]:
    requests, engine = record["requests"], record["engine"]
    lines = []
    if record["query_tokens"] is not None:
        lost = "".join(f", {requests[how]} {how}" for how in ("failed", "aborted") if requests[how])
        sent = f" · {requests['total']} requests{lost}" if requests["total"] else ""
        hit = f"{record['hit_tokens']:,} of {record['query_tokens']:,} hit"
        lines.append(f"  {hit}, by {record['source']}{sent} · {cells.engine(engine)}")
    return [*lines, *_rates(record["hit_rate"], record["simulated_cache"]), *_rows(record)]


def _timing(record: Record) -> list[str]:
    """Return what client and engines saw of time and pressure; of a load the statements tell the pressure."""
    figures, where = headline(record)
    lines = []
    if figures is not None and figures["ttft_s"]["p50"] is not None:
        level = f", {where}" if where else ""
        lines.append(f"  TTFT {cells.ttft(figures)} (p50/p95), {cells.output(figures)} output{level}")
    late = record["arrival_s"]
    if late["count"]:
        lines.append(f"  sent {duration(late['p50'])} (p50), {duration(late['p95'])} (p95) later than scheduled")
    for title, names in (("server", _SPLIT), ("cached blocks", _RESIDENCY)):
        lines += _means(title, names, record["server_latency_s"])
    return lines + ([] if is_load(record) else _pressure(record["pressure"]))


def _rates(rates: Record, cache: Record | None) -> list[str]:
    lines = []
    if rates["low"] is not None and rates["high"] is not None and cells.rate(rates["low"]) != cells.rate(rates["high"]):
        lines.append(f"  between {rates['low']:.3f} and {rates['high']:.3f}, as far as the counters can tell")
    if rates["warm"] is not None and rates["warm"] != rates["measured"]:
        lines.append(f"  {rates['warm']:.3f} over the requests that had something to hit")
    simulated = rates["simulated"]
    if simulated is not None and cache and (simulated != rates["predicted"] or rates["target_from"] == "simulated"):
        size = f"{cache['capacity_tokens']:,} tokens in blocks of {cache['block_size']}"
        lines.append(f"  a cache of {size} reuses {simulated:.3f} (simulated)")
    if rates["ceiling"] is not None and rates["measured"] is not None:
        missing = max(0.0, rates["ceiling"] - rates["measured"])
        lines.append(f"  an ideal cache reaches {rates['ceiling']:.3f}, {missing:.3f} more than was measured")
    return lines


def _rows(record: Record) -> list[str]:
    """One line for each engine of several and for each tier that moved of several, their numbers below each other."""
    engines, aside = record["engines"], record["aside"]
    rows = []
    if len(engines) + len(aside) > 1:
        rows += [_row_of(f"engine {name}", tokens, tokens["query_tokens"]) for name, tokens in engines.items()]
    rows += [
        _row_of(f"aside {name}", tokens, tokens["query_tokens"], " (not summed)") for name, tokens in aside.items()
    ]
    named = {tier for tokens in engines.values() for tier in tokens["tiers"]}  # `external` may be a sum of others
    moved = {name: tier for name, tier in record["tiers"].items() if name in named and tier["hit_tokens"]}
    if len(moved) > 1:
        query = sum(tokens["query_tokens"] for tokens in engines.values())
        rows += [_row_of(f"tier {name}", tier, query) for name, tier in moved.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        f"  {label:<{widths[0]}}  {hit:>{widths[1]}} of {query:>{widths[2]}} hit  {rate:>{widths[3]}}{note}"
        for label, hit, query, rate, note in rows
    ]


def _row_of(label: str, tokens: Record, query: int, note: str = "") -> tuple[str, str, str, str, str]:
    return shortened(label, cells.NAME), f"{tokens['hit_tokens']:,}", f"{query:,}", cells.rate(tokens["hit_rate"]), note


def _means(title: str, names: dict[str, str], latencies: Record) -> list[str]:
    told = [(shown, latencies[name]["mean"]) for name, shown in names.items() if name in latencies]
    means = [f"{shown} {duration(mean)}" for shown, mean in told if mean is not None]
    return [f"  {title}: {', '.join(means)} (means)"] if means else []


def _pressure(pressure: Record | None) -> list[str]:
    if pressure is None:
        return []
    usage, waiting = pressure["kv_usage_peak"], pressure["waiting_peak"]
    preemptions, evictions = pressure["preemptions"], pressure["evictions"]
    told = [
        *([f"KV usage {100 * usage:.0f} % at peak"] if usage is not None else []),
        *([f"{waiting:,} waiting at peak"] if waiting is not None else []),
        *([plural(preemptions, "preemption")] if preemptions is not None else []),
        *([f"{evictions:,} evicted"] if evictions is not None else []),
    ]
    missed = f", {pressure['missed']:,} missed" if pressure["missed"] else ""
    sampled = f" ({plural(pressure['samples'], 'sample')}{missed})" if pressure["samples"] or missed else ""
    return [f"  pressure: {', '.join(told) or 'not known'}{sampled}"] if told or missed else []


def table(records: Iterable[Record]) -> list[str]:
    """Return one aligned line a test, a header first; nothing for no tests."""
    rows = [_HEADER, *map(_row, records)]
    return aligned(rows, left=_WORDS) if len(rows) > 1 else []


def _row(record: Record) -> tuple[str, ...]:
    rates = record["hit_rate"]
    figures, where = headline(record)
    return (
        record["verdict"],
        cells.rate(rates["measured"]),
        cells.target(rates),
        cells.rate(rates["predicted"]),
        cells.tokens(record),
        cells.ttft(figures),
        cells.output(figures),
        cells.engine(record["engine"]),
        record["nodeid"] + (f" · {where}" if where else ""),
    )
