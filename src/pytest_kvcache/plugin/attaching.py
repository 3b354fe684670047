"""The evidence in Allure's results: its plugin keeps neither sections nor properties of a report by itself."""

from __future__ import annotations

import json
from collections.abc import Generator
from importlib import import_module
from typing import Any

import pytest

from .session import SECTION

_LISTENER = "allure_listener"  # allure-pytest registers it where its results are wanted, in each worker


class Attaching:
    """Hands the section and the properties of a test over, through Allure's public API.

    Its hook is around all others of ours, so that it finds what a test leaves in the end.
    """

    NAME = "kvcache-allure"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach what stands in the report of a measured test."""
        report = yield
        if call.when == "call" and item.config.pluginmanager.hasplugin(_LISTENER):
            _attach(report)
        return report


def _attach(report: pytest.TestReport) -> None:
    evidence = [text for title, text in report.sections if title == SECTION]
    if not evidence:
        return
    from ..report import junit

    allure: Any = import_module("allure")  # no dependency of ours, and it has no types

    ours = {name: value for name, value in report.user_properties if junit.is_ours(name)}
    allure.attach("\n".join(evidence), "kvcache", allure.attachment_type.TEXT)
    allure.attach(json.dumps(ours, indent=2), "kvcache properties", allure.attachment_type.JSON)
