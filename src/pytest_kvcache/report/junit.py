"""A record to JUnit properties of its test case: strings under stable names that begin with ``kv_``.

========================================= ==============================================================================
``kv_verdict``                            ``pass``, ``fail`` or ``inconclusive``
``kv_hit_rate``, ``kv_target``, ...       rates 0..1 (also ``kv_predicted``, ``kv_simulated``), ``kv_hit_tokens`` and
                                          ``kv_query_tokens``; empty when not told
``kv_engine``, ``kv_findings``            id and version; codes
``kv_saved_tokens``                       prompt tokens that reuse left uncomputed; empty when not told
``kv_saved_money``                        what that saved, such as ``0.0123 USD``; only where prices are known
``kv_slo``                                what became of all limits to latency and throughput: the worst of them
``kv_ttft_p95``, ``kv_goodput``, ...      the value of each such limit, under the name that the marker gives it, in
                                          seconds, tok/s or req/s; the worst value where several runs are judged
``kv_regression``                         what became of all comparisons with the baseline: the worst of them
``kv_level``                              of a level that was kept: ``concurrency 20`` or ``2.5 req/s``
``kv_limit``                              of a search: the highest level that held, as a number; empty when none did
``kv_output_tok_s``                       of a level, and of a limit: generated tokens per second
========================================= ==============================================================================

A test without limits, baseline and levels has none of the last six. Those of each of several runs begin with
``kv_1_``, ...
"""

from __future__ import annotations

import re
from typing import get_args

from ..model.objective import Metric, Statistic
from .levels import level_text, level_value
from .plain import Record
from .verdicts import worst

PREFIX = "kv_"
_NUMBERS = ("verdict", "hit_rate", "target", "predicted", "simulated", "hit_tokens", "query_tokens")
_LOAD = ("slo", "regression", "level", "limit")
_OBJECTIVE = f"({'|'.join(get_args(Metric))})(_(ttft|e2e))?(_({'|'.join((*get_args(Statistic), 'avg'))}))?"
_OURS = re.compile(
    rf"{PREFIX}(engine|findings|saved_tokens|saved_money|(\d+_)?({'|'.join((*_NUMBERS, *_LOAD))}|{_OBJECTIVE}))"
)


def is_ours(name: str) -> bool:
    """Tell whether a property is one of ours, so that a rerun replaces it and leaves the user's own alone."""
    return _OURS.fullmatch(name) is not None


def properties(record: Record) -> list[tuple[str, str]]:
    """Return the properties of one test: those of all runs together, then ``kv_1_...`` for each of several runs."""
    engine, runs = record["engine"], record["runs"]
    found = _numbers(PREFIX, record)
    found += [
        ("kv_engine", "" if engine is None else " ".join(filter(None, (engine["id"], engine["version"])))),
        ("kv_findings", " ".join(dict.fromkeys(finding["code"] for finding in record["findings"]))),
    ]
    found += _saved(record["saved"])
    found += _load(PREFIX, record["objectives"], runs[0] if len(runs) == 1 else None)
    if (compared := worst(one["verdict"] for one in record["regressions"])) is not None:
        found.append((f"{PREFIX}regression", compared))
    if len(runs) > 1:
        for number, run in enumerate(runs, 1):
            prefix = f"{PREFIX}{number}_"
            found += _numbers(prefix, run) + _load(prefix, run["objectives"], run)
    return found


def _numbers(prefix: str, judged: Record) -> list[tuple[str, str]]:
    rates = judged["hit_rate"]
    values = (
        judged["verdict"],
        *(_rate(rates[name]) for name in ("measured", "target", "predicted", "simulated")),
        *(_count(judged[name]) for name in ("hit_tokens", "query_tokens")),
    )
    return [(prefix + name, value) for name, value in zip(_NUMBERS, values, strict=True)]


def _saved(saved: Record | None) -> list[tuple[str, str]]:
    found = [("kv_saved_tokens", _count(saved["prefill_tokens"] if saved else None))]
    if saved is not None and saved["money"] is not None:
        found.append(("kv_saved_money", f"{saved['money']} {saved['currency']}"))
    return found


def _load(prefix: str, objectives: list[Record], run: Record | None) -> list[tuple[str, str]]:
    """Return what is asked of latency and throughput, and the level of the only run."""
    found: dict[str, str] = {}
    if (limits := worst(one["verdict"] for one in objectives)) is not None:
        found["slo"] = limits
    if run is not None and run["stretch"] is not None:
        found["output_tok_s"] = _value(run["stretch"]["output_tok_s"])
        if run["limit"] is None:
            found["level"] = level_text(run["level"])
    if run is not None and run["limit"] is not None:
        found["limit"] = _value(None if run["level"] is None else level_value(run["level"]))
    found |= {one["name"]: _value(one["value"]) for one in objectives}
    return [(prefix + name, value) for name, value in found.items() if is_ours(PREFIX + name)]


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


def _count(value: int | None) -> str:
    return "" if value is None else str(value)


def _value(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
