"""``summary.csv``: one row a test, and one for each of its runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

from ..plain import Record
from ..verdicts import worst
from .cells import Column, sheet
from .figures import latencies, per_second


class Row(NamedTuple):
    """One row.

    Attributes:
        check: the test.
        run: number of its run, from 1; None: the test itself.
        told: the record of the test, or of the run.
    """

    check: Record
    run: int | None
    told: Record


def summary(document: dict[str, Any]) -> str:
    """Return the table of a document."""
    return sheet(COLUMNS, _rows(document))


def _rows(document: dict[str, Any]) -> Iterator[Row]:
    for check in document["checks"]:
        yield Row(check, None, check)
        yield from (Row(check, number, run) for number, run in enumerate(check["runs"], 1))


def _codes(row: Row) -> str | None:
    """Return the codes of a test; of a run none are told."""
    codes = (finding["code"] for finding in row.told["findings"]) if row.run is None else ()
    return " ".join(codes) or None


def _slo(row: Row) -> str | None:
    return worst(objective["verdict"] for objective in row.told["objectives"])


def _axes(row: Row) -> str | None:
    place = row.check["sweep"]
    return None if place is None else json.dumps(place["axes"], sort_keys=True)


def _rate(name: str, about: str, key: str | None = None) -> Column:
    return Column(name, "", about, lambda row: row.told["hit_rate"][key or name])


def _requests(name: str, key: str, about: str) -> Column:
    return Column(name, "requests", about, lambda row: row.told["requests"][key])


def _within(part: str, key: str) -> Any:
    """Return what reads a key of a part that may not be there."""
    return lambda row: None if row.told[part] is None else row.told[part][key]


def _tier(name: str) -> Column:
    about = "hit tokens of the device's cache" if name == "local" else "hit tokens of every tier behind it"
    return Column(f"{name}_hit_tokens", "tokens", about, lambda row: row.told["tiers"].get(name, {}).get("hit_tokens"))


COLUMNS: tuple[Column, ...] = (
    Column(
        "kind", "", "`check`: a test with all of its runs; `run`: one of them", lambda r: "run" if r.run else "check"
    ),
    Column("nodeid", "", "pytest's id of the test", lambda r: r.check["nodeid"]),
    Column("run", "", "number of the run in its test, from 1; empty: the test", lambda r: r.run),
    Column("title", "", "what was run", lambda r: r.told.get("title")),
    Column("started", "UTC", "when the run began, ISO 8601", lambda r: r.told.get("started")),
    Column("verdict", "", "`pass`, `fail` or `inconclusive`", lambda r: r.told["verdict"]),
    Column("sentence", "", "the verdict in one line", lambda r: r.told["sentence"]),
    Column("findings", "", "codes of the test's findings, a space between them", _codes),
    _rate("hit_rate", "hit tokens over query tokens, 0..1", "measured"),
    _rate("hit_rate_low", "lower bound of the rate; empty: it is exact", "low"),
    _rate("hit_rate_high", "upper bound, likewise", "high"),
    _rate("hit_rate_warm", "rate over the requests that had something to hit", "warm"),
    _rate("target", "rate that was asked for"),
    _rate("target_from", "`given`, `predicted` or `simulated`"),
    _rate("predicted", "rate of an unlimited cache of the server's block size"),
    _rate("simulated", "rate of a cache as large as the server's"),
    _rate("ceiling", "rate that no cache exceeds"),
    Column("hit_tokens", "tokens", "reused", lambda r: r.told["hit_tokens"]),
    Column("query_tokens", "tokens", "looked up", lambda r: r.told["query_tokens"]),
    _tier("local"),
    _tier("external"),
    Column("source", "", "of the rate: `counters` or `usage`", lambda r: r.told["source"]),
    Column("slo", "", "the worst verdict on limits to latency and throughput", _slo),
    _requests("requests", "total", "measured, failed ones included"),
    _requests("failed", "failed", "without a whole answer"),
    _requests("aborted", "aborted", "given up on or cut off"),
    _requests("prefill_requests", "prefill", "sent before, to warm the cache"),
    *chain.from_iterable(
        latencies(name, about, lambda row: row.told)
        for name, about in (
            ("ttft_s", "time to first token"),
            ("itl_s", "gaps between the chunks of an answer"),
            ("tpot_s", "time per output token"),
            ("e2e_s", "from sending to the end of the answer"),
            ("arrival_s", "sent so much later than scheduled"),
        )
    ),
    per_second("output_tok_s", "generated tokens", lambda r: r.told["output_tokens_per_s"]),
    Column("preemptions", "requests", "that lost their blocks", _within("pressure", "preemptions")),
    Column("evictions", "", "blocks or tokens, as the engine counts them", _within("pressure", "evictions")),
    Column("kv_usage_peak", "", "share of the cache that running requests held", _within("pressure", "kv_usage_peak")),
    Column("running_peak", "requests", "running at once", _within("pressure", "running_peak")),
    Column("waiting_peak", "requests", "waiting at once", _within("pressure", "waiting_peak")),
    Column("client_busy", "", "CPU over wall seconds of the busiest sending process", _within("client", "busy")),
    Column("client_processes", "", "processes that sent", _within("client", "processes")),
    Column("engine", "", "profile of the engine that answered", _within("engine", "id")),
    Column("engine_version", "", "as the server tells it", _within("engine", "version")),
    Column("model", "", "that was asked for", _within("engine", "model")),
    Column("block_size", "tokens", "of a cache block", _within("engine", "block_size")),
    Column("simulated_engine", "", "`true`: the built-in engine, no benchmark", _within("engine", "simulated")),
    Column("cache_state", "", "how cold the cache was known to be", lambda r: r.told["cache_state"]),
    Column("concurrency", "sessions", "level of the run: going at once", lambda r: _level(r, "concurrency")),
    Column("rate", "sessions/s", "level of the run: begun per second", lambda r: _level(r, "rate")),
    Column("sweep", "", "name of the sweep that the test is in", lambda r: (r.check["sweep"] or {}).get("name")),
    Column("axes", "", "its place in it, a JSON object", _axes),
)


def _level(row: Row, key: str) -> Any:
    level = row.told.get("level")
    return None if level is None else level[key]
