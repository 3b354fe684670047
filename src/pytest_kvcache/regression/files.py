"""Files that several sessions may write: one at a time, and known before anything is measured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SECONDS = 60.0  # to wait for others who write


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file, whose folder is made; ``FILE.lock`` stays beside it, for who shares the folder.

    Raises:
        OSError: it cannot be held, or somebody else has held it for a minute.
    """
    from filelock import FileLock, Timeout

    path = Path(os.path.realpath(path))  # by whichever name it is called
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path.with_name(path.name + ".lock"), timeout=_SECONDS):
            yield
    except Timeout:
        raise OSError(None, f"another session has held {path.name}.lock for {_SECONDS:g} s") from None


def why_not(path: Path) -> str | None:
    """Return why a file cannot be written, as far as that can be known without doing it; None: it can."""
    if path.is_dir():
        return "it is a folder"
    there = next((folder for folder in path.parents if folder.exists()), path)
    if not there.is_dir():
        return f"{there} is no folder"
    file = path if path.exists() else there
    return None if os.access(file, os.W_OK) and os.access(there, os.X_OK) else f"{file} cannot be written"
