"""A record's waterfall and notes to lines: what could have been reused, what was lost on the way, and why."""

from __future__ import annotations

from .plain import Record


def waterfall(losses: Record | None) -> list[str]:
    """Return the waterfall as an aligned column of tokens; nothing when nothing was lost."""
    if losses is None or not losses["losses"]:
        return []
    rows = [("could be reused", f"{losses['ceiling']:,}", "")]
    rows += [(f"- {loss['title']}", f"{-loss['tokens']:,}", loss["evidence"]) for loss in losses["losses"]]
    rows.append(("= reused", f"{losses['measured']:,}", ""))
    names, numbers = (max(len(row[column]) for row in rows) for column in (0, 1))
    return [f"    {name:<{names}}  {tokens:>{numbers}}  {why}".rstrip() for name, tokens, why in rows]
