"""A pytester that runs the plugin as a user's project would."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

# Inner runs forget every module that they import first; these are heavy, so the outer run imports them once.
import pytest_kvcache.experiment
import pytest_kvcache.plugin.lock
import pytest_kvcache.report.document
import pytest_kvcache.report.junit
import pytest_kvcache.report.markdown
import pytest_kvcache.report.terminal
import pytest_kvcache.result
import pytest_kvcache.workloads.tokens  # noqa: F401 - as above

from .. import documents

# pytest-asyncio 0.24 leaves event loops of its own open; whichever test runs when they are collected would be blamed.
OLD_ASYNCIO = tuple(map(int, version("pytest-asyncio").split(".")[:2])) < (0, 25)
LEAKS = "\n    ignore::pytest.PytestUnraisableExceptionWarning" if OLD_ASYNCIO else ""

Run = Callable[..., pytest.RunResult]

PASSING = """
import pytest

@pytest.mark.hit_rate(target=0.5, tol=0.0)
def test_shared(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests=8, input_len=256, hit_rate=0.5, prefixes=2, output_len=2))
"""
FAILING = PASSING.replace("target=0.5", "target=0.9")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the developer's own reaches the inner runs, nor code of a file that was written anew since.

    Byte code is told by size and second: a file that is changed within one is not seen to be another.
    """
    import os

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in list(os.environ):
        if name.startswith("PYTEST_KV_") or name in ("OPENAI_API_KEY", "PYTEST_ADDOPTS", "GITHUB_STEP_SUMMARY"):
            monkeypatch.delenv(name)


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Run pytest with warnings as errors; each argument is one command-line word. A document must fit its schema."""
    pytester.makeini(f"[pytest]\nasyncio_default_fixture_loop_scope = function\nfilterwarnings =\n    error{LEAKS}\n")

    def run_(*arguments: str) -> pytest.RunResult:
        unused = ["cacheprovider", "hypothesispytest"]
        if not any(str(argument).startswith("--reruns") for argument in arguments):
            unused.append("rerunfailures")  # as of 16.7 it leaves a socket open, and a process has a thousand
        blocked = [word for name in unused for word in ("-p", f"no:{name}")]
        result = pytester.runpytest_inprocess(*blocked, *arguments)
        for word in map(str, arguments):
            option, _, path = word.partition("=")
            if option == "--kv-report" and (pytester.path / path).is_file():
                documents.validate(pytester.path / path)
        return result

    return run_


def properties(path: Path) -> dict[str, dict[str, str]]:
    """Return the JUnit properties of each test case, by its name."""
    cases = ET.parse(path).getroot().iter("testcase")
    return {
        str(case.get("name")): {str(p.get("name")): str(p.get("value")) for p in case.iter("property")}
        for case in cases
    }
