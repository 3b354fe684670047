"""How two lists of tool definitions differ: order, keys, one more or less, or the text of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .found import Found, in_text
from .request import as_json

_WHERE = "tools"


def compare_tools(a: Any, b: Any) -> Found | None:
    """Return how two requests' tools differ, None when they are written alike."""
    a, b = a or [], b or []
    found = in_text(as_json(a), as_json(b), "tools", _WHERE)
    if found is None or not isinstance(a, list) or not isinstance(b, list):
        return found
    moved = next((at for at, pair in enumerate(zip(a, b, strict=False)) if _name(pair[0]) != _name(pair[1])), None)
    if Counter(map(_name, a)) != Counter(map(_name, b)):
        detail = f"{len(a)} and {len(b)} of them" if len(a) != len(b) else "others"
        return replace(found, cause="tools", detail=detail)
    if moved is None:
        return found
    same = Counter(as_json(tool, ordered=True) for tool in a) == Counter(as_json(tool, ordered=True) for tool in b)
    names = str(_name(a[moved])), str(_name(b[moved]))
    detail = f"first moved: position {moved}"
    return replace(
        found, cause="tool_order", moved=moved, detail=detail, left=names[0], right=names[1], shared="", alone=same
    )


def _name(tool: Any) -> str:
    """Return what a tool is called, or all of it where it has no name."""
    if isinstance(tool, Mapping):
        function = tool.get("function")
        name = function.get("name") if isinstance(function, Mapping) else tool.get("name")
        if isinstance(name, str):
            return name
    return as_json(tool, ordered=True)
