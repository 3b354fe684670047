"""The reference pages: where a page says ``{kv-generated} NAME``, what the code tells of NAME takes that place.

Nothing generated is checked in. A page holds a fenced block ``{kv-generated} NAME`` without content; each NAME is a
function of this package that reads the code (signatures, option tables, profiles, the schema) and returns Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import api, engines, findings, fixtures, markers, options, outputs, pages, parameters, simulator

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

GENERATORS: dict[str, Callable[[], str]] = {
    "api": api.public,
    "engines": engines.overview,
    "engine-details": engines.details,
    "errors": api.errors,
    "findings": findings.listed,
    "fixtures": fixtures.listed,
    "further-pages": pages.further,
    "junit": outputs.junit,
    "markers": markers.listed,
    "options": options.listed,
    "parameters": parameters.listed,
    "schema": outputs.keys,
    "simulator": simulator.listed,
}
_BLOCK = re.compile(r"^```\{kv-generated\} (\S+)\n```$", re.MULTILINE)


def filled(text: str) -> str:
    """Return the source of a page with its generated parts in place.

    Raises:
        KeyError: a part that nobody generates.
    """
    return _BLOCK.sub(lambda block: GENERATORS[block[1]]().strip(), text)


def _read(_app: Sphinx, _page: str, source: list[str]) -> None:
    source[0] = pages.inside(filled(source[0]))


def _as_prose(_app: Sphinx, what: str, _name: str, _held: object, _options: object, lines: list[str]) -> None:
    """Keep napoleon from taking what stands before a colon in the docstring of a property for its type."""
    if what in ("attribute", "property"):
        lines[:0] = ["..", ""]  # an empty comment


def _outdated(_app: Sphinx, env: BuildEnvironment, *_: object) -> list[str]:
    """Return the pages that follow the code, and so are read again in every build."""
    return [page for page in env.found_docs if _BLOCK.search(Path(env.doc2path(page)).read_text(encoding="utf-8"))]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", _read)
    app.connect("env-get-outdated", _outdated)
    app.connect("autodoc-process-docstring", _as_prose, priority=400)  # before napoleon, which has 500
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
