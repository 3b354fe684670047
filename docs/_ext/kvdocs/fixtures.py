"""Fixtures, from the sources of ``plugin/fixtures.py``: what each is, and what it is made of."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from pytest_kvcache.plugin import fixtures

from .markup import code, table


def listed() -> str:
    """Return a table of the fixtures and, for each, the whole of what its docstring says."""
    found = list(_fixtures())
    rows = [(f"[`{each.name}`](#{each.name.replace('_', '-')})", _gives(each), _scope(each)) for each in found]
    return "\n\n".join((table(("fixture", "gives", "lives for a"), rows), *map(_section, found)))


def _fixtures() -> Iterator[ast.FunctionDef]:
    for node in ast.parse(inspect.getsource(fixtures)).body:
        if isinstance(node, ast.FunctionDef) and any("pytest.fixture" in ast.unparse(d) for d in node.decorator_list):
            yield node


def _section(each: ast.FunctionDef) -> str:
    anchor = each.name.replace("_", "-")
    parts = [f"({anchor})=\n## `{each.name}`", (ast.get_docstring(each) or "").replace("``", "`")]
    used = ", ".join(code(argument.arg) for argument in each.args.args if argument.arg.startswith("kv"))
    if used:
        parts.append(f"Made of {used}: a conftest that overrides one of them changes this one too.")
    return "\n\n".join(parts)


def _scope(each: ast.FunctionDef) -> str:
    for decorator in each.decorator_list:
        for keyword in getattr(decorator, "keywords", ()):
            if keyword.arg == "scope":
                return str(ast.literal_eval(keyword.value))
    return "function"


def _gives(each: ast.FunctionDef) -> str:
    given = "" if each.returns is None else ast.unparse(each.returns)
    return code(given.removeprefix("Iterator[").removesuffix("]"))
