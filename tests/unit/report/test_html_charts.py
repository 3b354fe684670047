"""The charts of the page: each has the figures of the document, worked out here by hand."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ...pages import figures, session, tables
from .test_html_page import by_name, curve

pytest.importorskip("plotly", reason="the extra `report` is not installed")

from pytest_kvcache.report.html import load, reuse, serving
from pytest_kvcache.report.html.curves import curves_section
from pytest_kvcache.report.html.details import details
from pytest_kvcache.report.html.points import points_section
from pytest_kvcache.report.html.sweeps import sweep_section
from pytest_kvcache.report.html.turns import turns


def chart(sections: Any, name: str) -> dict[str, Any]:
    (found,) = (figure for figure in figures(sections) if name in figure["name"])
    return found


def trace(figure: dict[str, Any], name: str, **more: Any) -> dict[str, Any]:
    (found,) = (
        one
        for one in figure["data"]
        if one["name"] == name and all(one.get(key, "y") == value for key, value in more.items())
    )
    return found


def opened(name: str) -> list[dict[str, Any]]:
    return details(by_name(session(), name), 10**9)


# --- reuse -----------------------------------------------------------------------------------------------------------


def test_the_waterfall_from_what_could_be_reused_to_what_was() -> None:
    drawn = chart(opened("test_router"), "Tokens from what could")
    (steps,) = drawn["data"]
    assert steps["x"] == [16896, -2816, -5632, 8448]
    assert steps["measure"] == ["absolute", "relative", "relative", "total"]
    assert steps["text"][2] == "routing over engines: -5,632 (-0.235)"
    assert drawn["layout"]["yaxis"]["ticktext"][3] == "was reused<br><b>8,448 (0.352)</b>"
    rows = next(rows for rows in tables(opened("test_router")) if rows[0][0] == "step")
    assert [row[:4] for row in rows[1:]] == [
        ["could be reused", "16,896", "0.704", ""],
        ["cold first use", "-2,816", "-0.117", "4"],
        ["routing over engines", "-5,632", "-0.235", "8"],
        ["was reused", "8,448", "0.352", ""],
    ]
    assert rows[2][5].startswith("warm each prefix")


def test_a_waterfall_without_losses_and_none_at_all() -> None:
    (part,) = reuse.waterfall({"ceiling": 10, "measured": 10, "losses": []}, 20)
    assert part["blocks"] == [{"text": "Nothing: all that an ideal cache reuses was reused."}]
    assert reuse.waterfall(None, 20) == []


def test_what_rounds_to_nothing_is_not_nothing() -> None:
    loss = {"title": "eviction", "tokens": 4, "requests": None, "evidence": "", "advice": ""}
    (part,) = reuse.waterfall({"ceiling": 10_004, "measured": 10_000, "losses": [loss]}, 10_008)
    assert tables([part])[0][2][:3] == ["eviction", "-4", "< 0.001"]


def test_the_rates_beside_each_other_with_the_target() -> None:
    drawn = chart(opened("test_router"), "Hit rate: measured")
    bars = trace(drawn, "hit rate")
    assert bars["text"] == ["ceiling 0.587", "predicted 0.587", "simulated 0.587", "measured 0.352"]
    assert bars["x"][3] == 0.352
    assert trace(drawn, "target 0.700")["x"] == [0.7, 0.7]
    assert "error_x" not in bars


def test_a_rate_that_is_not_exact_has_its_bounds() -> None:
    record = by_name(session(), "test_foreign_traffic")
    rates = record["hit_rate"] | {"measured": 0.5, "low": 0.45, "high": 0.6}
    bars = trace(chart(reuse.rates(record | {"hit_rate": rates}), "Hit rate"), "hit rate")
    assert bars["error_x"]["array"][-1] == pytest.approx(0.1)
    assert bars["error_x"]["arrayminus"][-1] == pytest.approx(0.05)
    assert bars["error_x"]["array"][:-1] == [0.0] * 3


def test_a_check_without_any_rate_has_no_chart_of_it() -> None:
    assert not [figure for figure in figures(opened("test_probe")) if "Hit rate" in figure["name"]]
    assert any(
        "probe: " in line for part in opened("test_probe") for b in part["blocks"] for line in b.get("items", [])
    )


def test_turns_by_session() -> None:
    told = [
        {
            "session": s,
            "turn": t,
            "prompt_tokens": 100,
            "cached_tokens": c,
            "predicted_tokens": 80,
            "ttft_s": 0.1 * (t + 1),
        }
        for s, t, c in ((0, 0, 0), (0, 1, 75), (1, 0, None), (1, 1, 50))
    ]
    (part,) = turns(told, 10)
    drawn = figures([part])[0]
    assert trace(drawn, "session 0", yaxis="y")["y"] == [0.0, 0.75]
    assert trace(drawn, "session 1", yaxis="y")["y"] == [None, 0.5]
    assert trace(drawn, "session 1", yaxis="y2")["y"] == pytest.approx([0.1, 0.2])
    assert trace(drawn, "predicted, session 0")["y"] == [0.8, 0.8]
    assert tables([part])[0][3] == ["1", "0", "100", "-", "-", "80", "100 ms"]
    assert [block["left"] for block in turns(told, 3)[0]["blocks"] if "left" in block] == [
        "1 more turn: in the JSON document (--kv-report)"
    ]


# --- serving ---------------------------------------------------------------------------------------------------------


def test_percentiles_that_a_logarithmic_scale_has_a_place_for() -> None:
    record = by_name(session(), "test_router")
    known = {"p50": 0.0, "p95": 0.2, "p99": 0.3, "mean": 0.1, "count": 24}
    none = {"p50": None, "p95": None, "p99": None, "mean": None, "count": 0}
    told = dict.fromkeys(("itl_s", "tpot_s", "arrival_s"), none)
    (part,) = serving.latencies(record | told | {"ttft_s": known, "e2e_s": known | {"p50": 0.15}})
    drawn = figures([part])[0]
    assert (trace(drawn, "p50")["y"], trace(drawn, "p50")["x"]) == (["E2E"], [0.15])
    assert (trace(drawn, "p95")["y"], trace(drawn, "p95")["x"]) == (["TTFT", "E2E"], [0.2, 0.2])
    assert tables([part])[0][1] == ["TTFT", "0.0 ms", "200 ms", "300 ms", "100 ms", "24"]


def test_the_split_of_the_servers_time_with_the_bounds_of_each_bucket() -> None:
    quantile = {"value": 0.15, "low": 0.1, "high": 0.25}
    told = {
        "queue": {
            "count": 4,
            "mean": 0.2,
            "p50": quantile,
            "p95": {"value": 9.0, "low": 10.0, "high": None},
            "p99": None,
        },
        "prefill": {"count": 4, "mean": 0.3, "p50": quantile, "p95": quantile, "p99": quantile},
    }
    (part,) = serving.split({"server_latency_s": told})
    assert [(one["name"], one["x"]) for one in figures([part])[0]["data"]] == [("queue", [0.2]), ("prefill", [0.3])]
    assert tables([part])[0][1] == ["queue", "200 ms", "150 ms (100 – 250 ms)", "9000 ms (≥ 10.0 s)", "-", "4"]
    assert serving.split({"server_latency_s": {}}) == []


def test_each_engine_and_tier_has_a_row() -> None:
    (part,) = serving.engines(by_name(session(), "test_router"), 2)
    rows = tables([part])
    assert rows[0][1][:4] == ["0", "0.352", "2,816", "8,000"]
    assert len(rows[0]) == 3
    assert rows[1][1:] == [["local", "0.352", "8,448"], ["external", "0.000", "0"]]
    assert {"left": "1 more engine: in the JSON document (--kv-report)"} in part["blocks"]


# --- load ------------------------------------------------------------------------------------------------------------


def test_levels_with_the_limit_that_was_asked() -> None:
    check = by_name(session(), "test_levels")
    drawn = chart(opened("test_levels"), "TTFT and throughput")
    stretches = [run["stretch"] for run in check["runs"]]
    assert trace(drawn, "TTFT p95")["x"] == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert trace(drawn, "TTFT p95")["y"] == [stretch["ttft_s"]["p95"] for stretch in stretches]
    assert trace(drawn, "output tok/s", yaxis="y2")["y"] == [stretch["output_tok_s"] for stretch in stretches]
    assert trace(drawn, "input tok/s", yaxis="y2")["visible"] == "legendonly"
    assert trace(drawn, "limit of p95")["y"] == [0.08, 0.08]
    rows = next(rows for rows in tables(opened("test_levels")) if rows[0][0] == "concurrency")
    assert [(row[0], row[1]["text"]) for row in rows[1:]] == [
        ("1", "pass"), ("2", "pass"), ("4", "pass"), ("8", "fail"), ("16", "fail"),
    ]  # fmt: skip
    assert any(part["title"] == "Latency at the client, concurrency 16" for part in opened("test_levels"))


def test_levels_that_were_measured_in_laps_make_lines_that_do_not_turn_back() -> None:
    """As of ``kv.steps(..., retries=1)``."""
    check = by_name(session(), "test_levels")
    few = [check["runs"][at] for at in (0, 4, 2)]
    laps = [*few, *copy.deepcopy(few)]
    for number, run in enumerate(laps):
        run["stretch"]["ttft_s"] |= {"p50": float(number)}
    sections = load.levels(laps, [], 10)
    drawn = trace(chart(sections, "TTFT and throughput"), "TTFT p50")
    assert list(zip(drawn["x"], drawn["y"], strict=True)) == [(1, 0), (1, 3), (4, 2), (4, 5), (16, 1), (16, 4)]
    assert [row[0] for row in tables(sections)[0][1:]] == ["1", "16", "4"] * 2  # as they were measured


def period(held: str, start: float, seconds: float, concurrency: int, p95: float, why: str = "") -> dict[str, Any]:
    check = by_name(session(), "test_how_many_users")
    told = copy.deepcopy(check["runs"][0]["limit"]["periods"][0])
    level = {"concurrency": concurrency, "rate": None}
    ttft = told["ttft_s"] | {"p95": p95}
    return told | {"held": held, "start": start, "seconds": seconds, "level": level, "ttft_s": ttft, "why": why}


PERIODS = [
    period("transition", 0.0, 1.0, 4, 0.2),
    period("held", 1.0, 2.0, 4, 0.3),
    period("breached", 3.0, 2.0, 8, 0.9, "<b>"),
]
ASKED = {"metric": "ttft", "statistic": "p95", "limit": 0.5, "at_most": True, "unit": "s"}


def test_a_search_over_time_against_its_limit() -> None:
    limit = {"sentence": "concurrency 4 held", "asked": [ASKED], "periods": PERIODS}
    (part,) = load.search(limit, 10)
    drawn = figures([part])[0]
    assert part["blocks"][0] == {"text": "concurrency 4 held"}
    assert trace(drawn, "held", yaxis="y")["x"] == [1.0, 3.0, None]
    assert trace(drawn, "held", yaxis="y")["y"] == [4.0, 4.0, None]
    assert trace(drawn, "breached", yaxis="y2")["y"] == [0.9, 0.9, None]
    assert trace(drawn, "breached", yaxis="y")["text"][0] == "concurrency 8 breached: TTFT p95 900 ms<br>&lt;b&gt;"
    limit_line = trace(drawn, "limit 0.5 s", yaxis="y2")
    assert (limit_line["x"], limit_line["y"]) == ([0, 5.0], [0.5, 0.5])
    rows = tables([part])[0]
    assert rows[0][1] == "concurrency"
    assert [row[2]["tone"] for row in rows[1:]] == ["", "pass", "fail"]


SHARE = ASKED | {"metric": "attainment", "statistic": "total", "limit": 0.9, "unit": ""}
SPEED = ASKED | {"metric": "tokens_per_s", "statistic": "p10", "unit": "tok/s"}


@pytest.mark.parametrize(
    ("asked", "name", "line"),
    [
        ([SHARE, ASKED | {"statistic": "each"}], "TTFT p95", "limit of each request 0.5 s"),
        ([ASKED | {"statistic": "max"}], "TTFT p99", "limit 0.5 s"),
        ([ASKED | {"statistic": "mean"}], "TTFT mean", "limit 0.5 s"),
        ([SPEED], "tok/s of a request p10", "limit 0.5 tok/s"),
        ([], "TTFT p95", None),
    ],
)
def test_what_a_search_watched(asked: list[Any], name: str, line: str | None) -> None:
    drawn = figures(load.search({"sentence": "", "asked": asked, "periods": PERIODS}, 10))[0]
    assert drawn["name"] == f"The level over time, and {name} against what was asked"
    assert [one["name"] for one in drawn["data"] if one["name"].startswith("limit")] == ([line] if line else [])


def test_a_search_of_an_older_document_does_without_its_limit() -> None:
    drawn = figures(load.search({"sentence": "", "periods": PERIODS}, 2))[0]
    assert {one["name"] for one in drawn["data"]} == {"held", "transition"}
    assert figures(load.search({"sentence": "none", "periods": []}, 2)) == []


# --- the session -----------------------------------------------------------------------------------------------------


def test_ttft_against_hit_rate_has_a_point_for_each_run_but_searches() -> None:
    document = session()
    (part,) = points_section(document["checks"], 1000)
    drawn = figures([part])[0]
    runs = [run for check in document["checks"] for run in check["runs"] if run["limit"] is None]
    assert sum(len(one["x"]) for one in drawn["data"]) == len(runs) == len(tables([part])[0]) - 1
    router = trace(drawn, "test_router")
    check = by_name(document, "test_router")
    assert (router["x"], router["y"], router["marker"]["symbol"]) == ([0.352], [check["ttft_s"]["p50"]], ["x"])
    assert "test_how_many_users" not in [one["name"] for one in drawn["data"]]
    assert points_section(document["checks"], 5)[0]["blocks"][-1]["left"].startswith(f"{len(runs) - 5} more points")


def cell(rate: float, context: int, ttft: float | None, output: float, verdict: str = "pass") -> dict[str, Any]:
    return {
        "nodeid": f"t.py::test[{rate}-{context}]", "axes": {"rate": rate, "context": context}, "verdict": verdict,
        "hit_rate": rate, "requests": 20, "ttft_p50_s": ttft, "ttft_p95_s": ttft, "output_tok_s": output,
        "level": {"concurrency": 4, "rate": None}, "limit": None,
    }  # fmt: skip


SWEEP = {
    "name": "t.py::test",
    "axes": [{"name": "rate", "values": [0.0, 0.5]}, {"name": "context", "values": [512, 2048]}],
    "cells": [
        cell(0.0, 512, 0.2, 100.0), cell(0.5, 512, 0.1, 150.0),
        cell(0.0, 2048, 0.8, 50.0, "fail"), cell(0.5, 2048, None, 90.0),
    ],
    "statements": ["context 512: TTFT p50 falls"],
}  # fmt: skip


def test_a_sweep_of_two_axes() -> None:
    check = copy.deepcopy(by_name(session(), "test_grid[0.5-512]"))
    check["runs"][0]["stretch"] |= {"input_tok_s": 4000.0}
    (part,) = sweep_section(SWEEP, {"t.py::test[0.5-512]": check}, 100)
    assert part["title"] == "Sweep t.py::test at concurrency 4: 3 passed, 1 failed (!)"
    heat = chart([part], "TTFT p50 (rate across)")["data"][0]
    assert (heat["x"], heat["y"]) == (["0", "0.5"], ["context 512", "context 2048"])
    assert heat["z"] == [[0.2, 0.1], [0.8, None]]
    assert heat["text"] == [["200 ms", "100 ms"], ["800 ms !", ""]]
    lines = chart([part], "TTFT p50 by rate")
    assert trace(lines, "context 2048")["y"] == [0.8, None]
    assert trace(lines, "context 2048")["marker"]["symbol"][0] == "x"
    assert trace(lines, "context 512")["text"][1] == "rate 0.5, context 512: 100 ms, hit rate 0.500"
    assert trace(chart([part], "Output throughput by rate"), "context 512")["y"] == [100.0, 150.0]
    bars = chart([part], "Input and output throughput by context")
    assert trace(bars, "rate 0.5", yaxis="y")["y"] == [150.0, 90.0]
    assert trace(bars, "rate 0.5", yaxis="y2")["y"] == [4000.0, None]
    assert trace(bars, "rate 0.5", yaxis="y")["x"] == ["context 512", "context 2048"]
    assert tables([part])[-1] == [["", "0.5"], ["context 512", "4,000"], ["context 2048", "-"]]


def test_without_input_throughput_nothing_is_compared() -> None:
    (part,) = sweep_section(SWEEP, {}, 100)
    assert not [figure for figure in figures([part]) if "Input" in figure["name"]]


def test_a_sweep_of_one_axis_has_lines_alone() -> None:
    one = SWEEP | {"axes": SWEEP["axes"][:1], "cells": SWEEP["cells"][:2]}
    (part,) = sweep_section(one, {}, 100)
    assert [figure["data"][0]["type"] for figure in figures([part])] == ["scatter", "scatter"]
    assert figures([part])[0]["data"][0]["x"] == [0.0, 0.5]
    named = {"name": "t", "axes": [{"name": "engine", "values": ["a<", "b"]}], "statements": []}
    cells = [one_ | {"axes": {"engine": name}} for one_, name in zip(SWEEP["cells"][:2], ("a<", "b"), strict=True)]
    (part,) = sweep_section(named | {"cells": cells}, {}, 1)
    assert figures([part])[0]["data"][0]["x"] == ["a&lt;", "b"]
    assert figures([part])[0]["layout"]["xaxis"]["type"] == "category"
    assert {"left": "1 more place: in the JSON document (--kv-report)"} in part["blocks"]


def test_a_curve_with_its_knee_and_ceiling() -> None:
    (part,) = curves_section([curve()], 1000)
    drawn = figures([part])[0]
    assert trace(drawn, "agents, lru")["x"] == [16, 32, 64]
    assert trace(drawn, "agents, lru")["y"] == [0.25, 0.5, 0.54]
    knee = trace(drawn, "knee")
    assert (knee["x"], knee["y"], knee["text"]) == (
        [32],
        [0.5],
        ["knee of agents, lru: 32 tokens (2 blocks, 1.00 GiB)"],
    )
    assert trace(drawn, "ceiling")["y"] == [0.55, 0.55]
    summary, points = tables([part])
    assert summary[1] == ["agents", "lru", "16", "1,024", "0.550", "32 tokens (2 blocks, 1.00 GiB)"]
    assert points[2] == ["32", "2", "1.00", "0.500"]


def test_a_curve_of_which_little_is_told() -> None:
    bare = curve() | {"bytes_per_token": None, "ceiling": None, "knee": None}
    bare["points"] = [
        {"blocks": 0, "tokens": 0, "gib": None, "hit_rate": 0.0},
        *(p | {"gib": None} for p in bare["points"]),
    ]
    (part,) = curves_section([bare], 1000)
    assert [one["name"] for one in figures([part])[0]["data"]] == ["agents, lru"]
    assert tables([part])[1][1] == ["0", "0", "0.000"]
    assert curves_section([], 1000) == []
    assert figures(curves_section([bare | {"points": []}], 1000)) == []
