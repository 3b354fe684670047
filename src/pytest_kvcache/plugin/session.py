"""The end of a session, on the controller only: collect records, print the table, have the files written."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from ..endpoint import without_userinfo
from .fixtures import NO_ENDPOINT
from .keys import CURVES, EVIDENCE, RECORD, SETTINGS

if TYPE_CHECKING:
    from ..report.record import Record
    from .memory import Memory
    from .settings import Settings
    from .tally import Tally

SECTION = "Captured kvcache call"  # as pytest calls what `Item.add_report_section("call", "kvcache", ...)` adds
_ATTRIBUTE = "kvcache"  # on a TestReport, because only what a report carries crosses from a worker to the controller


class SessionReport:
    """Keeps the last record of each test: of a rerun test, that of its last attempt.

    Args:
        config: of a run that is no worker.
    """

    NAME = "kvcache-session"

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._settings = config.stash[SETTINGS]
        self._records: dict[str, Record] = {}
        self._skipped = 0
        self._interrupted = False
        self._untold: list[str] = []
        self._tally = _tally(self._settings)
        self._memory = _memory(self._settings)

    @staticmethod
    def attach(item: pytest.Item, report: pytest.TestReport) -> None:
        """Let a test's record and its evidence travel with its report: those of this attempt alone."""
        record = item.stash.get(RECORD, None)
        if record is not None:
            setattr(report, _ATTRIBUTE, record)
        report.sections += item.stash.get(EVIDENCE, ())

    @classmethod
    def keep(cls, item: pytest.Item) -> None:
        """Keep the record of a test that will have no report, because the session is being interrupted."""
        session = item.config.pluginmanager.getplugin(cls.NAME)
        record = item.stash.get(RECORD, None)
        if session is not None and record is not None:
            session._records[item.nodeid] = record

    def pytest_report_header(self) -> str | None:
        """Return one line about the endpoint, when there is one or more is wanted."""
        endpoint = self._settings.endpoint
        if endpoint is None:
            return f"kvcache: {NO_ENDPOINT}" if self._config.get_verbosity() > 0 else None
        from ..report.text import fitting, visible
        from .console import encoding

        shown = {
            "endpoint": without_userinfo(endpoint),
            "engine": self._settings.engine or "auto",
            "model": self._settings.model or "auto",
            "seed": self._settings.seed if self._settings.seed is not None else "fresh nonce",
        }
        if self._settings.results is not None:
            shown["results"] = f"{self._settings.results}{' (resumed)' if self._settings.resume else ''}"
        told = "kvcache: " + ", ".join(f"{name}={value}" for name, value in shown.items())
        return fitting(visible(told), encoding())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the record that a report carries."""
        record: Record | None = getattr(report, _ATTRIBUTE, None)
        if record is not None:
            self._records[report.nodeid] = record
        if self._tally is not None:
            self._tally.take(report)
        if self._memory is not None:
            self._memory.take(report)
        if report.skipped and NO_ENDPOINT in str(report.longrepr):
            self._skipped += 1

    def pytest_keyboard_interrupt(self) -> None:
        """Remember that the session ended before its end."""
        self._interrupted = True

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print one aligned line a test, each sweep as a grid, and how many tests had no endpoint."""
        curves_ = self._curves()
        nothing = not self._records and not self._skipped and not curves_ and not self._untold
        if nothing or self._config.getoption("no_summary", False):
            return
        from ..report import curves, grid, saved, sweeps, terminal
        from ..report.text import fitting, visible
        from . import console

        quiet = self._config.get_verbosity() < 0
        every = self._ordered()
        records = [r for r in every if not quiet or r["verdict"] != "pass"]
        lines = terminal.table(records)
        if not quiet:
            lines += [line for sweep in sweeps.sweeps(records) for line in ("", *grid.grid(sweep))]
            lines += curves.table(curves_)
            lines += filter(None, [saved.session_line(saved.of_session(every), every)])
        if self._skipped:
            lines.append(f"{self._skipped} skipped: {NO_ENDPOINT}")
        if self._tally is not None:
            lines += self._tally.lines(quiet=quiet)
        if self._memory is not None:
            lines += map(visible, self._memory.lines(quiet=quiet))
        lines += map(visible, self._untold)
        if not lines:
            return
        terminalreporter.ensure_newline()  # else the first line below the title is an empty one
        terminalreporter.section("kvcache")
        for line in lines:
            terminalreporter.write_line(fitting(line, console.encoding()))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """Write the files, before the terminal tells the rest; one that cannot be is an error when all is told."""
        problems = [*self._leave(), *self._remember()]
        self._fit()
        result = yield
        if problems:
            raise pytest.UsageError("\n".join(map(str, problems)))
        return result

    def _leave(self) -> Iterator[pytest.UsageError]:
        from .leaving import leave

        try:
            self._untold = leave(self._config, self._ordered(), self._curves(), interrupted=self._interrupted)
        except pytest.UsageError as error:
            yield error

    def _remember(self) -> Iterator[pytest.UsageError]:
        try:
            if self._memory is not None:
                self._memory.write(self._ordered())
        except pytest.UsageError as error:
            yield error

    def _fit(self) -> None:
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if self._records and reporter is not None:  # what follows is only shown
            from .console import fit

            fit(r for reports in reporter.stats.values() for r in reports if hasattr(r, _ATTRIBUTE))

    def _curves(self) -> list[Record]:
        return self._config.stash[CURVES].told()

    def _ordered(self) -> list[Record]:
        return sorted(self._records.values(), key=lambda record: str(record["nodeid"]))


def _memory(settings: Settings) -> Memory | None:
    if settings.history is None and not settings.update_baseline:
        return None
    from .memory import Memory

    return Memory(settings)


def _tally(settings: Settings) -> Tally | None:
    if settings.results is None:
        return None
    from .tally import Tally

    return Tally(settings)
