"""Markdown from plain values: what stands in a table may not end its cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def code(text: str) -> str:
    """Return text as code, nothing for no text."""
    return f"`{text}`" if text else ""


def cell(text: str) -> str:
    """Return text for one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [_line(head), "|" + "---|" * len(head), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(cell, cells))} |"


def from_docstring(text: str | None) -> str:
    """Return the prose of a docstring as Markdown, with double backticks as single ones."""
    return " ".join((text or "").replace("``", "`").split())
