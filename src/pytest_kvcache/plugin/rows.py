"""Rows of requests: each process writes those of its tests as they end, and the session makes one table of them."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from . import redacting
from .keys import STATE

if TYPE_CHECKING:
    from ..report.plain import Record
    from ..report.sheets.parts import Part, Place

_ATTRIBUTE = "kvcache_rows"  # on a TestReport: only what one carries crosses from a worker to the controller
_INPUT = "kvcache_rows"  # of a worker: the session
_PLACE = pytest.StashKey[tuple[Any, ...]]()
REQUESTS = "requests.csv"


class Rows:
    """Writes the rows of every test that ends in this process, and on the controller knows where those of all are.

    Args:
        config: of this process.
        folder: of the tables.
    """

    NAME = "kvcache-rows"

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        worker = getattr(config, "workerinput", {})
        self._folder = folder
        self._session: str = worker.get(_INPUT) or os.urandom(8).hex()
        self._worker = str(worker.get("workerid", "main"))
        self._own: Part | None = None
        self._places: dict[str, Place] = {}
        self._lost: dict[str, str] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Let a worker know whose part it writes."""
        node.workerinput[_INPUT] = self._session

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Write the rows of a test when its body has ended, however it has."""
        try:
            return (yield)
        finally:
            if STATE in item.stash:
                place = item.stash[_PLACE] = tuple(self._written(item))  # a plain one can cross
                self._take(item.nodeid, place)  # of a test that is interrupted there is no report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let the place of the rows travel with the report of the test."""
        report = yield
        if call.when == "call" and _PLACE in item.stash:
            setattr(report, _ATTRIBUTE, item.stash[_PLACE])
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Learn where the rows of a test are; of one that was rerun those of its last attempt."""
        place = getattr(report, _ATTRIBUTE, None)
        if place is not None:
            self._take(report.nodeid, place)

    def pytest_unconfigure(self) -> None:
        """Close the part."""
        if self._own is not None:
            self._own.close()

    def write(self, to: BinaryIO, checks: list[Record]) -> list[str]:
        """Write the table, test by test, and return what is to be told of it.

        Args:
            to: receives it.
            checks: of the document.

        Raises:
            OSError: it cannot be written.
        """
        from ..report.sheets import parts

        here = {nodeid: [place] for nodeid, place in self._places.items() if place.rows}
        sent = [check for check in checks if sum(map(_of_run, check["runs"])) and check["nodeid"] not in self._lost]
        places = here | self._before([check for check in sent if check["nodeid"] not in here])
        ordered = chain.from_iterable(places[nodeid] for nodeid in sorted(places))
        away = parts.joined(self._folder / parts.FOLDER, ordered, to)
        gone = sum(check["nodeid"] not in places for check in sent)
        return [line for line in (_told(away, _AWAY), _told(gone, _GONE), *sorted(set(self._lost.values()))) if line]

    def clear(self) -> None:
        """Remove the parts of this session."""
        from ..report.sheets import parts

        folder = self._folder / parts.FOLDER
        self.pytest_unconfigure()
        for path in folder.glob(f"{self._session}.*.csv"):
            with suppress(OSError):
                path.unlink()
        with suppress(OSError):  # other sessions may have theirs there
            folder.rmdir()

    def _written(self, item: pytest.Item) -> tuple[Any, ...]:
        from ..report.sheets import requests

        runs, hidden = enumerate(item.stash[STATE].measurements, 1), redacting.of(item)
        try:
            return self._part().append(
                chain.from_iterable(requests.rows(item.nodeid, number, measured, hidden) for number, measured in runs)
            )
        except OSError as error:
            return (error.strerror or str(error),)

    def _take(self, nodeid: str, place: tuple[Any, ...]) -> None:
        from ..report.sheets.parts import Place
        from ..report.text import visible

        nodeid = visible(nodeid)  # as in the document
        self._places.pop(nodeid, None)
        self._lost.pop(nodeid, None)
        if len(place) == 1:
            self._lost[nodeid] = f"{REQUESTS}: rows could not be written ({place[0]})"
        else:
            self._places[nodeid] = Place(*place)

    def _part(self) -> Part:
        from ..report.sheets.parts import FOLDER, Part

        self._own = self._own or Part(self._folder / FOLDER, self._session, self._worker)
        return self._own

    def _before(self, checks: list[Record]) -> dict[str, list[Place]]:
        """Return where the rows are of tests that were measured by an earlier session: of each all runs, or nothing."""
        from ..report.sheets import parts
        from ..report.sheets.cells import text

        runs = {
            check["nodeid"]: {
                (text(check["nodeid"]), str(run.get("started"))): _of_run(run) for run in check["runs"] if _of_run(run)
            }
            for check in checks
        }
        wanted = {key: rows for several in runs.values() for key, rows in several.items()}
        found = parts.found(self._earlier(), wanted, self._part()) if wanted else {}
        return {nodeid: [found[key] for key in keys] for nodeid, keys in runs.items() if found.keys() >= keys.keys()}

    def _earlier(self) -> Iterator[Path]:
        from ..report.sheets.parts import FOLDER

        yield self._folder / REQUESTS
        for path in sorted((self._folder / FOLDER).glob("*.csv")):
            if not path.name.startswith(f"{self._session}."):
                yield path


_AWAY = f"{REQUESTS} lacks the rows of {{}}: their part is not on this machine"
_GONE = f"{REQUESTS} lacks the rows of {{}}: they were measured before, and nothing here has them"


def _told(count: int, sentence: str) -> str:
    from ..figures import plural

    return sentence.format(plural(count, "test")) if count > 0 else ""


def _of_run(run: Record) -> int:
    rows: int = run["requests"]["total"] + run["requests"]["prefill"]
    return rows
