"""How far a run is: a bar on a terminal, a line every ten seconds elsewhere, nothing under ``-q`` or on a worker."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..model import Level, Phase

_LINE_EVERY = 10.0
_BAR_EVERY = 0.1
_WIDTH = 30


class Progress:
    """Called after each request, or with :meth:`load` as often as wanted while a level is kept for a time.

    Args:
        config: whose terminal and verbosity.
        name: of the test.
    """

    def __init__(self, config: pytest.Config, name: str) -> None:
        self._name = name
        self._capture = config.pluginmanager.getplugin("capturemanager")
        self._terminal = config.pluginmanager.getplugin("terminalreporter")
        tty = self._terminal is not None and bool(getattr(self._terminal, "isatty", False))
        self._live = tty and os.environ.get("TERM") != "dumb"
        self._next = time.monotonic() + (0.0 if self._live else _LINE_EVERY)
        self._shown = 0  # characters of the bar that stands on the terminal
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
        if not self._live:
            self._write(f"\n{text}")
            return
        filled = min(_WIDTH, int(_WIDTH * share))
        bar = f"{text} [{'#' * filled}{'.' * (_WIDTH - filled)}]"
        self._write(f"\r{bar.ljust(self._shown)}")  # what was longer before does not stay behind it
        self._shown = len(bar)

    def close(self) -> None:
        """Take the bar off the terminal."""
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = 0

    def _write(self, text: str) -> None:
        if self._terminal is None:
            return
        if self._capture is not None:
            with self._capture.global_and_fixture_disabled():
                self._terminal.write(text, flush=True)
        else:
            self._terminal.write(text, flush=True)
