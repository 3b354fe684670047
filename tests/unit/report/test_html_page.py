"""The page of a session: what is on it, what is never in it, and how large it may become."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ...pages import Page, session

pytest.importorskip("plotly", reason="the extra `report` is not installed")

from plotly.offline import get_plotlyjs

from pytest_kvcache.report.html import embed, missing, page
from pytest_kvcache.report.html.blocks import clean, section, table
from pytest_kvcache.report.html.bounds import allowance
from pytest_kvcache.report.html.details import details
from pytest_kvcache.report.html.skeleton import render
from pytest_kvcache.report.html.traces import label, log_axis, thinned
from pytest_kvcache.report.saved import of_session, saved
from pytest_kvcache.savings.saving import Saving

EMPTY = {"schema": "", "endpoint": None, "seed": None, "interrupted": False, "checks": [], "sweeps": []}
HOSTILE = [
    "<script>alert(1)</script>", "</script><script>alert(1)</script>", "<!--", "-->", "]]>",
    "<img src=x onerror=alert(1)>", '"><b>', "' onclick='x", "&lt;b&gt;",
    "javascript:alert(1)", '<a href="javascript:alert(1)">x</a>', "<b>bold</b>",
    "%{x}", "{{ 7*7 }}", "{% raw %}", "\x1b[31m", "\x00", "\udc80", "\u2028", "\u2029", "\u202e", "\ufffe",
    "@pass", "x" * 9000,
]  # fmt: skip
ANY = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=5), max_size=4).map("".join)


@pytest.fixture(scope="module")
def seen() -> Page:
    return Page(page(session()))


def by_name(document: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (check for check in document["checks"] if check["nodeid"].endswith(name))
    return found


def saving_record() -> dict[str, Any]:
    """As of a run; amounts are decimal strings."""
    told = Saving(8448, 2.25, "histogram", Decimal("0.0125"), Decimal("1.5"), "EUR", "a file")
    return saved(told)


# --- what is on it ---------------------------------------------------------------------------------------------------


def test_the_overview_counts_and_says_what_was_measured(seen: Page) -> None:
    assert "13 ✓ passed 3 ✕ failed 1 ? inconclusive" in seen.text
    assert "endpoint sim engine sim 0.1.0 block 16 (simulated) model sim prompts seed 7" in seen.text
    assert "its times are no benchmark" in seen.text
    assert "test_odd.py::test_foreign_traffic inconclusive: the server looked up 12,360 tokens" in seen.text
    assert "interrupted" not in seen.text
    assert [" KV103", " invalid", " 1"] in [row[:3] for row in seen.cells]


def test_a_row_for_each_check_the_gravest_first(seen: Page) -> None:
    rows = [row for row in seen.cells if len(row) == 9][1:]
    assert [row[0] for row in rows] == [" ✕ fail"] * 3 + [" ? inconclusive"] + [" ✓ pass"] * 13
    router = next(row for row in rows if "test_router" in row[1])
    assert router[1] == " test_small.py::test_router KV201 KV305 KV308"
    assert router[2:7] == [" 0.352", " 0.700", " 0.587", " 0.587", " 8,448/24,000"]
    levels = next(row for row in rows if "test_levels" in row[1])
    assert "at concurrency 16 (of 1, 2, 4, 8, 16)" in levels[1]


def test_no_text_of_ours_has_what_is_written_out(seen: Page) -> None:
    assert not [text for kind, text in seen.scripts if kind.startswith("data ") and "\\\\n" in text]


def test_every_code_is_told_and_found() -> None:
    document = session()
    finding = by_name(document, "test_router")["findings"][0]
    codes = [f"KV3{number}" for number in range(20, 40)]
    by_name(document, "test_small_cache")["findings"] = [finding | {"code": code} for code in codes]
    shown = Page(page(document))
    assert set(codes) <= {value for _, name, value in shown.attributes if name == "data-find"}
    (row,) = (row for row in shown.cells if len(row) == 9 and "test_small_cache" in row[1])
    assert row[1].split()[1:] == codes


def test_nothing_was_measured() -> None:
    empty = Page(page(EMPTY))
    assert "0 ✓ passed" in empty.text
    assert "Nothing was measured." in empty.text
    assert empty.data("sections") == []


def test_an_interrupted_session_says_so() -> None:
    assert "The session was interrupted; this is not all of it." in Page(page(EMPTY | {"interrupted": True})).text


def test_what_reuse_saved_is_shown_where_it_is_told() -> None:
    document = session()
    document["checks"] = [by_name(document, "test_router"), by_name(document, "test_small_cache")]
    router, small = document["checks"]
    router["saved"] = saving_record()
    small["saved"] = saving_record() | {"prefill_s": None, "money": None, "cost": None, "currency": None}
    document["saved"] = of_session(document["checks"])
    shown = Page(page(document))
    assert "reuse saved 16,896 tokens of prefill" in shown.text
    document["saved"] = of_session([router])
    assert (
        "reuse saved 8,448 tokens of prefill (about 2250 ms of prefill work), EUR 0.0125; what was sent cost EUR 1.50"
        " (1 of 2 tests)"
    ) in Page(page(document)).text
    assert "reuse" not in Page(page(document | {"saved": None})).text.partition("Checks")[0]
    pairs = [pair for part in shown.data("check-0") for block in part["blocks"] for pair in block.get("pairs", [])]
    assert ["prefill saved", "8,448 tokens"] in pairs
    assert ["prefill time saved", "2250 ms"] in pairs
    assert ["money saved", "EUR 0.0125"] in pairs
    assert ["cost of what was sent", "EUR 1.50"] in pairs
    untold = [pair for part in shown.data("check-1") for block in part["blocks"] for pair in block.get("pairs", [])]
    assert ["prefill saved", "8,448 tokens"] in untold
    assert not {"prefill time saved", "money saved", "cost of what was sent"} & {name for name, _ in untold}


def test_the_same_document_gives_the_same_bytes() -> None:
    document = session()
    text = page(document)
    assert page(copy.deepcopy(document)) == text
    assert json.dumps(document) == json.dumps(session())  # and it is left as it was


def test_what_is_missing_of_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing() == []
    monkeypatch.setattr("pytest_kvcache.report.html.find_spec", lambda name: None if name == "plotly" else object())
    assert missing() == ["plotly"]


# --- what is never in it ---------------------------------------------------------------------------------------------


def test_only_our_code_runs_and_nothing_is_loaded(seen: Page) -> None:
    hashes = {base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in seen.code}
    assert len(seen.code) == 3
    directives = dict(part.split(" ", 1) for part in seen.policy.split("; "))
    assert directives["default-src"] == "'none'"
    assert set(directives["script-src"].split()) == {f"'sha256-{code}'" for code in hashes}
    assert "unsafe-eval" not in seen.policy
    assert any(get_plotlyjs().strip() == code.strip() for code in seen.code)
    assert "@import" not in page(EMPTY).partition("</style>")[0]


def hostile(part: Any, text: str) -> Any:
    """A document whose every text says this, but for words of which there are few and keys."""
    if isinstance(part, dict):
        return {name: value if name in FIXED else hostile(value, text) for name, value in part.items()}
    if isinstance(part, list):
        return [hostile(value, text) for value in part]
    return text if isinstance(part, str) else part


FIXED = {
    "schema",
    "verdict",
    "severity",
    "held",
    "target_from",
    "source",
    "cause",
    "metric",
    "statistic",
    "unit",
    "counted",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup_or_code(text: str, seen: Page) -> None:
    document = hostile(session(), text)
    for number, check in enumerate(document["checks"]):
        check["nodeid"] = f"{number}{text}"
        check["engines"] = (
            dict.fromkeys([text], next(iter(check["engines"].values()), None)) if check["engines"] else {}
        )
        check["errors"] = {text: 3}
        check["saved"] = saving_record() | {"currency": text}
    document["curves"] = [curve() | {"name": text, "policy": text}]
    told = page(document)
    told.encode()  # no lone surrogate is left
    assert re.findall("[\x00-\x08\x0b-\x1f\x7f\u2028\u2029]", told.replace(get_plotlyjs(), "")) == []
    shown = Page(told)
    assert set(shown.tags) <= set(seen.tags)
    assert len(shown.code) == 3
    assert {name for _, name, _ in shown.attributes} == {name for _, name, _ in seen.attributes}
    for name, data in shown.scripts:
        if name.startswith("data "):
            assert not set("<>&\u2028\u2029") & set(data)
            for drawn in strings_of_charts(json.loads(data)):
                assert not re.search(r"<(?!/?b>|br>|/?extra>)", drawn), drawn


def strings_of_charts(part: Any, *, inside: bool = False) -> list[str]:
    """Every text that Plotly is given; its labels have no tags but those of ours."""
    if isinstance(part, dict):
        return [
            text
            for name, value in part.items()
            if not (inside and name == "name" and "data" in part)  # the caption: a text for the page
            for text in strings_of_charts(value, inside=inside or name == "figure")
        ]
    if isinstance(part, list):
        return [text for value in part for text in strings_of_charts(value, inside=inside)]
    return [part] if inside and isinstance(part, str) else []


def test_a_page_of_another_kind_shows_its_texts_as_texts() -> None:
    shown = Page(render("page.html", title="a\x00<b>\udc80", sections=[], data={"more": ["</script>"]}))
    assert "a\\x00<b>\\udc80" in shown.text
    assert shown.data("more") == ["</script>"]
    assert "b" not in shown.tags


@given(ANY)
@example("&amp;")
@example("&#60;b&#62;")
def test_data_stays_data(text: str) -> None:
    told = embed.data({text: [text, None, 1.5]})
    assert not set("<>&\u2028\u2029") & set(told)
    assert json.loads(told) == {text: [text, None, 1.5]}


def test_no_number_that_json_has_not() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        embed.data([float("nan")])


@given(ANY)
def test_labels_have_no_tags_and_no_entities_of_others(text: str) -> None:
    told = label(text)
    assert not set("<>") & set(told)
    assert not re.search(r"&(?!amp;|lt;|gt;)", told)
    assert len(re.sub("&(amp|lt|gt);", "x", told)) <= 48
    assert "\n" not in told


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a<b>&lt;", "a&lt;b&gt;&amp;lt;"),
        ("a\n b", "a b"),
        ("\x1b[1m", "\\x1b[1m"),
        ("x" * 49, "x" * 47 + "…"),
        (2048, "2048"),
    ],
)
def test_labels(text: object, shown: str) -> None:
    assert label(text) == shown


def test_a_cut_text_is_never_longer() -> None:
    assert clean({"a": ["\x00" * 9, "x" * 9, 1, None]}, 8) == {"a": ["\\x00\\x0…", "x" * 7 + "…", 1, None]}


# --- how large it may become -----------------------------------------------------------------------------------------


def large(check: dict[str, Any]) -> dict[str, Any]:
    """A check with more of everything than any page has room for."""
    big = copy.deepcopy(check)
    (run,) = big["runs"]
    turn = {"session": 0, "turn": 0, "prompt_tokens": 9, "cached_tokens": 1, "predicted_tokens": 1, "ttft_s": 0.5}
    run["turns"] = [turn | {"turn": number} for number in range(3000)]
    run["notes"] = [f"note {number} " + "<" * 3000 for number in range(300)]
    big["findings"] = big["findings"][:1] * 300
    big["engines"] = {f"engine {number}": next(iter(check["engines"].values())) for number in range(500)}
    big["runs"] = [run] * 60
    return big


def test_a_check_takes_what_it_may_and_says_what_is_left_out() -> None:
    check = by_name(session(), "test_router")
    roomy, narrow = details(large(check), 10**9), details(large(check), 1)
    left = [block["left"] for part in roomy for block in part["blocks"] if "left" in block]
    for told in ("260 more findings", "436 more engines", "2,840 more turns", "44 more runs"):
        assert f"{told}: in the JSON document (--kv-report)" in left
    assert len(embed.data(narrow).encode()) < 12 * 1024 == allowance(10**6)
    assert narrow[0]["blocks"][0] == {"text": clean(check["sentence"], 240)}
    assert narrow[-1]["blocks"] == [{"left": "All else of this check is in the JSON document (--kv-report)"}]


def test_a_check_in_between_is_shown_in_part() -> None:
    check = large(by_name(session(), "test_router"))
    whole = len(embed.data(details(check, 10**9)).encode())
    part = details(check, whole - 1)
    assert len(embed.data(part).encode()) < whole
    assert any("more turns" in block.get("left", "") for section_ in part for block in section_["blocks"])


@pytest.mark.parametrize(
    ("checks", "most"), [(0, 262_144), (1, 262_144), (64, 262_144), (128, 131_072), (1000, 16_777), (10**5, 12_288)]
)
def test_what_a_check_may_take(checks: int, most: int) -> None:
    assert allowance(checks) == most


def test_a_thousand_checks_stay_below_what_is_stated() -> None:
    """docs/dashboard.md: 16 MB with checks as these."""
    document = session()
    several = [check for check in document["checks"] if len(check["runs"]) == 1]
    checks = [several[number % len(several)] | {"nodeid": f"t.py::test[{number:04}]"} for number in range(1000)]
    told = page(document | {"checks": checks})
    size = len(told.encode())
    assert size < 16_000_000
    assert told.count("<tbody data-check=") == 1000


def test_the_largest_thousand_checks_stay_below_what_is_stated() -> None:
    """docs/dashboard.md: never above 32 MB. Here are 25 of the largest, beside as much of the rest as there may be."""
    big = large(by_name(session(), "test_router"))
    big["nodeid"] = big["sentence"] = "\U000e0001" * 9000  # ten characters each where it is written out
    (sweep,) = session()["sweeps"]
    sweeps = [sweep | {"cells": sweep["cells"] * 100, "name": big["nodeid"]}] * 60
    curves = [curve() | {"points": curve()["points"] * 1000, "name": big["nodeid"]}] * 60
    told = page(EMPTY | {"checks": [big] * 25, "sweeps": sweeps, "curves": curves})
    shown = Page(told)
    details_ = sum(len(data.encode()) for name, data in shown.scripts if name.startswith("data check-"))
    assert details_ <= 25 * allowance(25)
    beside = len(told.encode()) - details_ - len(get_plotlyjs().encode())
    assert len(shown.data("sections")) > 10
    row = max(len(row.encode()) for row in re.findall("<tbody data-check=.*?</tbody>", told, re.DOTALL))
    assert 4_830_000 + 1000 * (allowance(1000) + row) + beside < 32_000_000


# --- small parts -----------------------------------------------------------------------------------------------------


def test_a_table_without_columns_that_tell_nothing() -> None:
    rows = [("a", "b", "c", "d"), ("1", "-", "", "x"), ("2", "-", "-", "y")]
    assert table(rows, words=(0, 3)) == {"table": {"rows": [["a", "d"], ["1", "x"], ["2", "y"]], "words": [0, 1]}}
    assert table([("a",)]) is None
    assert section("title", None, None) == []


@given(st.integers(0, 300), st.integers(2, 50))
def test_thinned_keeps_the_ends_and_the_order(count: int, most: int) -> None:
    kept = thinned(list(range(count)), most)
    assert len(kept) == min(count, most)
    assert kept == sorted(set(kept))
    if count:
        assert (kept[0], kept[-1]) == (0, count - 1)


def test_marks_of_a_logarithmic_axis() -> None:
    assert log_axis([0.001, 0.01], str)["tickvals"] == pytest.approx([0.001, 0.002, 0.005, 0.01])
    assert log_axis([1.0, 100.0], str)["tickvals"] == pytest.approx([1, 3, 10, 30, 100])
    assert log_axis([1.0, 10_000.0], str)["tickvals"] == pytest.approx([1, 10, 100, 1000, 10_000])
    assert log_axis([3.0, 3.0], str)["tickvals"] == [3.0]


def curve() -> dict[str, Any]:
    points = [
        {"blocks": 1, "tokens": 16, "gib": 0.5, "hit_rate": 0.25},
        {"blocks": 2, "tokens": 32, "gib": 1.0, "hit_rate": 0.5},
        {"blocks": 4, "tokens": 64, "gib": 2.0, "hit_rate": 0.54},
    ]
    knee = {"blocks": 2, "tokens": 32, "gib": 1.0}
    told = {"name": "agents", "policy": "lru", "block_size": 16, "bytes_per_token": 1024, "ceiling": 0.55}
    return {"nodeid": "t.py::test", **told, "knee": knee, "points": points}
