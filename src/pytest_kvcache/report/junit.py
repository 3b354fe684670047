"""A record to JUnit properties of its test case: strings under stable names that begin with ``kv_``."""

from __future__ import annotations

from .record import Record

PREFIX = "kv_"


def properties(record: Record) -> list[tuple[str, str]]:
    """Return the properties of one test: those of all runs together, then ``kv_1_...`` for each of several runs."""
    engine = record["engine"]
    found = _numbers(PREFIX, record)
    found += [
        ("kv_engine", "" if engine is None else " ".join(filter(None, (engine["id"], engine["version"])))),
        ("kv_findings", " ".join(dict.fromkeys(finding["code"] for finding in record["findings"]))),
    ]
    if len(record["runs"]) > 1:
        for number, run in enumerate(record["runs"], 1):
            found += _numbers(f"{PREFIX}{number}_", run)
    return found


def _numbers(prefix: str, judged: Record) -> list[tuple[str, str]]:
    rates = judged["hit_rate"]
    return [
        (prefix + "verdict", judged["verdict"]),
        (prefix + "hit_rate", _rate(rates["measured"])),
        (prefix + "target", _rate(rates["target"])),
        (prefix + "predicted", _rate(rates["predicted"])),
        (prefix + "hit_tokens", _count(judged["hit_tokens"])),
        (prefix + "query_tokens", _count(judged["query_tokens"])),
    ]


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


def _count(value: int | None) -> str:
    return "" if value is None else str(value)
