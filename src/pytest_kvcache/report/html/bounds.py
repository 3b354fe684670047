"""How much of a session is on its page? What one check may take, and what is left out of one that has more."""

from __future__ import annotations

from dataclasses import dataclass

_ALL = 16 * 1024 * 1024  # bytes that the details of all checks together may take ...
_LEAST, _MOST = 12 * 1024, 256 * 1024  # ... and of each; what is on the page anyway is about 1 KB a check


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is shown of each check.

    Attributes:
        runs / levels / turns / periods / engines / items: how many of each; ``items`` of notes, findings and the like.
        characters: of one text.
    """

    runs: int
    levels: int
    turns: int
    periods: int
    engines: int
    items: int
    characters: int


FULL = Bounds(runs=16, levels=48, turns=160, periods=96, engines=64, items=40, characters=2000)
LESS = Bounds(runs=4, levels=16, turns=24, periods=24, engines=16, items=12, characters=600)
LEAST = Bounds(runs=0, levels=0, turns=0, periods=0, engines=0, items=3, characters=240)

POINTS = 1000  # of TTFT against hit rate
SWEEPS, PLACES = 12, 240  # ... and places of each
CURVES, BUDGETS = 32, 200  # ... and points of each
STATEMENT = 480  # characters of a text that is about more than one check
NAME = 240  # characters of a node id, a model or an endpoint in the overview


def allowance(checks: int) -> int:
    """Return the bytes that the details of one of so many checks may take."""
    return min(_MOST, max(_LEAST, _ALL // max(1, checks)))
