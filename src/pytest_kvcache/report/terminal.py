"""Records to lines: the section under a failure, and the table at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .record import Record

_HEADER = ("verdict", "hit rate", "target", "predicted", "hit/query tokens", "TTFT p50/p95", "output", "engine", "test")
_RIGHT = frozenset({1, 2, 3, 4, 5, 6})


def section(record: Record) -> str:
    """Return the evidence of one test: the arithmetic, what an ideal cache reaches, and every finding with its code."""
    lines = [record["sentence"], *_arithmetic(record)]
    if len(record["runs"]) > 1:
        lines += [f"  run {number}: {run['sentence']}" for number, run in enumerate(record["runs"], 1)]
    else:
        lines += [f"  {run['title']}" for run in record["runs"]]
    lines += [f"  cache: {record['cache_state']}"] if record["cache_state"] else []
    for finding in record["findings"]:
        advice = f"; {finding['advice']}" if finding["advice"] else ""
        lines.append(f"  -> {finding['sentence']}{advice} [{finding['code']}]")
    return "\n".join(lines)


def _arithmetic(record: Record) -> list[str]:
    requests, engine = record["requests"], record["engine"]
    lines = []
    if record["query_tokens"] is not None:
        failed = f", {requests['failed']} failed" if requests["failed"] else ""
        sent = f" · {requests['total']} requests{failed}" if requests["total"] else ""
        hit = f"{record['hit_tokens']:,} of {record['query_tokens']:,} hit"
        lines.append(f"  {hit}, by {record['source']}{sent} · {_engine(engine)}")
    rates = record["hit_rate"]
    if rates["ceiling"] is not None and rates["measured"] is not None:
        missing = max(0.0, rates["ceiling"] - rates["measured"])
        lines.append(f"  an ideal cache reaches {rates['ceiling']:.3f}, {missing:.3f} more than was measured")
    if len(record["engines"]) > 1:
        lines += [
            f"  engine {name}: {t['local_hit_tokens'] + (t['external_hit_tokens'] or 0):,} of {t['query_tokens']:,} hit"
            for name, t in record["engines"].items()
        ]
    if record["ttft_s"]["count"]:
        lines.append(f"  TTFT {_ttft(record)} (p50/p95), {_output(record)} output")
    return lines


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
    return (
        f"{seconds * 1000:.1f} ms"
        if seconds < 0.1
        else f"{seconds * 1000:.0f} ms"
        if seconds < 10
        else f"{seconds:.1f} s"
    )


def _output(record: Record) -> str:
    rate = record["output_tokens_per_s"]
    return "-" if rate is None else f"{rate:,.0f} tok/s"


def _engine(engine: Record | None) -> str:
    if engine is None:
        return "-"
    name = f"{engine['id']} {engine['version']}" if engine["version"] else str(engine["id"])
    block = f" block {engine['block_size']}" if engine["block_size"] else ""
    return name + block + (" (simulated)" if engine["simulated"] else "")
