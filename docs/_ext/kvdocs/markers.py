"""Markers, from their signatures and docstrings in ``plugin/markers.py``."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, get_args

from pytest_kvcache import model
from pytest_kvcache.plugin import markers
from pytest_kvcache.slo import asked

from .markup import code, from_docstring, table


def listed() -> str:
    """Return a section for each marker: its signature, what it asks, its arguments."""
    return "\n\n".join(map(_section, markers.help_lines()))


def _section(line: str) -> str:
    signature, _, prose = line.partition("): ")
    name = signature.partition("(")[0]
    function: Callable[..., object] = getattr(markers, name)
    return "\n\n".join(
        (
            f"## `{name}`",
            f"```text\n{_wrapped(f'@pytest.mark.{signature})')}\n```",
            from_docstring(prose),
            table(("argument", "values", "default"), map(_row, inspect.signature(function).parameters.values())),
        )
    )


def _wrapped(signature: str) -> str:
    indent = " " * (signature.index("(") + 1)
    return textwrap.fill(signature, 90, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _row(parameter: inspect.Parameter) -> tuple[str, str, str]:
    if parameter.kind is parameter.VAR_KEYWORD:
        return code(f"{parameter.name}..."), _values(parameter.annotation), "not asked"
    default = "must be given" if parameter.default is parameter.empty else code(repr(parameter.default))
    return code(parameter.name), _values(parameter.annotation), default


def _values(annotation: Any) -> str:
    """Return what may be given: the words themselves where the annotation is a name for some."""
    words = next(filter(None, (get_args(getattr(room, str(annotation), None)) for room in (model, asked))), ())
    return ", ".join(code(repr(word)) for word in words) or code(str(annotation))
