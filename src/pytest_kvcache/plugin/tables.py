"""Where do the tables of a session go, so that two sessions in one folder do not mix?

Each is written beside its place first. Then all take their places together, one session after the other.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .keys import ROWS
from .rows import REQUESTS

if TYPE_CHECKING:
    from .leaving import Left


def write(folder: Path, left: Left) -> list[str]:
    """Write ``summary.csv``, ``requests.csv``, ``phases.csv`` and ``periods.csv``; return what is to be told.

    Raises:
        OSError: one cannot be written; then none has changed.
    """
    from ..report.sheets.periods import periods
    from ..report.sheets.phases import phases
    from ..report.sheets.summary import summary
    from .lock import folder_lock

    rows, content = left.config.stash[ROWS], left.document
    made = {"summary.csv": summary(content), "phases.csv": phases(content), "periods.csv": periods(content)}
    folder.mkdir(parents=True, exist_ok=True)
    mine = f".{os.getpid()}.{os.urandom(4).hex()}.part"
    try:
        with folder_lock(folder):
            for name, text in made.items():
                (folder / (name + mine)).write_text(text, encoding="utf-8", newline="")
            with (folder / (REQUESTS + mine)).open("wb") as file:
                told = rows.write(file, content["checks"])
            for name in (*made, REQUESTS):
                (folder / (name + mine)).replace(folder / name)
    finally:
        for name in (*made, REQUESTS):
            with suppress(OSError):
                (folder / (name + mine)).unlink(missing_ok=True)
    rows.clear()
    return told
