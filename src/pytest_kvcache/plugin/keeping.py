"""Hooks that keep the results of tests as they end, and give those that were measured before the result they had."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from typing import Any

import pytest

from ..errors import ConfigurationError
from . import ending
from .fingerprint import Untold
from .keys import RECORD, SETTINGS, STATE
from .resuming import Attempt, Restored
from .session import SECTION
from .settings import SIM
from .store import Before, Result, Store, can_be_written
from .tally import KEPT


class Keeper:
    """Keeps the results of a process that runs tests; its hooks are around those of ``Runtime``.

    Args:
        config: with a folder for results.

    Raises:
        ConfigurationError: it cannot be written.
    """

    NAME = "kvcache-results"

    def __init__(self, config: pytest.Config) -> None:
        worker: Mapping[str, Any] = getattr(config, "workerinput", {})
        settings = config.stash[SETTINGS]
        if settings.results is None:
            raise ValueError("there is no folder for results")
        if not can_be_written(settings.results):
            raise ConfigurationError(f"--kv-results: nothing can be written to {settings.results}")
        session = worker.get("testrunuid", os.urandom(16).hex())
        self._config = config
        self._resume = settings.resume
        self._store = Store(settings.results, str(session), str(worker.get("workerid", "main")))
        self._before = Before()
        self._code: dict[object, list[str]] = {}

    def pytest_collection_finish(self) -> None:
        """Read what there is before any test runs."""
        if self._resume:
            self._before = Before.read(self._store.folder, self._store.session)

    def pytest_unconfigure(self) -> None:
        """Close the file."""
        self._store.close()

    def attempt(self, item: pytest.Item, number: int) -> Attempt:
        """Return what is known of a test that is about to run."""
        from .decided import fixture_values, test_part

        test: object
        try:
            test = test_part(item, self._code)
        except Untold as error:
            test = Untold(f"its test holds {error}")
        sim = self._config.stash[SETTINGS].endpoint == SIM
        before = self._before.results.get(item.nodeid, ())
        return Attempt(item.nodeid, number, test, before, sim, partial(fixture_values, item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, None, None]:
        """Let a fixture that measures end its test, too."""
        with suppress(Restored):
            yield

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Leave out the body of a test that a fixture has ended."""
        return True if _restored(pyfuncitem) is not None else None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """End a test that was measured before as it ended then, whatever its body made of that."""
        result = None
        try:
            result = yield
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException:
            if _restored(item) is None:
                raise
        before = _restored(item)
        if before is None:
            return result
        item.stash[RECORD] = before.record
        item.user_properties[:] = [(name, value) for name, value in before.properties]
        if before.outcome == "failed":
            raise ending.failure(before)
        return None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the result of a test that was measured, and show that of one that was before."""
        report = yield
        state = item.stash.get(STATE, None)
        if call.when != "call" or state is None or state.resume is None:
            return report
        attempt, state.resume = state.resume, None  # what its fixtures do from here on is not the test
        lost = ""
        if attempt.restored is not None:
            self._show(report, attempt.restored, failed=call.excinfo is not None)
        elif attempt.runs and RECORD in item.stash:
            try:
                self._store.append(self._result(item, call, report, attempt))
            except OSError as error:
                lost = error.strerror or str(error)
        else:
            return report
        kept = {
            "before": attempt.restored is not None,
            "again": attempt.again,
            "untold": attempt.untold,
            "lost": lost,
            "unused": self._before.told(self._store.folder),
        }
        setattr(report, KEPT, kept)
        return report

    def _result(
        self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, attempt: Attempt
    ) -> Result:
        raised = None if call.excinfo is None else call.excinfo.value
        outcome = ending.outcome(raised)
        hide = attempt.endpoint.redact if attempt.endpoint is not None else str
        shown = None
        if outcome == "failed":
            shown = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)["longrepr"]
        first = attempt.runs[0]
        return Result(
            nodeid=attempt.nodeid,
            attempt=attempt.number,
            session=self._store.session,
            worker=self._store.worker,
            ended=datetime.now(timezone.utc).isoformat(timespec="microseconds"),
            fingerprints=[None if run is None else run.whole for run in attempt.runs],
            parts={} if first is None else dict(first.parts),
            outcome=outcome,
            raised="" if raised is None else ending.name(type(raised)),
            text=hide(str(raised)) if outcome == "failed" else "",
            failure=ending.shown(shown, hide),
            duration=report.duration,
            record=item.stash[RECORD],
            properties=[[name, ending.plain(value, hide)] for name, value in item.user_properties],
        )

    def _show(self, report: pytest.TestReport, before: Result, *, failed: bool) -> None:
        from ..report import terminal

        lines = [terminal.section(before.record), f"  measured before: ended {before.ended}, in {self._store.folder}"]
        report.sections = [*(s for s in report.sections if s[0] != SECTION), (SECTION, "\n".join(lines))]
        report.duration = before.duration
        if failed and before.failure is not None:
            hook = self._config.hook
            data = hook.pytest_report_to_serializable(config=self._config, report=report)
            try:
                same = hook.pytest_report_from_serializable(
                    config=self._config, data={**data, "longrepr": before.failure}
                )
            except Exception:  # another version of pytest may have another form; what it says is shown anyway
                return
            report.longrepr = same.longrepr


def _restored(item: pytest.Item) -> Result | None:
    state = item.stash.get(STATE, None)
    return None if state is None or state.resume is None else state.resume.restored
