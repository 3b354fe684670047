"""May Python look for cycles of objects? Not while a trace is read, and in a load only among those that are new."""

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


@contextmanager
def only_new() -> Iterator[None]:
    """Keep the garbage collector off what was there before, and let it look at the new less often.

    A test session holds 100,000 objects and more. To look at all of them takes 50 ms, during which no answer is read:
    all that arrive meanwhile would be stamped late. What a load leaves behind is little, and to look for it at the
    usual rate is a twentieth of what sending costs. Nothing changes where the collector is off, or where somebody keeps
    it off something already.
    """
    if not hasattr(gc, "freeze") or not gc.isenabled() or gc.get_freeze_count():  # PyPy has none to freeze
        yield
        return
    usual = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_RARER * usual[0], *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
