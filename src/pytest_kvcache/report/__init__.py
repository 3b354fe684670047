"""What to tell: one plain record per test, from which every form of report is made."""

from __future__ import annotations

from typing import Any


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the document that ``--kv-report`` writes; ``schema.json`` beside this file.

    It lets keys be added: a reader ignores those that it does not know.
    """
    import json
    from importlib.resources import files

    found: dict[str, Any] = json.loads(files(__name__).joinpath("schema.json").read_text(encoding="utf-8"))
    return found
