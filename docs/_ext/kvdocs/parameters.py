"""Parameters of the ready-made checks, from the dataclasses that ``--kv-set`` follows."""

from __future__ import annotations

from pytest_kvcache.suite.asked import CHECKS, row
from pytest_kvcache.suite.kinds import parameters_of

from .markup import code, from_docstring, table


def listed() -> str:
    """Return a section for each check."""
    return "\n\n".join(_section(name, check) for name, check in CHECKS.items())


def _section(name: str, check: type[object]) -> str:
    rows = [(code(f"{name}.{cells[0]}"), *cells[1:]) for cells in map(row, parameters_of(check).values())]
    head = ("parameter", "type", "default", "meaning")
    return f"## `{name}`\n\n{from_docstring(check.__doc__)}\n\n{table(head, rows)}"
