"""A comparison of two sessions to one page that needs nothing else: no network, no script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..regression.metrics import METRICS
from . import side_by_side
from .text import visible


def page(found: Mapping[str, Any]) -> str:
    """Return the HTML of :func:`pytest_kvcache.regression.compare.side_by_side`."""
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["shown"] = side_by_side.shown
    environment.filters["remarks"] = side_by_side.remarks
    environment.filters["seen"] = visible
    environment.filters["title"] = lambda name: METRICS[name].title
    template = environment.get_template("compare_page.html.jinja")
    summary = side_by_side.summary(found)
    return template.render(found=found, summary=summary, changed=side_by_side.changed(found["checks"])) + "\n"
