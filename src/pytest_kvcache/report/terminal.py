"""Records to lines: the section under a failure, and the table at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .losses import waterfall
from .record import Record
from .turns_table import turns_table

_HEADER = ("verdict", "hit rate", "target", "predicted", "hit/query tokens", "TTFT p50/p95", "output", "engine", "test")
_RIGHT = frozenset({1, 2, 3, 4, 5, 6})
_SPLIT = {"queue": "queue", "prefill": "prefill", "ttft": "TTFT", "itl": "ITL", "decode": "decode", "e2e": "E2E"}
_RESIDENCY = {
    "block_lifetime": "lifetime",
    "block_idle_before_evict": "idle before eviction",
    "block_reuse_gap": "reuse gap",
}


def section(record: Record) -> str:
    """Return the evidence of one test: the arithmetic, what an ideal cache reaches, and every finding with its code."""
    lines = [record["sentence"], *_arithmetic(record)]
    if len(record["runs"]) > 1:
        lines += [f"  run {number}: {run['sentence']}" for number, run in enumerate(record["runs"], 1)]
    else:
        lines += [line for run in record["runs"] for line in _run(run)]
    lines += [f"  probe: {line}" for line in record["probes"]]
    lines += [f"  cache: {record['cache_state']}"] if record["cache_state"] else []
    for finding in record["findings"]:
        advice = f"; {finding['advice']}" if finding["advice"] else ""
        lines.append(f"  -> {finding['sentence']}{advice} [{finding['code']}]")
    return "\n".join(lines)


def _run(run: Record) -> list[str]:
    """Return what was sent, what is to know of it, turn by turn, and where reuse was lost."""
    return [
        f"  {run['title']}",
        *(f"  {note}" for note in run["notes"]),
        *(f"  {line}" for line in turns_table(run["turns"])),
        *waterfall(run["waterfall"]),
    ]


def _arithmetic(record: Record) -> list[str]:
    requests, engine = record["requests"], record["engine"]
    lines = []
    if record["query_tokens"] is not None:
        lost = "".join(f", {requests[how]} {how}" for how in ("failed", "aborted") if requests[how])
        sent = f" · {requests['total']} requests{lost}" if requests["total"] else ""
        hit = f"{record['hit_tokens']:,} of {record['query_tokens']:,} hit"
        lines.append(f"  {hit}, by {record['source']}{sent} · {_engine(engine)}")
    lines += [*_rates(record["hit_rate"], record["simulated_cache"]), *_rows(record)]
    if record["ttft_s"]["count"]:
        lines.append(f"  TTFT {_ttft(record)} (p50/p95), {_output(record)} output")
    late = record["arrival_s"]
    if late["count"]:
        lines.append(f"  sent {_duration(late['p50'])} (p50), {_duration(late['p95'])} (p95) later than scheduled")
    for title, names in (("server", _SPLIT), ("cached blocks", _RESIDENCY)):
        lines += _means(title, names, record["server_latency_s"])
    return lines + _pressure(record["pressure"])


def _rates(rates: Record, cache: Record | None) -> list[str]:
    lines = []
    if rates["low"] is not None and rates["high"] is not None and _rate(rates["low"]) != _rate(rates["high"]):
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
    return label, f"{tokens['hit_tokens']:,}", f"{query:,}", _rate(tokens["hit_rate"]), note


def _means(title: str, names: dict[str, str], latencies: Record) -> list[str]:
    told = [(shown, latencies[name]["mean"]) for name, shown in names.items() if name in latencies]
    means = [f"{shown} {_duration(mean)}" for shown, mean in told if mean is not None]
    return [f"  {title}: {', '.join(means)} (means)"] if means else []


def _pressure(pressure: Record | None) -> list[str]:
    if pressure is None:
        return []
    usage, waiting = pressure["kv_usage_peak"], pressure["waiting_peak"]
    preemptions, evictions = pressure["preemptions"], pressure["evictions"]
    told = [
        *([f"KV usage {100 * usage:.0f} % at peak"] if usage is not None else []),
        *([f"{waiting:,} waiting at peak"] if waiting is not None else []),
        *([_plural(preemptions, "preemption")] if preemptions is not None else []),
        *([f"{evictions:,} evicted"] if evictions is not None else []),
    ]
    missed = f", {pressure['missed']:,} missed" if pressure["missed"] else ""
    sampled = f" ({_plural(pressure['samples'], 'sample')}{missed})" if pressure["samples"] or missed else ""
    return [f"  pressure: {', '.join(told) or 'not known'}{sampled}"] if told or missed else []


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def table(records: Iterable[Record]) -> list[str]:
    """Return one aligned line a test, a header first; nothing for no tests."""
    rows = [_HEADER, *map(_row, records)]
    if len(rows) == 1:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    return [_aligned(row, widths) for row in rows]


def _row(record: Record) -> tuple[str, ...]:
    rates = record["hit_rate"]
    tokens = "-" if record["query_tokens"] is None else f"{record['hit_tokens']:,}/{record['query_tokens']:,}"
    return (
        record["verdict"],
        _rate(rates["measured"]),
        _rate(rates["target"]),
        _rate(rates["predicted"]),
        tokens,
        _ttft(record),
        _output(record),
        _engine(record["engine"]),
        record["nodeid"],
    )


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (
        cell.rjust(width) if column in _RIGHT else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(cells).rstrip()


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _ttft(record: Record) -> str:
    p50, p95 = record["ttft_s"]["p50"], record["ttft_s"]["p95"]
    return "-" if p50 is None else f"{_duration(p50)}/{_duration(p95)}"


def _duration(seconds: float) -> str:
    if 0 < seconds < 0.0001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 10:
        return f"{seconds * 1000:.{1 if seconds < 0.1 else 0}f} ms"
    return f"{seconds:.1f} s"


def _output(record: Record) -> str:
    rate = record["output_tokens_per_s"]
    return "-" if rate is None else f"{rate:,.0f} tok/s"


def _engine(engine: Record | None) -> str:
    if engine is None:
        return "-"
    name = f"{engine['id']} {engine['version']}" if engine["version"] else str(engine["id"])
    block = f" block {engine['block_size']}" if engine["block_size"] else ""
    unconfirmed = " (unconfirmed)" if engine["unconfirmed"] else ""
    return name + block + (" (simulated)" if engine["simulated"] else "") + unconfirmed
