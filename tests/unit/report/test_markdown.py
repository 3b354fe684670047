"""Markdown: what a reader sees of it, that nothing foreign becomes markup, and that it may end after any part."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_kvcache.model import Finding, Level, Period, Tokens
from pytest_kvcache.report.document import document
from pytest_kvcache.report.markdown import joined, markdown
from pytest_kvcache.report.markup import code, fenced, table, text

from ...documents import Seen, errors
from .made import FACTS, WHOLE, at, judged, measured, reached, search, stretch

PLAIN = {"0": Tokens(1000, {"local": 700})}
HOSTILE = [
    "a|b", "`", "```\n", "<script>alert(1)</script>", "\x1b[31mred", "\x00", "\udc80", "\u202eoverride", "x" * 5000,
    "[a](http://b.c)", "![a](b)", "http://a.b", "www.a.b", "@someone", "#123", "o/r#1", "GH-7", "a@b.c", ":smile:",
    "</details>", "</code>", "<!--", "-->", "&lt;", "&#124;", "\\", "\\|", "*a*", "__a__", "~~a~~", "$x$", "1. a",
    "- a", "+ a", "> a", "# a", "===", "---", "| - |", "\n\n# a", "\t a", "    a", "{{x}}", "^1", "[^1]", "[ ] a",
    "\r\n", "\u2028",
]  # fmt: skip
ANY = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=5), max_size=5).map("".join)
NAMES = ANY.map(lambda value: "n" + value)


def shown(*checks: Any, **more: Any) -> str:
    told = {"endpoint": "http://h:8000", "seed": None, "interrupted": False, **more}
    content = document(checks, **told)
    assert errors(content) == []
    return joined(markdown(content))


def told(value: str) -> str:
    """What a reader must see of a text: one line, with what cannot be seen written out."""
    line = " ".join(value[:2001].split())
    hidden = re.compile("[\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")
    return hidden.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), line)


# --- what a reader sees ----------------------------------------------------------------------------------------------


def test_the_verdict_the_table_and_what_was_measured() -> None:
    good = judged(measured(PLAIN, exchanges=(WHOLE,)), nodeid="t.py::test_a", status="pass", target=0.7, predicted=0.75)
    bad = judged(measured(PLAIN), nodeid="t.py::test_b", target=0.9)
    odd = judged(nodeid="t.py::test_c", status="inconclusive")
    seen = Seen.of(shown(good, bad, odd))
    assert "kvcache: 1 passed, 1 failed, 1 inconclusive\n" in seen.text
    assert "vllm 0.32.0 block 16 · model m · http://h:8000" in seen.text
    assert seen.rows == [
        ["verdict", "test", "hit rate", "target", "predicted", "hit/query tokens", "TTFT p50/p95", "output"],
        ["pass", "t.py::test_a", "0.700", "0.700", "0.750", "700/1,000", "500 ms/500 ms", "1 tok/s"],
        ["fail", "t.py::test_b", "0.700", "0.900", "-", "700/1,000", "-", "-"],
        ["inconclusive", "t.py::test_c", "-", "-", "-", "0/0", "-", "-"],
    ]


def test_only_what_did_not_pass_has_details() -> None:
    finding = Finding("KV201", "hit rate 0.700 is 0.200 below 0.900", "move the date")
    verdicts = ("pass", "fail", "inconclusive")
    shown_ = shown(*(judged(measured(PLAIN), nodeid=name, status=name, findings=(finding,)) for name in verdicts))
    assert shown_.count("<details>") == shown_.count("</details>") == 2
    assert "<details>\n<summary>inconclusive <code>inconclusive</code></summary>\n\nhit rate ...\n" in shown_
    assert "<details>\n<summary>fail <code>fail</code></summary>\n\nhit rate ...\n" in shown_
    assert "\n- <code>KV201</code> hit rate 0.700 is 0.200 below 0.900; move the date\n" in shown_
    assert "```text\n  700 of 1,000 hit, by counters" in shown_


def test_limits_with_their_intervals() -> None:
    objectives = (reached(), reached("ttft_p50", "fail", 2.31), reached("e2e_mean", "inconclusive", None))
    objectives = (*objectives[:2], replace(objectives[2], low=None, high=None))
    seen = Seen.of(shown(judged(measured(PLAIN), objectives=objectives)))
    assert seen.rows[0][-1] == "limits"
    assert seen.rows[1][-1] == (
        "ttft_p95 1.310 s (95 % between 1.200 s and 1.400 s), at most 2.000 s"
        "ttft_p50 2.310 s (95 % between 1.200 s and 1.400 s), at most 2.000 s fail"
        "e2e_mean -, at most 2.000 s inconclusive"
    )
    assert seen.tags.count("br") == 2


def test_a_search_says_its_sentence_and_levels_say_which() -> None:
    period = Period(stretch(Level(2)), "held")
    seen = Seen.of(shown(judged(search(period), nodeid="t::s", status="pass"), judged(at(8), nodeid="t::l")))
    assert "t::s: concurrency 12 held ..." in seen.text
    assert [row[1] for row in seen.rows[1:]] == ["t::s concurrency 12 held, 14 did not", "t::l at concurrency 8"]


@pytest.mark.parametrize("axes", [1, 2])
def test_a_sweep_is_a_table_or_one_a_figure(axes: int) -> None:
    places = [{"rate": rate, "context": context} for context in (256, 512)[:axes] for rate in (0.0, 0.5)]
    checks = [
        judged(
            measured({"0": Tokens(1000, {"local": round(1000 * place["rate"])})}),
            nodeid=f"t::s[{place}]",
            status="fail" if place == {"rate": 0.5, "context": 512} else "pass",
            sweep={"name": "t::s", "axes": place, "marked": True},
        )
        for place in places
    ]
    seen = Seen.of(shown(*checks))
    grid = seen.rows[1 + len(checks) :]
    if axes == 1:
        assert "sweep t::s at context 256: 2 passed" in seen.text
        assert grid == [["rate", "hit rate"], ["0", "0.000"], ["0.5", "0.500"]]
    else:
        assert "sweep t::s: 3 passed, 1 failed (!)" in seen.text
        assert "hit rate by rate" in seen.text
        assert grid == [["context", "0", "0.5"], ["256", "0.000", "0.500"], ["512", "0.000", "0.500!"]]


def test_nothing_measured_and_interrupted() -> None:
    assert shown() == "### kvcache: nothing was measured\n\n<code>http:<!-- -->//h:<!-- -->8000</code>\n"
    assert "interrupted; this is not all" in shown(judged(measured(PLAIN)), interrupted=True)


# --- nothing foreign becomes markup ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_text_is_seen_and_no_more(value: str) -> None:
    whole = f"{text(value)}\n\n- {text(value)}\n\n#### x {text(value)}\n\n" + "\n".join(table([["a"], [code(value)]]))
    seen = Seen.of(whole)
    assert seen.tags[:1] == ["p"] if text(value) else ["ul"]
    assert seen.rows[1] == [told(value) if len(value) < 2000 else "x" * 1999 + "…"]


@given(ANY)
def test_any_text_is_one_cell_that_says_it(value: str) -> None:
    seen = Seen.of("\n".join(table([["a", "b"], [text(value), code(value)], ["1", "2"]])))
    assert [len(row) for row in seen.rows] == [2, 2, 2]
    assert seen.rows[1][0] == seen.rows[1][1]
    if value.isprintable() and len(value) < 2000:
        assert seen.rows[1][0] == " ".join(value.split())


@example(["```", "<b>"])
@given(st.lists(ANY, min_size=1, max_size=4))
def test_a_block_of_code_ends_where_it_should(lines: list[str]) -> None:
    seen = Seen.of(f"<details>\n\n{fenced(lines)}\n\n</details>\n\n#### end")
    assert [tag for tag in seen.tags if tag != "details"] == ["pre", "code", "h4"]
    assert seen.text.split() == ["end"]


@given(NAMES, NAMES, ANY, NAMES)
@example("n", "n", "#", "n")
def test_a_hostile_session_keeps_its_form(nodeid: str, model: str, message: str, axis: str) -> None:
    facts = replace(FACTS, model=model, version=message, engine=model)
    finding = Finding("KV201", message, message)
    run = replace(measured(PLAIN, facts=facts, notes=(message,)), title=message, cache_state=message)
    sweep = {"name": nodeid, "axes": {axis: message}, "marked": True}
    check = judged(run, nodeid=nodeid, findings=(finding,), sweep=sweep) | {"sentence": message}
    other = judged(replace(search(), title=message), nodeid=nodeid)
    for limit in (limit for each in other["runs"] for limit in [each["limit"]]):
        limit["sentence"] = message
    content = document([check, other], endpoint="sim", seed=1, interrupted=False)
    content["checks"][0]["objectives"] = content["checks"][1]["objectives"]
    whole = joined(markdown(content))
    whole.encode()
    seen = Seen.of(whole)
    assert [len(row) for row in seen.rows[:3]] == [len(seen.rows[0])] * 3
    assert [tag for tag in seen.tags if tag in ("h3", "h4", "details", "pre", "ul", "li")] == [
        *("h3", "details", "ul", "li", "pre", "details", "pre", "h4"),
    ]


def test_a_long_id_is_cut() -> None:
    seen = Seen.of(shown(judged(measured(PLAIN), nodeid="t::" + "x" * 10_000)))
    assert seen.rows[1][1] == "t::" + "x" * 196 + "…"


# --- it may end after any part ---------------------------------------------------------------------------------------


def test_every_beginning_is_whole_and_says_that_it_was_cut() -> None:
    finding = Finding("KV201", "low", "")
    checks = [judged(measured(PLAIN), nodeid=f"t::{n}", findings=(finding,)) for n in range(4)]
    parts = markdown(document(checks, endpoint="sim", seed=1, interrupted=False))
    whole = joined(parts)
    size = len(whole.encode())
    assert joined(parts, size) == whole
    lengths = set()
    for room in range(0, size, 7):
        cut = joined(parts, room)
        assert len(cut.encode()) <= room
        assert cut == "" or "Cut off here" in Seen.of(cut).text
        lengths.add(len(cut))
    assert len(lengths) == len(parts)  # none, or any number but all of them


def test_room_is_counted_in_bytes() -> None:
    assert joined(["é" * 100], 150) == ""
    assert joined(["a" * 100], 100) == "a" * 100
