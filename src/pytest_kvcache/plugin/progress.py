"""How far a run is: a bar on a terminal, a line every ten seconds elsewhere, nothing under ``-q`` or on a worker."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import pytest

from ..report.text import fitting, visible, width

if TYPE_CHECKING:
    from ..model import Level, Phase

_LINE_EVERY = 10.0
_BAR_EVERY = 0.1
_WIDTH = 30
_COLUMNS = 80  # of a terminal that does not know, such as a serial line
_LEAST = 8  # cells of a bar; a shorter one tells nothing

# The bar stands below pytest's own line and the cursor goes back to where it was, so that neither the dots on that line
# nor what pytest knows of its column are lost: make room below (IND, up), save, down, erase; and restore at the end.
_BELOW = "\x1bD\x1b[A\x1b7\r\n\x1b[K"
_BACK = "\x1b8"


class Progress:
    """Called after each request, or with :meth:`load` as often as wanted while a level is kept for a time.

    Args:
        config: whose terminal and verbosity.
        name: of the test.
    """

    def __init__(self, config: pytest.Config, name: str) -> None:
        self._name = visible(name)
        self._capture = config.pluginmanager.getplugin("capturemanager")
        self._terminal = config.pluginmanager.getplugin("terminalreporter")
        tty = self._terminal is not None and bool(getattr(self._terminal, "isatty", False))
        self._live = tty and _draws()
        self._next = time.monotonic() + (0.0 if self._live else _LINE_EVERY)
        self._shown = False
        self._whole = self._left = 0.0  # seconds of what is going on

    @classmethod
    def of(cls, config: pytest.Config, name: str) -> Progress | None:
        """Return a progress display, None where none is wanted."""
        if hasattr(config, "workerinput") or config.get_verbosity() < 0:
            return None
        return cls(config, name)

    def __call__(self, phase: Phase, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` requests of a phase have ended; of a load that lasts, 0: see :meth:`load`."""
        if total:
            self._show(f"{phase} {done}/{total}", done / total)

    def load(self, level: Level, seconds_left: float, done: int, *, period: int | None = None) -> None:
        """Show what is asked of the client, and how long for.

        Args:
            level: the current one.
            seconds_left: until it ends, or the search that it is part of.
            done: requests that have ended in that time.
            period: number of the assessment period, from 1.
        """
        left = max(0.0, seconds_left)
        if left > self._left:  # a new level: the bar starts anew
            self._whole = left
        self._left = left
        number = "" if period is None else f", period {period}"
        self._show(
            f"{level}{number}, {left:.0f} s left, {done} requests", 1 - left / self._whole if self._whole else 1.0
        )

    def _show(self, what: str, share: float) -> None:
        now = time.monotonic()
        if now < self._next or self._terminal is None:
            return
        self._next = now + (_BAR_EVERY if self._live else _LINE_EVERY)
        text = f"{self._name}: {what}"
        if self._live:
            self._draw(text, share)
            self._shown = True
        else:
            with self._uncaptured():
                self._terminal.write_line(fitting(text, sys.stdout.encoding))
                self._terminal.flush()

    def close(self) -> None:
        """Take the bar off the terminal."""
        if self._shown:
            self._draw()
            self._shown = False

    def _draw(self, text: str = "", share: float = 0.0) -> None:
        with self._uncaptured():  # else there is no terminal whose width could be asked for
            self._terminal.flush()
            columns = shutil.get_terminal_size().columns or _COLUMNS
            bar = _bar(fitting(text, sys.stdout.encoding), share, columns - 1)
            print(_BELOW + bar + _BACK, end="", flush=True)  # noqa: T201 - on a terminal

    def _uncaptured(self) -> AbstractContextManager[None]:
        if self._capture is None:
            return nullcontext()
        uncaptured: AbstractContextManager[None] = self._capture.global_and_fixture_disabled()
        return uncaptured


def _draws(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a terminal obeys the cursor's commands and somebody looks: the log of a CI job keeps every frame."""
    in_ci = any(environ.get(name) for name in ("CI", "BUILD_NUMBER"))  # as pytest tells it
    return environ.get("TERM", "dumb") not in ("", "dumb", "unknown") and not in_ci


def _bar(text: str, share: float, columns: int) -> str:
    """Return a line that a terminal does not wrap: without a bar, or cut, where it is narrow; nothing of no text."""
    if not text:
        return ""
    cells = min(_WIDTH, columns - width(text) - 3)
    if cells < _LEAST:
        while text and width(text) > columns:
            text = text[1:]  # how far it is stands at the end
        return text
    filled = min(cells, int(cells * share))
    return f"{text} [{'#' * filled}{'.' * (cells - filled)}]"
