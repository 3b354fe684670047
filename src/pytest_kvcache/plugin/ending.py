"""How did the body of a test end? In a form that can be kept, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import pytest

from .store import Outcome, Result

Hide: TypeAlias = Callable[[str], str]


def outcome(raised: BaseException | None) -> Outcome:
    """Tell a judgement from an accident: an assertion or ``pytest.fail`` decides a test, any other error does not."""
    if raised is None:
        return "passed"
    if isinstance(raised, pytest.skip.Exception):
        return "skipped"
    return "failed" if isinstance(raised, (AssertionError, pytest.fail.Exception)) else "broken"


def failure(before: Result) -> BaseException:
    """Return what a test raised, of the same class, because ``xfail(raises=...)`` asks for that."""
    for kind in (pytest.fail.Exception, pytest.xfail.Exception):
        if name(kind) == before.raised:
            return kind(before.text, pytrace=False)
    same = [kind for kind in _below(AssertionError) if name(kind) == before.raised]
    try:
        return same[0].__new__(same[0], before.text)
    except (LookupError, TypeError):
        return AssertionError(before.text)


def _below(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _below(inner)


def name(kind: type) -> str:
    """Return the name of a class with that of its module."""
    return f"{kind.__module__}.{kind.__qualname__}"


def shown(failure: Any, hide: Hide, key: str = "", *, with_locals: bool = False) -> Any:
    """Return how pytest shows a failure, without secrets and, unless they are wanted, without local variables."""
    inner = partial(shown, with_locals=with_locals)
    if isinstance(failure, Mapping):
        left_out = () if with_locals else ("reprlocals",)
        return {name: None if name in left_out else inner(value, hide, name) for name, value in failure.items()}
    if isinstance(failure, (list, tuple)):
        return [inner(value, hide, key) for value in failure]
    return hide(failure) if isinstance(failure, str) and key not in ("type", "style") else failure


def plain(value: object, hide: Hide) -> Any:
    """Return the value of a property as JSON has it."""
    if isinstance(value, str):
        return hide(value)
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return hide(str(value))
