"""Which curves have the tests of a session swept, and whose are they?

``kv_trace`` is shared by the tests of a file, so a trace does not know who sweeps it. Here it is known: the fixture
that is being made, or else the test that runs. The curve of a fixture that several tests share belongs to their file,
class or folder, and is the same whichever test came first, and in however many workers.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..capacity.curve import Curve
    from ..report.plain import Record

_ATTRIBUTE = "kvcache_curves"  # on a TestReport: only what one carries crosses from a worker to the controller


class Curves:
    """Takes every curve as it is swept; on the controller it has those of all workers."""

    NAME = "kvcache-curves"

    def __init__(self) -> None:
        self._owners = [""]
        self._new: list[Record] = []
        self._kept: dict[str, dict[str, Record]] = {}

    def take(self, curve: Curve) -> None:
        """Note a curve that was swept."""
        from ..capacity.outline import outline
        from ..report.text import visible

        found = outline(curve)
        found["name"] = visible(found["name"])
        self._new.append({"nodeid": visible(self._owners[-1]), **found})

    def told(self) -> list[Record]:
        """Return all curves in an order that is always the same; of a test that was rerun those of the last attempt."""
        self._keep(self._new)  # of a test that was interrupted
        return [curve for _, curves in sorted(self._kept.items()) for _, curve in sorted(curves.items(), key=_rank)]

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, request: pytest.FixtureRequest) -> Generator[None, object, object]:
        """Know whose fixture is being made."""
        self._owners.append(request.node.nodeid)
        try:
            return (yield)
        finally:
            self._owners.pop()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Know which test runs."""
        self._owners.append(item.nodeid)
        try:
            return (yield)
        finally:
            self._owners.pop()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let what was swept travel with the next report."""
        report = yield
        if self._new:
            setattr(report, _ATTRIBUTE, self._new)
            self._new = []
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the curves that a report carries."""
        if report.when == "setup":  # what an earlier attempt swept is gone
            self._kept.pop(report.nodeid, None)
        self._keep(getattr(report, _ATTRIBUTE, ()))

    def _keep(self, curves: Any) -> None:
        for curve in curves:
            self._kept.setdefault(curve["nodeid"], {})[json.dumps(curve)] = curve


def _rank(written: tuple[str, Record]) -> tuple[str, str, str]:
    text, curve = written
    return curve["name"], curve["policy"], text
