"""Reports to files: whole ones, or added to what is there."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, content: str) -> None:
    """Write a file; a reader never sees half of one.

    Raises:
        OSError: the folder cannot be made or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")  # another session may write the same file
    part.write_text(content, encoding="utf-8")
    part.replace(path)


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
