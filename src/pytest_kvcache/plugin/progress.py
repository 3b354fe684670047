"""How far a run is: a bar on a terminal, a line every ten seconds elsewhere, nothing under ``-q`` or on a worker."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..model import Phase

_LINE_EVERY = 10.0
_BAR_EVERY = 0.1
_WIDTH = 30


class Progress:
    """Called after each request.

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
        self._shown = False

    @classmethod
    def of(cls, config: pytest.Config, name: str) -> Progress | None:
        """Return a progress display, None where none is wanted."""
        if hasattr(config, "workerinput") or config.get_verbosity() < 0:
            return None
        return cls(config, name)

    def __call__(self, phase: Phase, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` requests of a phase have ended."""
        now = time.monotonic()
        if now < self._next or self._terminal is None:
            return
        self._next = now + (_BAR_EVERY if self._live else _LINE_EVERY)
        text = f"{self._name}: {phase} {done}/{total}"
        if self._live:
            filled = _WIDTH * done // max(1, total)
            self._write(f"\r{text} [{'#' * filled}{'.' * (_WIDTH - filled)}]")
            self._shown = True
        else:
            self._write(f"\n{text}")

    def close(self) -> None:
        """Take the bar off the terminal."""
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = False

    def _write(self, text: str) -> None:
        if self._terminal is None:
            return
        if self._capture is not None:
            with self._capture.global_and_fixture_disabled():
                self._terminal.write(text, flush=True)
        else:
            self._terminal.write(text, flush=True)
