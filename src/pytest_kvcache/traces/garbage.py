"""May Python look for cycles of objects while a trace is read or looked up? Not where there are none."""

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
