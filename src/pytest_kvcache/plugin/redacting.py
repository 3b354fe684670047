"""Secrets out of all that a test leaves, before anyone keeps or shows it.

A server may echo a key anywhere: in an error, in a completion, as the name of its model, in a label of its metrics. A
test that fails then shows it in a traceback, in the values of its variables, in what it printed and logged.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any

import pytest

from ..endpoint import Endpoint
from ..hidden import hide
from .keys import SETTINGS, STATE

# Words of a record that are ours, and names of the tests: a secret that reads like one of them is none there.
_OURS = frozenset({
    "nodeid", "name", "axes", "verdict", "severity", "code", "source", "target_from", "unit", "held", "cause", "metric",
    "statistic", "counted", "currency", "id", "variant",
})  # fmt: skip
_NAMES = frozenset({"engines", "aside", "tiers"})  # whose keys are labels of metrics


class Redacting:
    """Hides secrets in the reports of tests that measure; it sees a report before it is kept, attached or sent on."""

    NAME = "kvcache-redacting"

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_fixture_setup(self, request: pytest.FixtureRequest) -> Generator[None, object, object]:
        """Hide what the exception of a fixture says, which some keep before there is a report."""
        try:
            return (yield)
        except Exception as error:
            _hide_error(error, partial(hide, secrets=_of_settings(request.config)))
            raise

    @pytest.hookimpl(wrapper=True, trylast=True)  # the innermost: before others look at the report
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Hide what the report of a phase shows, and what the exception says, which some show instead."""
        report = yield
        if STATE in item.stash:
            hidden = of(item)
            if call.excinfo is not None:
                _hide_error(call.excinfo.value, hidden)
            report.sections = [(title, hidden(text)) for title, text in report.sections]
            report.user_properties = [(name, _value(value, hidden)) for name, value in report.user_properties]
            if report.longrepr is not None and hidden(report.longreprtext) != report.longreprtext:
                _hide_failure(item.config, report, hidden)
        return report


def of(item: pytest.Item) -> Callable[[str], str]:
    """Return what hides the secrets that a test knows: of the settings, and of an endpoint that a fixture made."""
    secrets = _of_settings(item.config)
    for made in getattr(item, "funcargs", {}).values():
        if isinstance(made, Endpoint):
            secrets |= made.secrets()
    return partial(hide, secrets=secrets)


def _of_settings(config: pytest.Config) -> frozenset[str]:
    settings = config.stash[SETTINGS]
    return settings.connect(settings.endpoint or "").secrets()


def record(part: Any, hidden: Callable[[str], str], key: str = "") -> Any:
    """Return a record without secrets; what is a word of ours, or the name of a test, stays as it is."""
    if isinstance(part, Mapping) and key != "axes":
        names = hidden if key in _NAMES else str
        return {names(name): record(value, hidden, name) for name, value in part.items()}
    if isinstance(part, list):
        return [record(value, hidden, key) for value in part]
    return hidden(part) if isinstance(part, str) and key not in _OURS else part


def _value(value: object, hidden: Callable[[str], str]) -> object:
    return hidden(value) if isinstance(value, str) else value


def _hide_error(error: BaseException, hidden: Callable[[str], str]) -> None:
    arguments = tuple(_value(argument, hidden) for argument in error.args)
    if arguments != error.args:
        error.args = arguments


def _hide_failure(config: pytest.Config, report: pytest.TestReport, hidden: Callable[[str], str]) -> None:
    from . import ending

    hook = config.hook
    plain = hidden(report.longreprtext)
    try:
        data = hook.pytest_report_to_serializable(config=config, report=report)
        data["longrepr"] = ending.shown(data["longrepr"], hidden, with_locals=True)
        report.longrepr = hook.pytest_report_from_serializable(config=config, data=data).longrepr
    except Exception:  # another plugin's form of failure
        report.longrepr = plain
    if hidden(report.longreprtext) != report.longreprtext:  # a secret over several lines, say
        report.longrepr = plain
