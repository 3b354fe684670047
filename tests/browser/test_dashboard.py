"""The page of a session as a reader has it: opened from a file, offline, in a real browser."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ..pages import session
from .conftest import Open

pytest.importorskip("plotly", reason="the extra `report` is not installed")

from pytest_kvcache.report.html import page

from ..unit.report.test_html_page import HOSTILE, by_name, curve, hostile

WAIT = 30_000  # milliseconds until a test gives up; nothing takes that long


@pytest.fixture(scope="module")
def text() -> str:
    return page(session() | {"curves": [curve()]})


def opened(tab: Any, name: str) -> Any:
    """Open a check, and wait until all of its charts are drawn."""
    row = tab.locator("tbody", has=tab.locator("button.open", has_text=name)).first
    row.locator("button.open").click()
    detail = row.locator(".detail")
    for number in range(detail.locator(".chart").count()):
        drawn(detail.locator(".chart").nth(number))
    return detail


def drawn(chart: Any) -> Any:
    """Bring a chart into view and return what Plotly drew there."""
    chart.scroll_into_view_if_needed()
    chart.locator(".main-svg").first.wait_for(timeout=WAIT)
    return chart.evaluate("chart => ({data: chart.data, layout: chart.layout})")


def named(place: Any, name: str) -> Any:
    return place.get_by_role("img", name=name)


def rows(tab: Any) -> list[str]:
    """The names in the table, as far as they are to be seen."""
    found: list[str] = tab.locator("#checks button.open").evaluate_all(
        "buttons => buttons.filter((one) => one.checkVisibility()).map((one) => one.textContent)"
    )
    return found


def test_the_overview_has_the_verdicts_and_a_hit_rate(open_page: Open, text: str) -> None:
    tab = open_page(text)
    assert tab.title() == "KV cache report"
    assert [" ".join(one.inner_text().split()) for one in tab.locator("#counts li").all()] == [
        "13 ✓ passed", "3 ✕ failed", "1 ? inconclusive",
    ]  # fmt: skip
    row = tab.locator("tbody", has_text="test_router").locator("tr").first
    assert row.locator("[data-column=rate]").inner_text().strip() == "0.352"
    assert row.locator(".verdict").inner_text() == "✕ fail"
    assert tab.locator(".detail").count() == 0


def test_a_check_is_drawn_when_it_is_opened(open_page: Open, text: str) -> None:
    tab = open_page(text)
    detail = opened(tab, "test_router")
    waterfall = drawn(named(detail, "Tokens from what could be reused"))["data"][0]
    assert waterfall["x"] == [16896, -2816, -5632, 8448]
    assert waterfall["decreasing"]["marker"]["color"].startswith("#")
    rates = drawn(named(detail, "Hit rate: measured"))["data"]
    assert rates[0]["x"][3] == 0.352
    assert rates[1]["x"] == [0.7, 0.7]
    assert detail.locator(".findings .code").all_inner_texts() == ["KV201", "KV305", "KV308"]
    assert "8,448 of 24,000" in detail.inner_text()
    button = tab.locator("button.open", has_text="test_router")
    assert button.get_attribute("aria-expanded") == "true"
    button.press("Enter")
    assert tab.locator(".detail").count() == 0
    assert button.get_attribute("aria-expanded") == "false"


def test_a_search_a_conversation_and_levels(open_page: Open, text: str) -> None:
    tab, document = open_page(text), session()
    ramp = drawn(named(opened(tab, "test_how_many_users"), "The level over time"))["data"]
    (limit,) = (trace for trace in ramp if trace["name"] == "limit 0.12 s")
    assert limit["y"] == [0.12, 0.12]
    turns = drawn(named(opened(tab, "test_support_agent"), "Cached share"))["data"]
    first = by_name(document, "test_support_agent")["runs"][0]["turns"][0]
    assert turns[0]["y"][0] == first["cached_tokens"] / first["prompt_tokens"]
    levels = opened(tab, "test_levels")
    assert drawn(named(levels, "TTFT and throughput"))["data"][0]["x"] == [1, 2, 4, 8, 16]


def test_what_is_about_the_whole_session(open_page: Open, text: str) -> None:
    tab = open_page(text)
    place = tab.locator("[data-sections]")
    heat = drawn(named(place, "TTFT p50 (rate across)"))["data"][0]
    (sweep,) = session()["sweeps"]
    cells = {(cell["axes"]["rate"], cell["axes"]["context"]): cell["ttft_p50_s"] for cell in sweep["cells"]}
    assert heat["z"] == [[cells[rate, context] for rate in (0.0, 0.25, 0.5, 0.75)] for context in (512, 2048)]
    assert len(heat["colorscale"]) == 5
    budget = drawn(named(place, "Hit rate of each budget"))["data"]
    assert [trace["x"] for trace in budget if trace["name"] == "knee"] == [[32]]
    for number in range(place.locator(".chart").count()):
        assert drawn(place.locator(".chart").nth(number))["data"]
    folded = place.locator("details").first
    assert folded.locator("table").count() == 0
    folded.locator("summary").click()
    folded.locator("tr").nth(10).wait_for(timeout=WAIT)


def test_find_filter_and_sort(open_page: Open, text: str) -> None:
    tab = open_page(text)
    assert len(rows(tab)) == 17
    tab.locator("#find").fill("grid 2048")
    assert [row.partition("[")[2] for row in rows(tab)] == ["0.0-2048]", "0.25-2048]", "0.5-2048]", "0.75-2048]"]
    assert tab.locator("#shown").inner_text() == "4 of 17"
    tab.locator("#find").fill("")
    tab.get_by_role("radio", name="inconclusive").check()
    assert rows(tab) == ["test_odd.py::test_foreign_traffic"]
    tab.get_by_role("radio", name="all").check()
    rate = tab.get_by_role("button", name="hit rate")
    rate.click()
    assert rows(tab)[:2] == ["test_demo.py::test_grid[0.0-2048]", "test_demo.py::test_grid[0.0-512]"]
    assert rows(tab)[-1] == "test_demo.py::test_probe"  # has no rate
    rate.click()
    assert rows(tab)[0] == "test_demo.py::test_support_agent"
    assert rows(tab)[-1] == "test_demo.py::test_probe"
    assert tab.locator("th[aria-sort=descending]").inner_text().startswith("hit rate")
    tab.get_by_role("button", name="KV103").click()
    assert rows(tab) == ["test_odd.py::test_foreign_traffic"]


def test_a_finding_leads_to_its_check_and_so_does_an_address(open_page: Open, text: str) -> None:
    tab = open_page(text)
    tab.get_by_role("link", name="test_odd.py::test_foreign_traffic").click()
    assert "12,360" in tab.locator(".detail").inner_text()
    tab.goto(f"{tab.url}#row-0")
    tab.reload()
    assert tab.locator(".detail").count() == 1


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2)."""
    channels = [int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_as_the_system_says_until_the_reader_does(open_page: Open, text: str, scheme: str) -> None:
    tab = open_page(text, color_scheme=scheme)
    other = {"light": "dark", "dark": "light"}[scheme]
    detail = opened(tab, "test_router")
    before = drawn(named(detail, "Tokens from"))["data"][0]["totals"]["marker"]["color"]
    for theme in (scheme, other):
        assert tab.evaluate("document.documentElement.dataset.theme") == theme
        paper = luminance(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert (paper > 0.5) is (theme == "light")
        for place in (".verdict.pass", ".verdict.fail", ".verdict.inconclusive", "dt", "figcaption", "h1"):
            ink = luminance(tab.locator(place).first.evaluate("e => getComputedStyle(e).color"))
            assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5, (theme, place)
        tab.get_by_role("button", name="switch between light and dark").click()
    tab.get_by_role("button", name="switch between light and dark").click()
    after = drawn(named(detail, "Tokens from"))["data"][0]["totals"]["marker"]["color"]
    assert tab.evaluate("document.documentElement.dataset.theme") == other
    assert before != after


def test_a_phone_scrolls_down_and_never_sideways(open_page: Open, text: str) -> None:
    tab = open_page(text, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    detail = opened(tab, "test_router")
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    assert detail.bounding_box()["width"] > 340
    assert tab.locator("#checks td.name").first.bounding_box()["width"] > 140  # columns that are hidden take nothing
    assert detail.locator(".main-svg").first.bounding_box()["width"] > 300
    tab.set_viewport_size({"width": 844, "height": 390})
    assert detail.bounding_box()["width"] > 780


def test_a_series_is_hidden_by_a_click_and_a_chart_says_its_values(open_page: Open, text: str) -> None:
    tab = open_page(text)
    chart = named(tab.locator("[data-sections]"), "TTFT p50 by rate")
    drawn(chart)
    chart.locator(".legendtoggle").first.click()
    tab.wait_for_function("chart => chart.data[0].visible === 'legendonly'", arg=chart.element_handle(), timeout=WAIT)
    point = chart.locator(".scatterlayer .point").last
    point.hover(force=True)
    chart.locator(".hoverlayer .hovertext").first.wait_for(timeout=WAIT)
    assert "context 2048" in chart.locator(".hoverlayer").text_content()


@pytest.mark.parametrize("words", [range(12), range(12, len(HOSTILE))], ids=["markup", "characters"])
def test_no_text_is_obeyed(open_page: Open, words: range) -> None:
    document = hostile(session(), " ".join(HOSTILE[number] for number in words))
    for number, check in enumerate(document["checks"]):
        check["nodeid"] = f"{number:02} {check['nodeid'][:150]}"
    document["curves"] = [curve() | {"name": document["endpoint"], "policy": document["endpoint"]}]
    tab = open_page(page(document))
    assert tab.locator("#checks button.open").count() == 17
    for name in ("14 ", "15 ", "08 ", "12 "):
        opened(tab, name)
    for chart in tab.locator("[data-sections] .chart").all():
        drawn(chart)
    assert tab.locator("img, iframe, object, embed, form:not(#filter)").count() == 0
    assert tab.locator("main a[href]:not([data-open])").count() == 0
    assert tab.locator("main b:not(.bar b), .chart [onclick]").count() == 0
    assert tab.locator("svg script, main script").count() == 0


def test_a_thousand_checks(open_page: Open) -> None:
    document = session()
    several = document["checks"]
    checks = [several[n % len(several)] | {"nodeid": f"t.py::test[{n:04}]"} for n in range(1000)]
    tab = open_page(page(copy.copy(document) | {"checks": checks}))
    assert tab.locator("#shown").inner_text() == "1,000 of 1,000"
    tab.locator("#find").fill("[0015]")
    assert rows(tab) == ["t.py::test[0015]"]
    assert tab.locator(".js-plotly-plot").count() < 4  # only what is in view
    waterfall = drawn(named(opened(tab, "[0015]"), "Tokens from"))["data"][0]
    assert waterfall["x"] == [16896, -2816, -5632, 8448]


def test_paper_is_light(open_page: Open, text: str) -> None:
    tab = open_page(text, color_scheme="dark")
    told = "[document.documentElement.dataset.theme, getComputedStyle(document.body).color]"
    detail = opened(tab, "test_router")
    title = "getComputedStyle(document.querySelector('.detail .chart .xtitle, .detail .chart .ytick text')).fill"
    dark = tab.evaluate(told), detail.evaluate(title)
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    light = tab.evaluate(told), detail.evaluate(title)
    assert (dark[0][0], light[0]) == ("dark", ["light", "rgb(22, 25, 29)"])
    assert light[1] != dark[1]
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert (tab.evaluate(told), detail.evaluate(title)) == dark


def test_a_code_finds_as_many_checks_as_the_overview_counts(open_page: Open, text: str) -> None:
    tab = open_page(text)
    tab.locator("#filter input[value=pass]").check()
    tab.locator("[data-find=KV103]").click()
    assert tab.locator("#shown").inner_text() == "1 of 17"
