"""A curve to a document of built-in types and back, and to a table for spreadsheets."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..errors import TraceError
from ..rows import Note
from .budget import Budget, Sizes
from .points import Everywhere, Point, Points
from .rules import Rules
from .steps import Steps

if TYPE_CHECKING:
    from .curve import Curve

SCHEMA = "pytest-kvcache/curve/1"
_PLAIN = ("name", "policy", "requests", "input_tokens", "uncovered_tokens", "unique_blocks", "warm")
_HEADER = ("blocks", "tokens", "gib", "hit_tokens", "hit_rate", "error", "evictions")


def write(curve: Curve) -> dict[str, Any]:
    """Return the whole curve; its keys are told at ``Curve.to_json``."""
    known = curve.known
    everywhere = known if isinstance(known, Everywhere) else None
    return {
        "schema": SCHEMA,
        **{name: getattr(curve, name) for name in _PLAIN},
        "rules": asdict(curve.rules),
        "block_size": curve.block_size,
        "bytes_per_token": curve.bytes_per_token,
        "ceiling": curve.ceiling,
        "ceiling_tokens": curve.ceiling_tokens,
        "knee": _budget(curve.knee()) if curve.input_tokens else None,
        "hit_tokens": _steps(everywhere.tokens) if everywhere else None,
        "stored": _steps(everywhere.stored) if everywhere else None,
        "points": [point._asdict() for point in known.points] if isinstance(known, Points) else None,
        "error_tokens": _steps(curve.errors) if curve.errors else None,
        "notes": [asdict(note) for note in curve.notes],
    }


def read(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a curve is made of.

    Raises:
        TraceError: it is no such document, of another version, or damaged.
    """
    if given.get("schema") != SCHEMA:
        raise TraceError(f"a curve's document says schema {SCHEMA!r}; this one {given.get('schema')!r}")
    try:
        return {
            **{name: given[name] for name in _PLAIN},
            "rules": Rules(**given["rules"]),
            "sizes": Sizes(given["block_size"], given["bytes_per_token"]),
            "known": _known(given),
            "errors": None if given["error_tokens"] is None else _curve(given["error_tokens"]),
            "notes": tuple(Note(**note) for note in given["notes"]),
        }
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise TraceError(f"a curve's document is damaged: {type(error).__name__}: {error}") from error


def write_csv(curve: Curve, to: str | PathLike[str] | TextIO, budgets: Iterable[int]) -> None:
    """Write a header and one row a budget; cells that are not known are empty."""
    if isinstance(to, (str, PathLike)):
        with Path(to).open("w", encoding="utf-8", newline="") as file:
            write_csv(curve, file, budgets)
        return
    import csv

    rows = csv.writer(to, lineterminator="\n")
    rows.writerow(_HEADER)
    rows.writerows(_rows(curve, budgets))


def _rows(curve: Curve, budgets: Iterable[int]) -> Iterator[tuple[object, ...]]:
    for at in budgets:
        size = curve.sizes.budget(at)
        rate = curve.hit_rate(blocks=at), curve.error(blocks=at)
        yield at, size.tokens, size.gib, curve.hit_tokens(blocks=at), *rate, curve.evictions(blocks=at)


def _budget(budget: Budget) -> dict[str, float | None]:
    return budget._asdict()


def _steps(steps: Steps) -> dict[str, list[int]]:
    return {"at": list(steps.at), "value": list(steps.value), "slope": list(steps.slope)}


def _curve(given: Mapping[str, Any]) -> Steps:
    at, value, slope = (array("q", given[name]) for name in ("at", "value", "slope"))
    if not len(at) == len(value) == len(slope) or not at or at[0] != 0:
        raise ValueError("at, value and slope do not belong together")
    for place, (start, end) in enumerate(pairwise(at)):
        if end <= start or value[place + 1] != value[place] + slope[place] * (end - start):
            raise ValueError(f"at, value and slope contradict one another behind {start} blocks")
    return Steps(at, value, slope)


def _known(given: Mapping[str, Any]) -> Everywhere | Points:
    if given["points"] is None:
        return Everywhere(_curve(given["hit_tokens"]), _curve(given["stored"]))
    points = tuple(Point(**point) for point in given["points"])
    if not points or any(after.blocks <= before.blocks for before, after in pairwise(points)):
        raise ValueError("points are not in ascending order")
    return Points(points, given["policy"])
