"""``phases.csv``: one row for each phase of each run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..plain import Record
from .cells import Column, sheet


class Row(NamedTuple):
    """One row: a phase, its number in the run, and the run."""

    nodeid: str
    run: int
    started: str | None
    number: int
    phase: Record


def phases(document: dict[str, Any]) -> str:
    """Return the table of a document."""
    return sheet(COLUMNS, _rows(document))


def _rows(document: dict[str, Any]) -> Iterator[Row]:
    for check in document["checks"]:
        for run, told in enumerate(check["runs"], 1):
            for number, phase in enumerate(told.get("phases", ()), 1):  # those of an earlier version are not told
                yield Row(check["nodeid"], run, told.get("started"), number, phase)


def _told(name: str, unit: str, about: str) -> Column:
    return Column(name, unit, about, lambda row: row.phase[name])


COLUMNS: tuple[Column, ...] = (
    Column("nodeid", "", "pytest's id of the test", lambda r: r.nodeid),
    Column("run", "", "number of the run in its test, from 1", lambda r: r.run),
    Column("started", "UTC", "when the run began, ISO 8601", lambda r: r.started),
    Column("number", "", "of the phase in the run, from 1", lambda r: r.number),
    Column("phase", "", "`reset`, `prefill`, `settle_before`, `load` or `settle_after`", lambda r: r.phase["name"]),
    Column("start_s", "s", "from the start of the run", lambda r: r.phase["start"]),
    Column("duration_s", "s", "how long it took", lambda r: r.phase["seconds"]),
    _told("requests", "requests", "sent in it, failed ones included"),
    _told("failed", "requests", "without a whole answer"),
    _told("prompt_tokens", "tokens", "of whole answers, by usage"),
    _told("cached_tokens", "tokens", "of whole answers, by usage"),
    _told("output_tokens", "tokens", "of whole answers, by usage"),
    _told("query_tokens", "tokens", "by which the engines' counters moved: looked up; of `load` alone"),
    _told("hit_tokens", "tokens", "by which they moved: reused"),
    _told("evictions", "", "by which they moved: blocks or tokens, as the engine counts them"),
    _told("preemptions", "requests", "by which they moved: preempted"),
)
