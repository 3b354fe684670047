"""May Python look for cycles of objects while rows are read and looked up? Not of its own accord."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the garbage collector from running, unless it was off already.

    Rows and what is made of them are in no cycle, so it frees nothing, and looks at all of them again and again: a
    seventh of the time of a curve.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
