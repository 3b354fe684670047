"""The ready-made checks of ``pytest_kvcache.suite``: how pytest finds them, and what they are asked."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from .keys import SETTINGS

_SUITE = Path(__file__).parent.parent / "suite"
_PACKAGE = "pytest_kvcache/suite"


class CheckFile(pytest.Module):
    """A file of the suite, found whatever the project calls its own test files and functions.

    Its tests are named ``pytest_kvcache/suite/smoke.py::...`` wherever it is installed, so that results of two machines
    can be compared.
    """

    def funcnamefilter(self, name: str) -> bool:
        """Tell whether a function is a test."""
        return name.startswith("test_")

    def classnamefilter(self, name: str) -> bool:  # noqa: ARG002 - as pytest calls it
        """Tell whether a class is one: none is."""
        return False

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Return the tests, each with the marks that the settings ask for."""
        from ..suite.asked import CHECKS, given

        asked = given(self.config.stash[SETTINGS].parameters, CHECKS[self.path.stem])
        marks = getattr(self.obj, "marks", None)
        for item in super().collect():
            for mark in marks(asked, getattr(item, "originalname", item.name)) if marks is not None else ():
                item.add_marker(mark)
            yield item


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Collect the checks, and nothing else of their folder."""
    collectors = yield
    if file_path.parent != _SUITE:
        return collectors
    from ..suite.asked import CHECKS

    if file_path.stem not in CHECKS:
        return []
    return [CheckFile.from_parent(parent, path=file_path, nodeid=f"{_PACKAGE}/{file_path.name}")]


def show_parameters() -> None:
    """Write what ``--kv-params`` shows."""
    from ..suite.asked import help_lines

    sys.stdout.write("\n".join(help_lines()) + "\n")
