"""Records of one sweep to one result set: which values its axes have, and what was measured at each place.

=============== ========================================================================================================
``name``        as the marker says; else the test function's node id without its parameters
``axes``        ``name`` and ``values`` of each, numbers ascending; those of a test lie in its cell
``cells``       one a test: ``nodeid``, ``axes`` by name, ``verdict``, ``hit_rate``, ``ttft_p50_s``, ``ttft_p95_s``,
                ``output_tok_s``; ``requests``: whole answers that these come from; ``level``: that they are from,
                ``limit``: of a search the highest level that held
``statements``  one line each: how TTFT and throughput follow the hit rate
=============== ========================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..trend import REQUESTS, AtRate, against_hit_rate
from .levels import headline, highest_level, level_value, searched
from .plain import Record

Place = tuple[Any, ...]
"""One value of each of several axes."""


def sweeps(records: Iterable[Record]) -> list[Record]:
    """Return the sweeps of a session, in the order of their first tests.

    Tests that a ``kv_sweep`` marker puts together are one, whatever they measured. So are the parameter sets of one
    function, when at least two were measured along an axis of numbers.
    """
    by_name: dict[str, list[Record]] = {}
    for record in records:
        if record["sweep"] is not None:
            by_name.setdefault(record["sweep"]["name"], []).append(record)
    return [_sweep(name, tests) for name, tests in by_name.items() if _is_one(tests)]


def _is_one(tests: Sequence[Record]) -> bool:
    if any(test["sweep"]["marked"] for test in tests):
        return True
    measured = [test["sweep"]["axes"] for test in tests if test["runs"]]
    names = dict.fromkeys(name for axes in measured for name in axes)
    return any(len({axes[name] for axes in measured if is_number(axes.get(name))}) > 1 for name in names)


def _sweep(name: str, tests: Sequence[Record]) -> Record:
    names = dict.fromkeys(axis for test in tests for axis in test["sweep"]["axes"])
    cells = [_cell(test) for test in tests]
    axes = [{"name": axis, "values": _values(cell["axes"].get(axis) for cell in cells)} for axis in names]
    return {"name": name, "axes": axes, "cells": cells, "statements": _statements(axes, cells)}


def _cell(test: Record) -> Record:
    figures, _ = headline(test)
    ttft = {} if figures is None else figures["ttft_s"]
    level = highest_level(test)
    return {
        "nodeid": test["nodeid"],
        "axes": test["sweep"]["axes"],
        "verdict": test["verdict"],
        "hit_rate": test["hit_rate"]["measured"],
        "requests": None if figures is None else figures["requests"],
        "ttft_p50_s": ttft.get("p50"),
        "ttft_p95_s": ttft.get("p95"),
        "output_tok_s": None if figures is None else figures["output_tok_s"],
        "level": None if searched(test) else level,
        "limit": level if searched(test) else None,
    }


def _values(found: Iterable[Any]) -> list[Any]:
    """Return each value once: numbers ascending, then the others in the order of the tests."""
    values: list[Any] = []
    for value in found:
        if value is not None and not any(value == known and is_number(value) == is_number(known) for known in values):
            values.append(value)
    return sorted(filter(is_number, values)) + [value for value in values if not is_number(value)]


def _statements(axes: Sequence[Record], cells: Sequence[Record]) -> list[str]:
    """Return how TTFT and throughput follow the hit rate, for each place on the axes that do not move it."""
    if not axes:
        return []
    moving = max((axis["name"] for axis in axes), key=lambda name: _moves(name, axes, cells))
    others, lines = _others(axes, moving), []
    for place, row in ordered_rows(others, cells):
        points = [_point(cell) for cell in row if cell["verdict"] != "inconclusive" and cell["hit_rate"] is not None]
        where = ", ".join(f"{axis['name']} {value}" for axis, value in zip(_others(axes, moving), place, strict=True))
        lines += [f"{where}: {line}" if where else line for line in against_hit_rate(points)]
    return lines


def _point(cell: Record) -> AtRate:
    limit = cell["limit"]
    if cell["requests"] is None or cell["requests"] < REQUESTS:
        return AtRate(cell["hit_rate"], None)
    if limit is None:
        return AtRate(cell["hit_rate"], cell["ttft_p50_s"], cell["output_tok_s"])
    return AtRate(cell["hit_rate"], None, cell["output_tok_s"], level_value(limit))  # TTFT is near its limit anywhere


def _moves(name: str, axes: Sequence[Record], cells: Sequence[Record]) -> float:
    """Return how far the hit rate moves along an axis, at most."""
    rows = rows_by([axis["name"] for axis in _others(axes, name)], cells)
    rates = [[cell["hit_rate"] for cell in row if cell["hit_rate"] is not None] for _, row in rows]
    return max((max(row) - min(row) for row in rates if row), default=0.0)


def _others(axes: Sequence[Record], name: str) -> list[Record]:
    return [axis for axis in axes if axis["name"] != name]


def place_of(value: Any) -> Place:
    """Return what tells a value of an axis from others: to Python true is 1, and false is 0."""
    return isinstance(value, bool), value


def rows_by(names: Sequence[str], cells: Iterable[Record]) -> list[tuple[Place, list[Record]]]:
    """Return cells by their values on some of the axes."""
    rows: dict[Place, tuple[Place, list[Record]]] = {}
    for cell in cells:
        values = tuple(cell["axes"].get(name) for name in names)
        rows.setdefault(tuple(map(place_of, values)), (values, []))[1].append(cell)
    return list(rows.values())


def ordered_rows(axes: Sequence[Record], cells: Iterable[Record]) -> list[tuple[Place, list[Record]]]:
    """Return cells by their values on some of the axes, in the order that these have on the axes."""
    ranks = [{place_of(value): rank for rank, value in enumerate(axis["values"])} for axis in axes]

    def rank(row: tuple[Place, list[Record]]) -> list[int]:
        return [known.get(place_of(value), len(known)) for known, value in zip(ranks, row[0], strict=True)]

    return sorted(rows_by([axis["name"] for axis in axes], cells), key=rank)


def is_number(value: object) -> bool:
    """Tell whether a value can be put in order; true and false cannot."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
