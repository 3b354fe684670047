"""A record to JUnit properties of its test case: strings under stable names that begin with ``kv_``."""

from __future__ import annotations

import re

from .record import Record

PREFIX = "kv_"
_NUMBERS = ("verdict", "hit_rate", "target", "predicted", "simulated", "hit_tokens", "query_tokens")
_OURS = re.compile(rf"{PREFIX}(engine|findings|(\d+_)?({'|'.join(_NUMBERS)}))")


def is_ours(name: str) -> bool:
    """Tell whether a property is one of ours, so that a rerun replaces it and leaves the user's own alone."""
    return _OURS.fullmatch(name) is not None


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
    values = (
        judged["verdict"],
        *(_rate(rates[name]) for name in ("measured", "target", "predicted", "simulated")),
        *(_count(judged[name]) for name in ("hit_tokens", "query_tokens")),
    )
    return [(prefix + name, value) for name, value in zip(_NUMBERS, values, strict=True)]


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


def _count(value: int | None) -> str:
    return "" if value is None else str(value)
