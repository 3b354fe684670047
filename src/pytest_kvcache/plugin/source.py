"""Which code is a test? Its function and what that uses of its file, without the other tests of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import TypeAlias

_Def: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_MARKS = ("pytest.mark.", "mark.")
_HOOKS = ("setup", "teardown")  # called by pytest by their names


class NoSource(Exception):
    """The code of a test cannot be had."""


def code_of_test(path: Path, names: Sequence[str], fixtures: Iterable[str]) -> str:
    """Return the code that decides what a test measures and how it judges, without comments and layout.

    These are the statements of its file that bind a name which the test uses, and a name which those use, and so on;
    of its class alike. Marks are left out, because what they ask for is known from the item: a sweep can get more
    parameters without becoming another test.

    Args:
        path: of the test file.
        names: of the test: those of its classes, and of its function.
        fixtures: names of all that it uses.

    Raises:
        NoSource: the file cannot be read, or does not hold the test.
    """
    body = _parsed(path).body
    found = _used(body, names, set(fixtures))
    if not any(names[0] in _bound(statement) for statement in found):
        raise NoSource(f"{path.name} has no {names[0]}")
    return "\n".join(map(ast.dump, found))


def code_of_file(path: Path) -> str:
    """Return the code of a whole file, without comments and layout.

    Raises:
        NoSource: it cannot be read.
    """
    return ast.dump(_parsed(path))


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError) as error:
        raise NoSource(f"{path.name} cannot be read ({type(error).__name__})") from None


def _used(body: Iterable[ast.stmt], names: Sequence[str], wanted: set[str]) -> list[ast.stmt]:
    """Return the statements that a test uses, in their order."""
    wanted = {names[0], *wanted}
    left = [_trimmed(statement, names, wanted) for statement in body]
    taken: list[int] = []
    while True:
        more = [n for n, s in enumerate(left) if n not in taken and (_acts(s) or _bound(s) & wanted)]
        if not more:
            return [left[number] for number in sorted(taken)]
        taken += more
        wanted = wanted.union(*(_names(left[number]) for number in more))


def _trimmed(statement: ast.stmt, names: Sequence[str], wanted: set[str]) -> ast.stmt:
    """Return a statement; of the test itself without its marks, of its class only what the test uses of it."""
    if not isinstance(statement, _Def) or statement.name != names[0]:
        return statement
    trimmed = copy(statement)
    trimmed.decorator_list = [d for d in statement.decorator_list if not ast.unparse(d).startswith(_MARKS)]
    if isinstance(trimmed, ast.ClassDef) and len(names) > 1:
        trimmed.body = _used(statement.body, names[1:], wanted)
    return trimmed


def _acts(statement: ast.stmt) -> bool:
    """Tell whether a statement does something when its file is imported, beside binding names."""
    if isinstance(statement, _Def):
        return statement.name.startswith(_HOOKS)
    if isinstance(statement, ast.ImportFrom):
        return any(alias.name == "*" for alias in statement.names)
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)  # a docstring
    return not isinstance(statement, ast.Import | ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Pass)


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds or changes."""
    if isinstance(statement, _Def):
        return {statement.name, *_fixture_names(statement)}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.Assign):
        return set[str]().union(*map(_names, statement.targets))
    if isinstance(statement, ast.AnnAssign | ast.AugAssign):
        return _names(statement.target)
    return set()


def _fixture_names(statement: _Def) -> Iterator[str]:
    """Return what ``@pytest.fixture(name=...)`` calls a function."""
    for decorator in statement.decorator_list:
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
            if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                yield str(keyword.value.value)


def _names(node: ast.AST) -> set[str]:
    """Return every name in a piece of code, arguments too, because those are fixtures."""
    found: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found.add(inner.id)
        elif isinstance(inner, ast.Attribute):
            found.add(inner.attr)
        elif isinstance(inner, ast.arg):
            found.add(inner.arg)
    return found
