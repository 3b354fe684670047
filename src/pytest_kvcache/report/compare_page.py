"""A comparison of two sessions to one page that needs nothing else: it asks no network, and draws nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..regression.metrics import METRICS
from . import side_by_side
from .html.skeleton import render


def page(found: Mapping[str, Any]) -> str:
    """Return the HTML of :func:`pytest_kvcache.regression.compare.side_by_side`."""
    return render(
        "compare.html",
        title=f"kvcache: {found['old']['name']} -> {found['new']['name']}",
        found=found,
        summary=side_by_side.summary(found),
        changed=side_by_side.changed(found["checks"]),
        remarks=side_by_side.remarks,
        shown=side_by_side.shown,
        metrics=METRICS,
        words=side_by_side.WORDS,
    )
