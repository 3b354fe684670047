"""``periods.csv``: one row for each assessment period of a search, and for each level that was kept for a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

from ..plain import Record
from .cells import Column, sheet
from .figures import latencies, per_second, rates


class Row(NamedTuple):
    """One row.

    Attributes:
        nodeid / run: whose.
        number: of the period in its search, from 1; None: a level of ``kv.steps``.
        told: what came out in it.
    """

    nodeid: str
    run: int
    number: int | None
    told: Record


def periods(document: dict[str, Any]) -> str:
    """Return the table of a document."""
    return sheet(COLUMNS, _rows(document))


def _rows(document: dict[str, Any]) -> Iterator[Row]:
    for check in document["checks"]:
        for run, told in enumerate(check["runs"], 1):
            if told["limit"] is not None:
                for number, period in enumerate(told["limit"]["periods"], 1):
                    yield Row(check["nodeid"], run, number, period)
            elif told["stretch"] is not None:
                yield Row(check["nodeid"], run, None, told["stretch"])


def _told(name: str, unit: str, about: str) -> Column:
    return Column(name, unit, about, lambda row: row.told[name])


COLUMNS: tuple[Column, ...] = (
    Column("kind", "", "`period` of a search, or `level` that was kept", lambda r: "period" if r.number else "level"),
    Column("nodeid", "", "pytest's id of the test", lambda r: r.nodeid),
    Column("run", "", "number of the run in its test, from 1", lambda r: r.run),
    Column("period", "", "number of the period in its search, from 1", lambda r: r.number),
    Column("concurrency", "sessions", "going at once", lambda r: r.told["level"]["concurrency"]),
    Column("rate", "sessions/s", "begun per second", lambda r: r.told["level"]["rate"]),
    Column("start_s", "s", "from the start of the first period", lambda r: r.told.get("start")),
    Column("duration_s", "s", "how long it was", lambda r: r.told["seconds"]),
    Column("held", "", "`held`, `breached`, or `transition`: it does not count", lambda r: r.told.get("held")),
    Column("why", "", "it was breached, or passed", lambda r: r.told.get("why") or None),
    Column("stalled", "requests", "in flight for longer than an answer explains", lambda r: r.told.get("stalled")),
    _told("strict", "", "`true`: only requests that began and ended in it count"),
    _told("requests", "requests", "whole answers that count"),
    _told("failed", "requests", "that ended without one"),
    _told("requests_per_s", "requests/s", "whole answers"),
    _told("input_tokens", "tokens", "of the prompts, cached or not"),
    _told("hit_tokens", "tokens", "of these, cached, by usage"),
    _told("hit_rate", "", "cached share, by usage, 0..1"),
    _told("output_tokens", "tokens", "generated; of a request that was cut by an end in part"),
    per_second("input_tok_s", "prompt tokens, cached or not", lambda r: r.told["input_tok_s"]),
    per_second("output_tok_s", "generated tokens", lambda r: r.told["output_tok_s"]),
    *rates("tokens_per_s", "generated tokens of each request", lambda row: row.told),
    *chain.from_iterable(
        latencies(name, about, lambda row: row.told)
        for name, about in (
            ("ttft_s", "time to first token"),
            ("tpot_s", "time per output token"),
            ("itl_s", "gaps between the chunks of an answer"),
            ("e2e_s", "from sending to the end of the answer"),
        )
    ),
    _told("good", "requests", "that met every limit of their own"),
    _told("goodput", "requests/s", "that met every limit of their own"),
)
