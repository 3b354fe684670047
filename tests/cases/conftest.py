"""A case is played by a server, measured by a user's test, and read from the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from ..plugin.conftest import Run, _clean_environment, run  # noqa: F401 - fixtures
from .stage import Stage, playing


class Outcome(NamedTuple):
    """What a user gets to see of the only test.

    Attributes:
        check: its entry in the JSON document.
        output: the terminal.
    """

    check: dict[str, Any]
    output: str

    @property
    def verdict(self) -> str:
        return str(self.check["verdict"])

    @property
    def sentence(self) -> str:
        return str(self.check["sentence"])

    @property
    def rate(self) -> float | None:
        value: float | None = self.check["hit_rate"]["measured"]
        return value

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        return self.check["hit_tokens"], self.check["query_tokens"]

    @property
    def codes(self) -> set[str]:
        return {finding["code"] for finding in self.check["findings"]}

    def finding(self, code: str) -> str:
        """Return the sentence of a finding with its advice."""
        found = [f"{f['sentence']}; {f['advice']}" for f in self.check["findings"] if f["code"] == code]
        assert len(found) == 1, self.check["findings"]
        return found[0]


Play = Callable[[Stage], str]
Measure = Callable[..., Outcome]


def own(marker: str, requests: int = 1, run_with: str = "") -> str:
    """Return a test that sends requests of its own one after another."""
    return f"""
import pytest

@pytest.mark.hit_rate({marker})
def test_case(kv, kv_workload):
    kv.run(kv_workload.requests([{{"messages": []}}] * {requests}), concurrency=1{run_with})
"""


def shared(marker: str, workload: str, run_with: str = "") -> str:
    """Return a test that sends ``shared_prefix`` one after another."""
    return f"""
import pytest

@pytest.mark.hit_rate({marker})
def test_case(kv, kv_workload):
    kv.run(kv_workload.shared_prefix({workload}, output_len=1), concurrency=1{run_with})
"""


@pytest.fixture
def play() -> Iterator[Play]:
    """Start a server that plays a stage and get its URL."""
    with ExitStack() as stack:
        yield lambda stage: stack.enter_context(playing(stage))


@pytest.fixture
def measure(pytester: pytest.Pytester, run: Run) -> Measure:  # noqa: F811 - the fixture
    """Run one test against a URL and get what its user sees: it passed only with a verdict that says so."""

    def measure_(url: str, body: str, *words: str) -> Outcome:
        pytester.makepyfile(body)
        result = run(f"--kv-endpoint={url}", "--kv-report=out.json", "--kv-sample-interval=0", *words)
        (check,) = json.loads((pytester.path / "out.json").read_text())["checks"]
        passed = check["verdict"] == "pass"
        result.assert_outcomes(passed=int(passed), failed=int(not passed))
        assert "Traceback" not in result.stdout.str()
        return Outcome(check, result.stdout.str())

    return measure_
