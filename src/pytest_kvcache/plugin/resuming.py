"""Was this measured before? Then the test ends with the result that it had.

What an earlier session measured is known only when a test measures for the first time: until then nobody knows the
workload. So a test begins as always, and its first measured run ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from .fingerprint import Fingerprint, Untold

if TYPE_CHECKING:
    from ..endpoint import Endpoint
    from ..model import ServerFacts
    from .settings import Settings
    from .state import TestState
    from .store import Result


class Restored(pytest.fail.Exception):  # type: ignore[name-defined,misc] # a class, which its type does not say
    """Ends a test that was measured before; of pytest's own kind, so that it can end a fixture. No ``Exception``."""


@dataclass(slots=True)
class Attempt:
    """What is known of one attempt of a test, as far as its results are kept.

    Attributes:
        nodeid: of the test.
        number: 1, or more when it is run again because it failed.
        test: what is known of it before it runs; or why nothing is.
        before: its results of earlier sessions, oldest first.
        sim: the endpoint is an engine of our own, at another port in every session.
        fixtures: makes what is known of the values of its fixtures.
        runs: fingerprints of what it has measured so far.
        restored: the result that it ends with.
        again: why it is measured although it was before; empty: it was not.
        untold: why nothing can tell that it was.
        endpoint: that it measures.
    """

    nodeid: str
    number: int
    test: object | Untold
    before: Sequence[Result]
    sim: bool = False
    fixtures: Callable[[], object] = dict
    runs: list[Fingerprint | None] = field(default_factory=list)
    restored: Result | None = None
    again: str = ""
    untold: str = ""
    endpoint: Endpoint | None = None

    def begin(self, endpoint: Endpoint, run: Fingerprint | Untold) -> None:
        """Note that a run is about to be measured.

        Raises:
            Restored: it need not be.
        """
        if self.restored is not None:  # another run of the test has found it
            raise Restored
        self.endpoint = endpoint
        self.runs.append(run if isinstance(run, Fingerprint) else None)
        if isinstance(run, Untold):
            self.untold = self.untold or str(run)
        elif len(self.runs) == 1 and self.before:
            self._look(run)

    def _look(self, run: Fingerprint) -> None:
        same = [result for result in self.before if result.fingerprints[:1] == [run.whole]]
        if not same:
            self.again = f"another {' and '.join(run.changed(self.before[-1].parts)) or 'test'}"
        elif not same[-1].judged:
            verdict = same[-1].record["verdict"]
            self.again = verdict if verdict == "inconclusive" else same[-1].outcome
        elif same[-1].outcome == "passed" or self.number <= same[-1].attempt:
            self.restored = same[-1]
            raise Restored


def measured_before(
    state: TestState,
    endpoint: Endpoint,
    kind: str,
    facts: ServerFacts,
    *,
    arguments: Mapping[str, object] | None = None,
    workload: object = None,
    settings: Settings | None = None,
) -> None:
    """End a test whose first measured run is one that was measured before, and note every other one.

    To be called when the endpoint has been looked at and before anything is sent to it.

    Args:
        state: of the test.
        endpoint: where.
        kind: of the run: ``run``, ``replay``, ``steps``, ...
        facts: what the endpoint tells about itself.
        arguments: what the run comes to, without anything random or of this session.
        workload: its description; None: the test's own traffic.
        settings: None where they decide nothing: own traffic.

    Raises:
        Restored: nothing is to be measured.
    """
    attempt = state.resume
    if attempt is None:
        return
    from .decided import fingerprint

    run: Fingerprint | Untold
    try:
        if isinstance(attempt.test, Untold):
            raise attempt.test
        run = fingerprint(
            attempt.nodeid,
            {"test": attempt.test, "fixtures": attempt.fixtures()},
            len(attempt.runs) + 1,
            kind,
            endpoint,
            facts,
            arguments=arguments or {},
            workload=workload,
            settings=settings,
            sim=attempt.sim,
            baseline=None if state.comparison is None else state.comparison.decides,
        )
    except Untold as error:
        run = error
    attempt.begin(endpoint, run)
