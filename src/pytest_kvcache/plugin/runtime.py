"""The life of one test: a fresh state at setup, the verdict inside the call, the evidence in the report."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import pytest

from ..errors import ConfigurationError, KVCacheError
from . import markers, redacting
from .fixtures import NO_ENDPOINT
from .keys import ATTEMPTS, BASELINE, EVIDENCE, GRAINS, KEEPER, RECORD, RUN, SETTINGS, STATE, WARM
from .session import SECTION, SessionReport
from .state import TestState

if TYPE_CHECKING:
    from ..model import Expectation, Measurement, ResetMode, ServiceLevel, Verdict
    from ..regression.values import Entry
    from ..slo.asked import SpeedUpAsked
    from .comparison import Comparison

_ERROR = pytest.StashKey[str]()
_JUDGED = pytest.StashKey[bool]()
_EXPECTATION: pytest.StashKey[Expectation] = pytest.StashKey()
_LEVEL: pytest.StashKey[ServiceLevel | None] = pytest.StashKey()
_SPEED_UP: pytest.StashKey[SpeedUpAsked | None] = pytest.StashKey()
_COMPARISON: pytest.StashKey[Comparison | None] = pytest.StashKey()
_RESET: pytest.StashKey[ResetMode | None] = pytest.StashKey()
_TEXT = "Captured kvcache text call"
_RUNNER_FIXTURE = "kv"
_ENDPOINT_FIXTURE = "kv_endpoint"
_FIXTURES = frozenset({_RUNNER_FIXTURE, _ENDPOINT_FIXTURE, "kv_metrics"})


class Runtime:
    """Hooks around every test; each leaves at once when the test is none of ours."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Validate every marker before anything runs, and give whole-test measurements an endpoint."""
        settings = config.stash[SETTINGS]
        if settings.require and settings.endpoint is None and any(map(_is_ours, items)):
            raise pytest.UsageError(f"kvcache: kv_require is set, and there is {NO_ENDPOINT}")
        for item in items:
            try:
                expectation, reset = markers.expectation_of(item), markers.reset_of(item)
                level, speed_up = markers.service_level_of(item), markers.speed_up_of(item)
                comparison = _comparison(item)
                markers.check_sweep(item)
            except ConfigurationError as error:
                if not hasattr(config, "workerinput"):
                    raise pytest.UsageError(f"kvcache: {error}") from None
                item.stash[_ERROR] = str(error)  # a usage error would crash a worker: it fails at setup there
                continue
            item.stash[_RESET], item.stash[_LEVEL], item.stash[_SPEED_UP] = reset, level, speed_up
            item.stash[_COMPARISON] = comparison
            if expectation is not None:
                item.stash[_EXPECTATION] = expectation
            asks = expectation is not None or comparison is not None
            if asks and _ENDPOINT_FIXTURE not in _names(item) and isinstance(item, pytest.Function):
                item.fixturenames.append(_ENDPOINT_FIXTURE)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin an attempt: what an earlier one left behind is gone."""
        if _ERROR in item.stash:
            pytest.fail(f"kvcache: {item.stash[_ERROR]}", pytrace=False)
        if not _is_ours(item):
            return
        from ..report import junit

        expectation = item.stash.get(_EXPECTATION, None)
        attempt = item.stash[ATTEMPTS] = item.stash.get(ATTEMPTS, 0) + 1
        state = item.stash[STATE] = TestState(
            item.nodeid,
            expectation,
            item.config.stash[RUN],
            attempt,
            item.stash.get(_RESET, None),
            item.config.stash[WARM],
            item.config.stash[GRAINS],
            level=item.stash.get(_LEVEL, None),
            speed_up=item.stash.get(_SPEED_UP, None),
            comparison=item.stash.get(_COMPARISON, None),
        )
        keeper = item.config.stash.get(KEEPER, None)
        if keeper is not None:
            state.resume = keeper.attempt(item, attempt)
        item.user_properties[:] = [pair for pair in item.user_properties if not junit.is_ours(pair[0])]
        item.stash[EVIDENCE], item.stash[_JUDGED] = [], False
        if RECORD in item.stash:
            del item.stash[RECORD]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run the body, judge what was measured, and fail the test in its own name.

        The verdict belongs here rather than in the report: xfail, reruns and ``-x`` then see an ordinary failure.
        """
        state = item.stash.get(STATE, None)
        if state is None:
            return (yield)
        problem: str | None = None
        result: object = None
        try:
            with _whole_test(item, state):
                result = yield
        except KVCacheError as error:
            _keep_record(item, state, error)
            problem = f"inconclusive: {error}"
        except BaseException as error:  # the body's own failure, or Ctrl-C: what was measured is still told
            if state.measurements:
                _keep_record(item, state)
            else:
                _keep_probes(item, state)
            if isinstance(error, KeyboardInterrupt):
                SessionReport.keep(item)
            raise
        else:
            if state.measurements or state.asks:
                verdict = _keep_record(item, state)
                if state.asks and verdict.status != "pass":
                    problem = verdict.sentence
            else:
                _keep_probes(item, state)
        if problem is not None:
            from ..report.text import visible

            item.stash[_JUDGED] = True
            pytest.fail(redacting.of(item)(visible(problem)), pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let the record of the test travel with its report, from a worker to the controller."""
        report = yield
        if call.when == "call":
            SessionReport.attach(item, report)
            if item.stash.get(_JUDGED, False):
                _point_at(item, report)
        return report


def _point_at(item: pytest.Item, report: pytest.TestReport) -> None:
    """Let a verdict stand where its test is: what tells places (``--tb=line``) would name a file of ours."""
    place = getattr(report.longrepr, "reprcrash", None)
    if place is not None:
        place.path, place.lineno = str(item.path), (item.location[1] or 0) + 1


def _names(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


def _is_ours(item: pytest.Item) -> bool:
    marked = any(item.get_closest_marker(name) is not None for name in markers.JUDGED)
    return marked or bool(_FIXTURES.intersection(_names(item)))


def _comparison(item: pytest.Item) -> Comparison | None:
    """Return what an item's values are compared with, None when it does not ask for that.

    Raises:
        ConfigurationError: a wrong argument of its marker; names the test.
    """
    asked = markers.regression_of(item)
    if asked is None:
        return None
    from .comparison import Comparison

    return Comparison.of(item.nodeid, asked, item.config.stash[SETTINGS], item.config.stash[BASELINE])


def _whole_test(item: pytest.Item, state: TestState) -> AbstractContextManager[None]:
    """Measure the body itself when it has a marker and does not run workloads through ``kv``."""
    from ..endpoint import Endpoint

    endpoint = item.funcargs.get(_ENDPOINT_FIXTURE) if isinstance(item, pytest.Function) else None
    asks = state.expectation is not None or state.comparison is not None
    if not asks or _RUNNER_FIXTURE in _names(item) or not isinstance(endpoint, Endpoint):
        return nullcontext()
    from .observing import observed

    return observed(endpoint, state, "the whole test")


def _keep_probes(item: pytest.Item, state: TestState) -> None:
    """Keep the record of a test that only probes: it has no hit rate to be judged, and the cache may be at fault."""
    if not state.probes:
        return
    from ..model import Verdict

    verdict = Verdict("pass", "the cache was probed, no hit rate was measured")
    if state.faults:
        verdict = Verdict("fail", state.faults[0].sentence, findings=tuple(state.faults))
    _keep(item, state, verdict, [])


def _keep_record(item: pytest.Item, state: TestState, error: KVCacheError | None = None) -> Verdict:
    """Judge what was measured and keep the record where the report, JUnit and the session find it."""
    from ..model import Finding, Verdict

    verdict = together = state.verdict()
    alone = len(state.measurements) == 1 and state.speed_up is None  # then it is judged already
    runs = [(m, together if alone else state.verdict_on(m)) for m in state.measurements]
    entry = _entry(item, state, runs)
    if state.comparison is not None and entry is not None:
        verdict = state.comparison.join(verdict, entry, only=not state.asks_more)
    if error is not None and (verdict.status != "inconclusive" or not state.measurements):
        finding = Finding(error.code, str(error))
        verdict = Verdict(
            "inconclusive",
            f"inconclusive: {error}",
            target=verdict.target,
            target_from=verdict.target_from,
            min=verdict.min,
            max=verdict.max,
            findings=(finding,),
        )
    _keep(item, state, verdict, runs, entry)
    return verdict


def _entry(item: pytest.Item, state: TestState, runs: list[tuple[Measurement, Verdict]]) -> Entry | None:
    """Return the values of the test that are compared, with those of before or by those to come; None: by nobody."""
    from .comparison import is_wanted

    if not is_wanted(item.config.stash[SETTINGS], state.comparison):
        return None
    from ..regression.context import context_of
    from ..regression.values import Entry, groups_of
    from ..report.text import visible

    each = None if state.level is None else state.level.each
    entry = Entry(context_of(runs, state.sent, state.expectation), groups_of(runs, state.sent, each))
    hidden = redacting.of(item)
    return entry.shown(lambda text: hidden(visible(text)))  # as in files: what is compared with them has to be the same


def _keep(
    item: pytest.Item,
    state: TestState,
    verdict: Verdict,
    runs: list[tuple[Measurement, Verdict]],
    entry: Entry | None = None,
) -> None:
    from ..report import junit, terminal
    from ..report.record import check_record

    hidden = redacting.of(item)
    sweep = markers.sweep_of(item)
    record = redacting.record(check_record(item.nodeid, verdict, runs, state.probes, sweep=sweep, entry=entry), hidden)
    item.stash[RECORD] = record
    theirs = [pair for pair in item.user_properties if not junit.is_ours(pair[0])]
    item.user_properties[:] = [*theirs, *junit.properties(record)]
    item.stash[EVIDENCE] = [(SECTION, terminal.section(record)), *_shown_text(item, state)]


def _shown_text(item: pytest.Item, state: TestState) -> list[tuple[str, str]]:
    """Return the prompt text around each first divergence, where it was asked for: a section that no report takes."""
    if not item.config.stash[SETTINGS].show_text:
        return []
    from ..divergence import sentence
    from ..report.text import visible

    parted = (m.divergence for m in state.measurements if m.divergence is not None)
    shown = [visible(sentence(divergence, show_text=True)) for divergence in parted]
    return [(_TEXT, "\n".join(shown))] if shown else []
