"""What cannot be written on this terminal in its encoding, in letters that can.

pytest writes such a text with every special character escaped, the ends of its lines too: a section of evidence would
be one long line. Files are not touched by this: they are UTF-8 wherever they are written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..report.text import fitting
from .session import SECTION

if TYPE_CHECKING:
    import pytest


def encoding() -> str | None:
    """Return that of the terminal, which capturing hides; None: there is no standard output."""
    return getattr(sys.__stdout__, "encoding", None)


def fit(reports: Iterable[pytest.TestReport]) -> None:
    """Change the evidence and the verdicts in reports that are shown next, and only those that cannot be shown."""
    known = encoding()
    for report in reports:
        report.sections = [(name, fitting(text, known) if name == SECTION else text) for name, text in report.sections]
        _fit_failure(report.longrepr, known)


def _fit_failure(failure: Any, known: str | None) -> None:
    place = getattr(failure, "reprcrash", None)
    if place is not None:
        place.message = fitting(place.message, known)
    for entry in getattr(getattr(failure, "reprtraceback", None), "reprentries", ()):
        entry.lines = [fitting(line, known) for line in entry.lines]
