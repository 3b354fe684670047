"""May Python look for cycles of objects? Not while a trace is read, and seldom while a load is sent."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_RARER = 10


@contextmanager
def uncollected(files: Sequence[Path]) -> Iterator[None]:
    """Keep the garbage collector from running while rows are read from files, unless it was off already.

    What they are read with and made into is in no cycle: the collector would free nothing, and look at all rows again
    and again, a tenth of the time of a curve. Rows of the user's own come from code of which that is not known.

    Args:
        files: that the rows are read from; empty: they are the user's own, and the collector is left alone.
    """
    off = bool(files) and gc.isenabled()
    if off:
        gc.disable()
    try:
        yield
    finally:
        if off:
            gc.enable()


class _Loads:
    """Those that this process is sending, as several may overlap, and the thresholds from before the first of them."""

    going = 0
    usual = (0, 0, 0)


@contextmanager
def seldom() -> Iterator[None]:
    """Let the garbage collector run less often: a load leaves little behind.

    Looking at all that a test session holds, 100,000 objects and more, takes 50 ms during which no answer is read, and
    all that arrive meanwhile would be stamped late. Looking at what is new is a twentieth of what sending costs.
    """
    if not _Loads.going:
        _Loads.usual = gc.get_threshold()
        gc.set_threshold(_RARER * _Loads.usual[0], *_Loads.usual[1:])
    _Loads.going += 1
    try:
        yield
    finally:
        _Loads.going -= 1
        if not _Loads.going:
            gc.set_threshold(*_Loads.usual)
