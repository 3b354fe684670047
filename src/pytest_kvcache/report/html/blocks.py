"""What is a section of a page made of? Plain data that the page's own code turns into headings, tables and charts.

A section is ``{"title", "blocks", "wide"}``; a block has one key: ``text``, ``items``, ``findings``, ``table``,
``pairs``, ``figure`` or ``left`` (what was left out). Texts are texts: none is ever taken for markup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ..columns import UNKNOWN
from ..text import shortened, visible

Block = dict[str, Any]
Section = dict[str, Any]
Cell = str | dict[str, str]


def section(title: str, *blocks: Block | None, wide: bool = False) -> list[Section]:
    """Return a section as a list of one; nothing without a block.

    Args:
        title: its heading.
        blocks: in order; None is left out.
        wide: it takes the whole width.
    """
    kept = [block for block in blocks if block]
    return [{"title": title, "blocks": kept, **({"wide": True} if wide else {})}] if kept else []


def text(line: str) -> Block | None:
    """Return a paragraph; nothing for no text."""
    return {"text": line} if line else None


def items(lines: Iterable[str], most: int) -> list[Block]:
    """Return a list, and how much of it is left out."""
    several = list(lines)
    return [*([{"items": several[:most]}] if several else []), *left(len(several) - most, "line")]


def table(rows: Sequence[Sequence[Cell]], words: Collection[int] = (0,), title: str = "") -> Block | None:
    """Return a table without the columns that tell nothing; nothing without rows.

    Args:
        rows: cells of text, or of ``{"text", "tone"}`` for a verdict; a header first.
        words: columns that hold words; the others hold numbers.
        title: above it; may be empty.
    """
    if len(rows) < 2:
        return None
    kept = [n for n in range(len(rows[0])) if n == 0 or any(row[n] not in ("", UNKNOWN) for row in rows[1:])]
    told: dict[str, Any] = {"rows": [[row[n] for n in kept] for row in rows]}
    told["words"] = [place for place, n in enumerate(kept) if n in words]
    return {"table": told | ({"title": title} if title else {})}


def pairs(told: Iterable[tuple[str, str]]) -> Block | None:
    """Return names with their values, those left out that are not told."""
    known = [[name, value] for name, value in told if value not in ("", UNKNOWN)]
    return {"pairs": known} if known else None


def folded(block: Block | None) -> Block | None:
    """Return a table that is behind a click, beside the chart that shows the same figures."""
    return block and {"folded": block}


def left(count: int, noun: str) -> list[Block]:
    """Return a note that something is not on the page; nothing when all is."""
    plural = noun if count == 1 else f"{noun}s"
    return [{"left": f"{count:,} more {plural}: in the JSON document (--kv-report)"}] if count > 0 else []


def toned(verdict: str) -> dict[str, str]:
    """Return a verdict as a cell."""
    return {"text": verdict, "tone": verdict}


def clean(part: Any, longest: int) -> Any:
    """Return data with every text fit to be shown: nothing hidden in it, none longer than so many characters."""
    if isinstance(part, str):
        return shortened(visible(part[: longest + 1]), longest)
    if isinstance(part, dict):
        return {name: clean(value, longest) for name, value in part.items()}
    return [clean(value, longest) for value in part] if isinstance(part, (list, tuple)) else part
