"""Sweeps: which tests are one, what stands in its cells, and the grid that people read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_kvcache.report.document import document
from pytest_kvcache.report.grid import grid
from pytest_kvcache.report.plain import Record
from pytest_kvcache.report.sweeps import sweeps

from .made import WHOLE, Level, Period, Tokens, at, judged, measured, search, stretch


def check(axes: dict[str, Any], hit: int = 500, ttft: float = 0.1, **more: Any) -> Record:
    """A passed test of ``t.py::test``, of five requests of fifty tokens each, one after the other."""
    place = {"name": more.pop("name", "t.py::test"), "axes": axes, "marked": more.pop("marked", False)}
    answers = tuple(
        replace(WHOLE, sent=start, first_content=start + ttft, end=start + 1.0, completion_tokens=50)
        for start in map(float, range(more.pop("requests", 5)))
    )
    run = more.pop("run", measured({"0": Tokens(1000, {"local": hit})}, exchanges=answers))
    runs = () if run is None else (run,)
    identity = "-".join(map(str, axes.values()))
    return judged(*runs, nodeid=f"t.py::test[{identity}]", sweep=place, status=more.pop("status", "pass"), **more)


def rates(*several: float, **more: Any) -> list[Record]:
    return [check({"rate": rate}, round(1000 * rate), 0.1 * (1.1 - rate), **more) for rate in several]


def one(records: Sequence[Record]) -> Record:
    (sweep,) = sweeps(records)
    return sweep


# --- which tests are one ---------------------------------------------------------------------------------------------


def test_tests_without_parameters_are_no_sweep() -> None:
    assert sweeps([judged(measured()), judged(measured())]) == sweeps([]) == []


def test_parameter_sets_of_one_function_are_one_when_a_number_varies() -> None:
    assert one(rates(0.0, 0.5))["name"] == "t.py::test"
    assert sweeps(rates(0.5)) == sweeps(rates(0.5, 0.5)) == []
    assert sweeps([check({"shape": shape}) for shape in ("a", "b")]) == []
    assert sweeps([check({"flag": flag}) for flag in (True, False)]) == []
    assert one([check({"shape": shape, "context": n}) for n, shape in enumerate("ab")])
    assert len(sweeps(rates(0.0, 0.5) + rates(0.0, 0.5, name="u.py::test"))) == 2


def test_only_what_was_measured_makes_one() -> None:
    failed = check({"rate": 1.0}, run=None, status="inconclusive")
    assert sweeps([*rates(0.5), failed]) == []
    sweep = one([*rates(0.0, 0.5), failed])
    assert [cell["hit_rate"] for cell in sweep["cells"]] == [0.0, 0.5, None]
    assert sweep["axes"] == [{"name": "rate", "values": [0.0, 0.5, 1.0]}]


def test_a_marker_makes_one_of_anything() -> None:
    several = [check({"shape": shape}, marked=True, name="shapes") for shape in ("b", "a")]
    assert one(several)["axes"] == [{"name": "shape", "values": ["b", "a"]}]
    assert one(several[:1])["name"] == "shapes"


# --- axes and cells --------------------------------------------------------------------------------------------------


def test_numbers_of_an_axis_ascend_and_words_stay_in_order() -> None:
    several = [check({"x": value}, marked=True) for value in (4, "b", 0.5, "a", 4.0, True, 1, None)]
    assert one(several)["axes"] == [{"name": "x", "values": [0.5, 1, 4, "b", "a", True]}]


def test_axes_of_several_functions_are_joined() -> None:
    several = [check(axes, marked=True) for axes in ({"rate": 0.5}, {"rate": 0.5, "context": 8192})]
    sweep = one(several)
    assert [axis["name"] for axis in sweep["axes"]] == ["rate", "context"]
    assert sweep["axes"][1]["values"] == [8192]


def test_a_cell_in_figures() -> None:
    assert one(rates(0.0, 0.5))["cells"][1] == {
        "nodeid": "t.py::test[0.5]",
        "axes": {"rate": 0.5},
        "verdict": "pass",
        "hit_rate": 0.5,
        "requests": 5,
        "ttft_p50_s": pytest.approx(0.06),
        "ttft_p95_s": pytest.approx(0.06),
        "output_tok_s": 50.0,
        "level": None,
        "limit": None,
    }


def test_cells_of_levels_and_of_searches() -> None:
    period = Period(stretch(Level(2)), "held")
    kept = one([check({"n": n}, run=at(8)) for n in (1, 2)])["cells"][0]
    assert (kept["level"], kept["limit"], kept["output_tok_s"]) == ({"concurrency": 8, "rate": None}, None, 100.0)
    held = one([check({"n": n}, run=search(period)) for n in (1, 2)])["cells"][0]
    assert (held["level"], held["limit"], held["output_tok_s"]) == (None, {"concurrency": 12, "rate": None}, 480.0)
    none = one([check({"n": n}, run=search(period, held=None)) for n in (1, 2)])["cells"][0]
    assert (none["level"], none["limit"], none["ttft_p50_s"], none["output_tok_s"]) == (None, None, None, None)


def test_the_document_holds_them() -> None:
    written = document(rates(0.0, 0.5), endpoint=None, seed=None, interrupted=False)
    assert [cell["nodeid"] for cell in written["sweeps"][0]["cells"]] == [c["nodeid"] for c in written["checks"]]
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert document([judged(measured())], endpoint=None, seed=None, interrupted=False)["sweeps"] == []


# --- statements ------------------------------------------------------------------------------------------------------


def test_ttft_and_output_against_the_hit_rate() -> None:
    assert one(rates(0.0, 0.5))["statements"] == [
        "TTFT p50 falls as the hit rate rises: 110 ms at 0.000, 60.0 ms at 0.500 (45 % less)"
    ]


def test_each_place_on_the_axes_that_do_not_move_it() -> None:
    several = [
        check({"context": context, "rate": rate}, round(1000 * rate), context / 10000 * (1.1 - rate))
        for context in (8192, 512)
        for rate in (0.0, 0.5)
    ]
    assert [line.split(":")[0] for line in one(several)["statements"]] == ["context 512", "context 8192"]


def test_what_cannot_be_told_is_not_compared() -> None:
    low, high = rates(0.0, 0.9)
    middle = check({"rate": 0.5}, 500, 9.0, status="inconclusive")
    assert one([low, middle, high])["statements"] == [
        "TTFT p50 falls as the hit rate rises: 110 ms at 0.000, 20.0 ms at 0.900 (82 % less)"
    ]
    assert one([low, check({"rate": 0.9}, 900, 0.02, status="inconclusive")])["statements"] == []


def test_few_requests_are_not_compared() -> None:
    assert one(rates(0.0, 0.5, requests=4))["statements"] == []


def test_what_holds_against_the_hit_rate() -> None:
    period = Period(stretch(Level(2)), "held")

    def found(rate: float, held: int) -> Record:
        run = replace(search(period, held=held), engines={"0": Tokens(1000, {"local": round(1000 * rate)})})
        return check({"rate": rate}, run=run)

    assert one([found(0.0, 10), found(0.5, 20)])["statements"] == [
        "the level that holds rises with the hit rate: 10 at 0.000, 20 at 0.500 (2.00 times)"
    ]


# --- the grid --------------------------------------------------------------------------------------------------------


def test_one_axis_is_a_table() -> None:
    assert grid(one(rates(0.0, 0.25, 1.0)))[:-1] == [
        "sweep t.py::test: 3 passed",
        "  rate  hit rate  TTFT p50  output tok/s",
        "     0     0.000    110 ms            50",
        "  0.25     0.250   85.0 ms            50",
        "     1     1.000   10.0 ms            50",
    ]


def test_figures_that_are_not_to_be_trusted_are_marked() -> None:
    several = [*rates(0.0), *rates(0.5, status="fail"), check({"rate": 1.0}, run=None, status="inconclusive")]
    assert grid(one([*several, *rates(0.25)]))[:5] == [
        "sweep t.py::test: 2 passed, 1 failed (!), 1 inconclusive (?)",
        "  rate  hit rate  TTFT p50  output tok/s",
        "     0    0.000    110 ms            50",
        "  0.25    0.250   85.0 ms            50",
        "   0.5    0.500!  60.0 ms!           50!",
    ]
    assert grid(one([*several, *rates(0.25)]))[5] == "     1        -?        -?            -?"


def two_axes(rates: Sequence[float], contexts: Sequence[int], **more: Any) -> list[Record]:
    return [
        check({"context": context, "rate": rate} | more, round(1000 * rate), context / 10000 * (1.1 - rate))
        for rate in rates
        for context in contexts
    ]


def test_two_axes_are_a_block_for_each_figure_beside_each_other() -> None:
    assert grid(one(two_axes((0.0, 0.5), (512, 8192))))[:5] == [
        "sweep t.py::test: 4 passed",
        "  by rate:",
        "            hit rate       TTFT p50           output tok/s",
        "  context       0    0.5         0      0.5    0  0.5",
        "      512   0.000  0.500   56.3 ms  30.7 ms   50   50",
    ]


def test_wide_blocks_stand_below_each_other() -> None:
    lines = grid(one(two_axes((0.0, 0.2, 0.4, 0.6, 0.8), (512, 8192))))
    assert lines[1:5] == [
        "  hit rate by rate:",
        "  context       0    0.2    0.4    0.6    0.8",
        "      512   0.000  0.200  0.400  0.600  0.800",
        "     8192   0.000  0.200  0.400  0.600  0.800",
    ]
    assert [line for line in lines if line.endswith(" by rate:")] == [
        "  hit rate by rate:", "  TTFT p50 by rate:", "  output tok/s by rate:"
    ]  # fmt: skip


def test_many_rates_go_down() -> None:
    lines = grid(one(two_axes([number / 20 for number in range(13)], (512, 8192))))
    assert lines[1] == "  by context:"
    assert lines[3].split()[0] == "rate"
    assert len(lines) == 4 + 13 + 2


def test_many_values_on_every_axis_still_are_a_grid() -> None:
    lines = grid(one(two_axes([n / 100 for n in range(14)], range(1, 14))))
    assert lines[1] == "  hit rate by context:"


def test_three_axes_and_a_fixed_one() -> None:
    several = [
        record for engine in ("b", "a") for record in two_axes((0.0, 0.5), (512, 8192), engine=engine, output=64)
    ]
    lines = grid(one(several))
    assert lines[0] == "sweep t.py::test at output 64: 8 passed"
    assert [line.split()[:2] for line in lines[3:8]] == [
        ["context", "engine"], ["512", "b"], ["512", "a"], ["8192", "b"], ["8192", "a"],
    ]  # fmt: skip


def test_holes_and_two_tests_at_one_place() -> None:
    several = two_axes((0.0, 0.5), (512, 8192))[:-1]
    again = check({"context": 512, "rate": 0.0}, 900)
    lines = grid(one([*several, again]))
    assert lines[4].split()[:3] == ["512", "0.000", "0.500"]
    assert lines[5].split()[:2] == ["8192", "0.000"]
    assert len(grid(one([*rates(0.0, 0.5), *rates(0.5)]))) == 6


def test_true_is_not_one() -> None:
    tests = [check({"x": x}, 100 * n) for n, x in enumerate((1, True, 2, 0, False))]
    assert [line.split()[:2] for line in grid(one(tests))[2:7]] == [
        ["0", "0.300"], ["1", "0.000"], ["2", "0.200"], ["True", "0.100"], ["False", "0.400"],
    ]  # fmt: skip
    several = [check({"x": x, "y": y}, 100 * n) for n, (x, y) in enumerate([(1, 1), (True, 1), (1, True), (2, 2)])]
    assert [line[:28].rstrip() for line in grid(one(several))[3:7]] == [
        "     y       1      2   True",
        "     1   0.000         0.100",
        "     2          0.300",
        "  True   0.200",
    ]


def test_of_several_tests_at_one_place_the_worst_is_shown() -> None:
    verdicts = ("pass", "inconclusive", "fail", "pass")
    tests = [check({"x": 1, "y": 1}, 100 * n, status=verdict) for n, verdict in enumerate(verdicts)]
    several = [*tests, check({"x": 2, "y": 2}, 900), check({"x": 2, "y": 2}, 800)]
    assert [cell for line in grid(one(several))[4:6] for cell in line.split() if cell.startswith("0.")] == [
        "0.200!",
        "0.900",
    ]


def test_limits_are_a_figure_of_their_own() -> None:
    period = Period(stretch(Level(2)), "held")
    several = [check({"n": n}, run=search(period, held=held)) for n, held in ((1, 12), (2, None))]
    assert grid(one(several)) == [
        "sweep t.py::test: 2 passed",
        "  n  hit rate  TTFT p50  output tok/s  concurrency that holds",
        "  1     0.700    200 ms           480                      12",
        "  2     0.700         -             -                       -",
    ]


def test_the_level_that_figures_are_from_stands_in_the_title_or_beside_them() -> None:
    def shown(*levels: int) -> list[str]:
        return grid(one([check({"n": n}, run=at(level)) for n, level in enumerate(levels)]))

    assert shown(8, 8)[:2] == [
        "sweep t.py::test at concurrency 8: 2 passed",
        "  n  hit rate  TTFT p50  output tok/s",
    ]
    assert shown(8, 16)[:3] == [
        "sweep t.py::test: 2 passed",
        "  n  hit rate  TTFT p50  output tok/s              at",
        "  0     0.700    200 ms           100   concurrency 8",
    ]
    beside = grid(one([check({"n": 0}, run=at(8)), check({"n": 1})]))
    assert beside[0] == "sweep t.py::test: 2 passed"
    assert [line.split()[-1] for line in beside[1:4]] == ["at", "8", "-"]
    lost = grid(one([check({"n": 0}, run=at(8)), check({"n": 1}, run=at(8)), check({"n": 2}, run=None)]))
    assert lost[0].startswith("sweep t.py::test at concurrency 8: ")


def test_an_axis_without_any_value_is_no_error() -> None:
    assert grid(one([check({"x": None}, marked=True)]))[0] == "sweep t.py::test: 1 passed"


def test_a_figure_that_nobody_knows_has_no_column() -> None:
    lost = [check({"rate": rate}, run=measured({"0": Tokens(1000, {"local": 0})})) for rate in (0.0, 0.5)]
    assert grid(one(lost))[1] == "  rate  hit rate"
