"""Reports to files: whole ones, or added to what is there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_WORDS = "surrogateescape"  # how Python holds what of a command line is no UTF-8


def write(path: Path, content: str) -> None:
    """Write a file; a reader never sees half of one. What of the command line is no UTF-8 is written as it was given.

    Raises:
        OSError: the folder cannot be made or written.
    """
    if path.exists() and not path.is_file():  # a device or a pipe is written to, and not replaced
        path.write_text(content, encoding="utf-8", errors=_WORDS)
        return
    path = Path(os.path.realpath(path))  # a link stays one
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")  # another session may write the same file
    try:
        part.write_text(content, encoding="utf-8", errors=_WORDS)
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def size(path: Path) -> int:
    """Return the bytes that are in a file; 0 without it.

    Raises:
        OSError: it cannot be looked at.
    """
    return path.stat().st_size if path.exists() else 0


def append(path: Path, content: str) -> None:
    """Add to a file.

    Raises:
        OSError: it cannot be written.
    """
    with path.open("a", encoding="utf-8") as file:
        file.write(content)
