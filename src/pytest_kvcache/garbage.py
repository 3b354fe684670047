"""May Python look for cycles of objects? Not while a trace is read, and in a load only among those that are new."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


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
    """Keep the garbage collector off what was there before, unless it was off or somebody keeps it off something.

    A test session holds 100,000 objects and more. To look at all of them takes 50 ms, during which no answer is read:
    all that arrive meanwhile would be stamped late.
    """
    freezes = hasattr(gc, "freeze") and gc.isenabled() and not gc.get_freeze_count()  # PyPy has none
    if freezes:
        gc.freeze()
    try:
        yield
    finally:
        if freezes:
            gc.unfreeze()
