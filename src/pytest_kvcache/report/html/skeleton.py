"""A template to a page with all that it needs inside: styles, code, data, the library that draws. For all our pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from ..text import visible
from . import embed
from .blocks import Section

_HERE = files(__package__ or "")
_CODE = ("sections.js", "charts.js", "checks.js", "start.js")


def render(
    template: str, *, sections: Sequence[Section] | None = None, data: Mapping[str, Any] | None = None, **context: Any
) -> str:
    """Return a page.

    Args:
        template: in ``templates/``; it extends ``page.html``.
        sections: what is drawn under ``<div data-sections>``, as of :mod:`.blocks`; None: nothing is drawn on it, and
            it goes without the code that does.
        data: further JSON of the page by the id of its element.
        context: names of the template.
    """
    scripts = {"theme": _static("theme.js")} | (_drawing() if sections is not None else {})
    scripts = {name: f"\n{script.replace(chr(13), '')}\n" for name, script in scripts.items()}
    blocks = {**({} if sections is None else {"sections": sections}), **(data or {})}
    return (
        _environment()
        .get_template(template)
        .render(
            context,
            policy=embed.policy(scripts.values()),
            styles=Markup(_static("page.css")),
            scripts={name: Markup(script) for name, script in scripts.items()},
            data={name: Markup(embed.data(block)) for name, block in blocks.items()},
        )
    )


def _drawing() -> dict[str, str]:
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped, import-not-found, unused-ignore] # no types

    return {"plotly": get_plotlyjs(), "code": "\n".join(map(_static, _CODE))}


def _static(name: str) -> str:
    return (_HERE / "static" / name).read_text(encoding="utf-8")


def _template(name: str) -> str:
    return (_HERE / "templates" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )


def _shown(value: Any) -> Any:
    """Return what a template prints: nothing hidden in it, and nothing that no file can hold."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
