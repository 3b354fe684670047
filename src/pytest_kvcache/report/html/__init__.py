"""A session's document to one page that explains itself: offline, interactive, nothing to install for who reads it.

The page is a file of its own: tables and figures as JSON, the library that draws them, and no address that it asks
anything of. What is foreign in it is text wherever it goes: Jinja escapes it in markup, :mod:`.embed` in data, the
page's own code sets it as text only, and :mod:`.charts` escapes it for Plotly, which takes some tags in labels.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

INSTALL = "pip install 'pytest-kvcache[report]'"
NEEDED = ("jinja2", "plotly")


def missing() -> list[str]:
    """Return what of the extra ``report`` is not installed, without importing any of it."""
    return [name for name in NEEDED if find_spec(name) is None]


def page(document: dict[str, Any]) -> str:
    """Return the dashboard of a session: the same document, the same text.

    Args:
        document: of :func:`pytest_kvcache.report.document.document`, or what ``--kv-report`` wrote.

    Raises:
        ImportError: the extra ``report`` is not installed.
    """
    from .dashboard import dashboard  # imports Jinja and Plotly

    return dashboard(document)
