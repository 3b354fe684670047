"""Curves as people see them in a terminal: drawing and table."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.capacity.budget import digits, in_blocks, short
from pytest_kvcache.capacity.curve import Curve
from pytest_kvcache.capacity.plot import Axis, needs_ascii
from pytest_kvcache.capacity.points import Point
from pytest_kvcache.capacity.rules import REFERENCE
from pytest_kvcache.capacity.stack import StackPass, stack_pass
from pytest_kvcache.capacity.steps import Steps
from pytest_kvcache.errors import TraceError
from pytest_kvcache.model import Row

B = 16


def ramp(top: int = 1024) -> StackPass:
    """One hit block at every distance up to ``top``: the rate is the budget / top, half of the input hits."""
    return StackPass(Steps.of({1: B, top + 1: -B}), Steps.of({1: 2 * top, 2: -2 * top}), 9, 2 * B * top, 0, top)


def lines_of(curve: Curve, width: int = 60, height: int = 12) -> list[str]:
    return curve.plot(width, height).splitlines()


def test_a_drawing_by_hand() -> None:
    # 33 columns for 1 to 1,024 blocks, 3 levels a line: 1,024 -> 12 of 12, 825 -> 9.7, 664 -> 7.8, 535 -> 6.3, ...
    drawing = Curve.of_stack(ramp(), B).plot(40, 8, unicode=False)
    assert drawing.splitlines() == [
        "0.500 ------------------------- ceiling",
        "0.375 |                               .#",
        "      |                              :##",
        "0.125 |                           .:####",
        "      |                  .....::########",
        "0.000 +------------+---------+---------+",
        "tokens            208      1.87k   16.4k",
        "     knee 1,004 blocks (16.1 k tokens) ^",
    ]


def test_finer_levels_where_the_terminal_has_them() -> None:
    # eighths of a line: 1,024 -> 32 of 32, 825 -> 25.8, 664 -> 20.8, 535 -> 16.7
    top = lines_of(Curve.of_stack(ramp(), B), 40, 8)
    assert (top[0][-12:], top[1][-4:], top[2][-4:]) == ("╌╌╌╌ ceiling", "  ▂█", "▁▅██")


@given(st.integers(1, 3000), st.integers(30, 90), st.integers(8, 20), st.booleans())
def test_a_drawing_is_as_large_as_asked(top: int, width: int, height: int, unicode: bool) -> None:
    drawing = Curve.of_stack(ramp(top), B).plot(width, height, unicode=unicode)
    assert len(drawing.splitlines()) == height
    assert max(map(len, drawing.splitlines()[:-1])) == width
    assert max(map(len, drawing.splitlines())) <= max(width, 60)
    assert drawing.isascii() is not unicode


@pytest.mark.parametrize("size", [(29, 12), (60, 7), (0, 0), (-5, 12)])
def test_a_drawing_too_small_to_read_is_an_error(size: tuple[int, int]) -> None:
    with pytest.raises(TraceError, match="expected at least 30 columns and 8 lines"):
        Curve.of_stack(ramp(), B).plot(*size)


def test_the_knee_stands_below_its_column() -> None:
    # all hits but one token lie at a distance of 8 blocks, that one at 4,096
    found = StackPass(Steps.of({8: 999, 9: -999, 4096: 1, 4097: -1}), Steps.of({}), 2, 2000, 0, 4096)
    axis = Axis(4, 4096, 53)
    assert axis.at(axis.column(8)) >= 8 > axis.at(axis.column(8) - 1)
    assert lines_of(Curve.of_stack(found, B))[-1] == " " * (7 + axis.column(8)) + "▲ knee 8 blocks (128 tokens)"


def test_simulated_budgets_are_points() -> None:
    points = [Point(64, 64 * B, 9), Point(512, 512 * B, 9)]
    drawing = lines_of(Curve.of_points(points, "fifo", ramp(), B), 40, 8)
    assert [line[7:] for line in drawing[1:5]] == [
        " " * 32 + "●",  # all blocks: the ceiling
        " " * 29 + "●",  # half of the ceiling: the foot of the second line
        "",
        " " * 20 + "●",  # a 16th
    ]


def test_a_table_by_hand() -> None:
    assert Curve.of_stack(ramp(), B, bytes_per_token=2**30 / B).table([512, 0, 1024]).splitlines() == [
        "blocks  tokens    GiB  hit rate  of ceiling     gain  evictions",
        "     0       0      0    0.0000        0.0%                   0",
        "   512   8,192    512    0.2500       50.0%  +0.2500      1,536",
        " 1,024  16,384  1,024    0.5000      100.0%  +0.2500      1,024  ceiling",
    ]


def test_by_default_a_table_has_powers_of_two_the_knee_and_the_ceiling() -> None:
    def budgets(curve: Curve) -> list[str]:
        return [line.split()[0] for line in curve.table().splitlines()[1:]]

    powers = [f"{2**power}" for power in range(10)]
    assert budgets(Curve.of_stack(ramp(), B)) == [*powers, "1,004", "1,024"]
    assert budgets(Curve.of_stack(ramp(1000), B)) == [*powers, "980", "1,000"]
    assert budgets(Curve.of_stack(ramp(2**20), B))[0] == "1,024"
    assert budgets(Curve.of_points([Point(3, B, 1)], "fifo", ramp(), B)) == ["3", "1,024"]
    marked = Curve.of_stack(ramp(), B).table().splitlines()
    assert [line.split()[-1] for line in marked[-2:]] == ["knee", "ceiling"]
    assert Curve.of_stack(ramp(1), B).table().endswith("knee, ceiling")


def test_a_sampled_curve_tells_its_error() -> None:
    curve = Curve.of_stack(replace(ramp(), errors=Steps.of({1: 2, 513: -2})), B)
    assert [line.split()[3] for line in curve.table([256, 512, 1024]).splitlines()[1:]] == [
        "0.0156",
        "0.0312",
        "0.0312",
    ]
    assert "error" in curve.table()
    assert "error" not in Curve.of_stack(ramp(), B).table()


def test_without_any_hit_there_is_nothing_to_draw() -> None:
    rows = [Row(n, B, array("q", [n])) for n in range(3)]
    curve = Curve.of_stack(stack_pass(rows, B, REFERENCE), B)
    assert curve.plot() == "hit rate 0: no block is used twice"
    assert curve.table().splitlines()[1].split() == ["1", "16", "0.0000", "-", "2"]


@pytest.mark.parametrize(
    ("encoding", "ascii_alone"), [("utf-8", False), ("ascii", True), ("cp1252", True), (None, True), ("nothing", True)]
)
def test_what_an_output_takes(encoding: str | None, ascii_alone: bool) -> None:
    assert needs_ascii(encoding) is ascii_alone


def test_numbers_for_people() -> None:
    assert [short(n) for n in (0, 999, 1000, 53_083, 999_499, 999_501, 8_192_000, 27_178_496, 3e9, 5e12)] == [
        "0",
        "999",
        "1 k",
        "53.1 k",
        "999 k",
        "1 M",
        "8.19 M",
        "27.2 M",
        "3 G",
        "5 T",
    ]
    assert [digits(n) for n in (0.0625, 62.5, 999.4, 999.6, 1324.2)] == ["0.0625", "62.5", "999", "1,000", "1,324"]
    assert [in_blocks(n) for n in (0, 1, 53_083)] == ["0 blocks", "1 block", "53,083 blocks"]
