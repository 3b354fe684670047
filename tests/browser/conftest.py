"""A real Chromium, offline, that keeps account of everything that a page asks for or complains of."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BINARY_VARIABLE = "PYTEST_KV_CHROMIUM"
DEFAULTS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
)  # fmt: skip
HERE = Path(__file__).parent
Open = Callable[..., Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs a real browser (pytest hands every collected item to every conftest)."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("real")


@pytest.fixture(scope="module")  # not longer: while it is there an event loop runs, which tests elsewhere would notice
def chromium() -> Iterator[Any]:
    """The browser. A wrong path in the variable is an error; no browser at all is a skip."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install --group browser")
    pytest.importorskip("plotly", reason="the extra `report` is not installed")
    named = os.environ.get(BINARY_VARIABLE)
    if named and not os.access(named, os.X_OK):
        pytest.fail(f"{BINARY_VARIABLE}={named} is no program: name a Chromium", pytrace=False)
    binary = named or next(filter(None, map(shutil.which, DEFAULTS)), None)
    if binary is None:
        pytest.skip(f"no Chromium here: apt-get install chromium, or set {BINARY_VARIABLE}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any, tmp_path: Path) -> Iterator[Open]:
    """Write a page and open it from its file, with options of a browser context; at the end nothing was asked for."""
    contexts, seen, asked = [], [], []

    def open_(text: str, **options: Any) -> Any:
        path = tmp_path / f"page{len(contexts)}.html"
        path.write_text(text, encoding="utf-8")
        context = chromium.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        contexts.append(context)
        context.set_offline(True)
        page = context.new_page()
        page.on("console", lambda message: seen.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: seen.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (seen.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert seen == []
    ours = {path.as_uri() for path in tmp_path.glob("page*.html")}
    assert {url.partition("#")[0] for url in asked} == ours
