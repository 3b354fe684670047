"""The curve that users read: right numbers at every budget, and none where there is no right one."""

from __future__ import annotations

import csv
import io
import json
import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.capacity.budget import Budget, Sizes
from pytest_kvcache.capacity.curve import Curve
from pytest_kvcache.capacity.points import Point
from pytest_kvcache.capacity.rules import ENGINE, REFERENCE
from pytest_kvcache.capacity.stack import stack_pass
from pytest_kvcache.capacity.steps import Steps
from pytest_kvcache.errors import TraceError
from pytest_kvcache.model import Note, Row

B = 4
MIB = 2**20
PROMPTS = ([1, 2, 3], [9], [1, 2, 3], [1, 2, 3])
# Distances: the third request finds its blocks below the 9, at 2, 3 and 4; the fourth at 1, 2 and 3. So hit blocks are
# 0, 1, 3, 5, 6 at budgets 0 to 4. Up to 3 blocks the 9 costs one place and is put out again: 2 evictions.


def rows(*prompts: Sequence[int]) -> list[Row]:
    return [Row(line, len(ids) * B, array("q", ids)) for line, ids in enumerate(prompts, 1)]


def curve(*prompts: Sequence[int], **more: Any) -> Curve:
    return Curve.of_stack(stack_pass(rows(*(prompts or PROMPTS)), B, REFERENCE), B, **more)


def simulated(*points: tuple[int, int, int], **more: Any) -> Curve:
    """A policy of which some budgets are known: of 6 hits at most, among 4 distinct blocks."""
    found = stack_pass(rows(*PROMPTS), B, REFERENCE)
    return Curve.of_points([Point(*point) for point in points], "fifo", found, B, **more)


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    prompts = []
    for _ in range(draw(st.integers(1, 12))):
        start = prompts[draw(st.integers(0, len(prompts) - 1))] if prompts and draw(st.booleans()) else []
        prompts.append([*start, *draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))])
    return curve(*prompts, bytes_per_token=draw(st.sampled_from([None, 3.0, 1 / 3, 131072.0, 70_000.5])))


def test_by_hand() -> None:
    found = curve()
    assert [found.hit_tokens(blocks=at) for at in range(7)] == [0, 4, 12, 20, 24, 24, 24]
    assert [found.hit_rate(blocks=at) for at in range(5)] == [0.0, 0.1, 0.3, 0.5, 0.6]
    assert [found.evictions(blocks=at) for at in range(6)] == [0, 2, 2, 2, 0, 0]
    assert (found.ceiling, found.ceiling_tokens, found.unique_blocks, found.requests) == (0.6, 24, 4, 4)
    assert (found.input_tokens, found.uncovered_tokens, found.policy, found.block_size) == (40, 0, "lru", 4)
    assert found.budget_for(hit_rate=0.3) == Budget(2, 8, None)
    assert found.budget_for(hit_rate=0.31) == Budget(3, 12, None)
    assert found.budget_for(hit_rate=0.0) == Budget(0, 0, None)
    assert found.knee(within=0.1).blocks == 3
    assert found.knee(within=0.09).blocks == 4
    assert found.error(blocks=2) == 0.0


def test_a_budget_is_cut_to_whole_blocks_in_every_unit() -> None:
    found = curve(bytes_per_token=MIB)  # 4 MiB a block, 1,024 tokens a GiB
    assert [found.budget(tokens=tokens).blocks for tokens in (0, 3, 4, 7, 8, 8.9)] == [0, 0, 1, 1, 2, 2]
    assert found.budget(gib=0.0078) == Budget(1, 4, 1 / 256)  # 7.98 tokens
    assert found.budget(gib=2 / 256) == Budget(2, 8, 2 / 256)
    assert found.hit_tokens(tokens=11) == found.hit_tokens(blocks=2) == found.hit_tokens(gib=11 / 1024)
    assert found.hit_rate(blocks=2.0) == 0.3


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        ({}, "one of blocks=, tokens= or gib=; here: none of them"),
        ({"blocks": 1, "gib": 1}, "here: blocks=1, gib=1"),
        ({"blocks": -1}, "blocks=-1: expected a finite number, 0 or more"),
        ({"tokens": math.nan}, "tokens=nan: expected a finite number"),
        ({"tokens": math.inf}, "tokens=inf: expected a finite number"),
        ({"blocks": True}, "blocks=True: expected a finite number"),
        ({"blocks": "4"}, "blocks='4': expected a finite number"),
        ({"blocks": 1.5}, "blocks=1.5: expected whole blocks"),
        ({"gib": 1}, "gib=1: how many bytes .* give model= or kv_bytes_per_token="),
    ],
)
@pytest.mark.parametrize(
    "ask",
    [Curve.hit_tokens, Curve.hit_rate, Curve.evictions, Curve.error, Curve.gain, Curve.regime, Curve.budget],
)
def test_what_is_no_budget_is_an_error(ask: Callable[..., object], budget: dict[str, Any], why: str) -> None:
    with pytest.raises(TraceError, match=why):
        ask(curve(), **budget)


@pytest.mark.parametrize("rate", [-0.1, 1.01, 37, math.nan, True, "0.3", None])
def test_what_is_no_rate_is_an_error(rate: Any) -> None:
    with pytest.raises(TraceError, match=r"expected a rate, 0\.\.1"):
        curve().budget_for(hit_rate=rate)


def test_a_rate_above_the_ceiling_has_no_budget() -> None:
    with pytest.raises(TraceError, match=r"hit_rate=0.61: no budget reaches it.*hits 0\.600000 of rows, the ceiling"):
        curve().budget_for(hit_rate=0.61)
    assert curve().budget_for(hit_rate=0.6).blocks == 4


def test_nothing_counted_has_no_rate() -> None:
    found = Curve.of_stack(stack_pass(rows(*PROMPTS), B, REFERENCE, warm_rows=4), B, name="t", warm=1.0)
    assert found.ceiling is None
    assert found.ceiling_tokens == found.hit_tokens(blocks=9) == 0
    undefined: list[Callable[[], object]] = [
        lambda: found.hit_rate(blocks=1),
        lambda: found.error(blocks=1),
        lambda: found.budget_for(hit_rate=0),
        found.knee,
        lambda: found.gain(blocks=1),
        lambda: found.regime(blocks=1),
    ]
    for ask in undefined:
        with pytest.raises(TraceError, match=r"t: no tokens were counted.*0 of 0 is undefined"):
            ask()
    assert repr(found) == "<Curve lru of t: no tokens counted>"
    assert str(found) == "lru of t: no tokens counted\n\nno tokens were counted"
    assert Curve.from_json(found.to_json()) == found


def test_uncovered_tokens_stay_in_the_denominator() -> None:
    found = Curve.of_stack(stack_pass([Row(n, 10, array("q", [1])) for n in (1, 2)], B, REFERENCE), B)
    assert (found.input_tokens, found.uncovered_tokens, found.ceiling) == (20, 12, 0.2)


@given(curves())
def test_it_never_falls_and_ends_at_the_ceiling(found: Curve) -> None:
    hits = [found.hit_tokens(blocks=at) for at in range(found.unique_blocks + 2)]
    assert hits[0] == 0
    assert hits == sorted(hits)
    assert hits[-1] == hits[found.unique_blocks] == found.ceiling_tokens
    assert found.evictions(blocks=found.unique_blocks) == 0


@given(curves(), st.floats(0, 1))
def test_a_budget_for_a_rate_is_the_smallest_that_has_it(found: Curve, share: float) -> None:
    assert found.ceiling is not None
    rates = [found.hit_rate(blocks=at) for at in range(found.unique_blocks + 1)]
    for rate in {*rates, share * found.ceiling}:
        assert found.budget_for(hit_rate=rate).blocks == next(at for at, has in enumerate(rates) if has >= rate)
    for within in (0.0, share, 0.01):
        least = found.ceiling_tokens - Fraction(str(within)) * found.input_tokens
        assert found.knee(within=within).blocks == next(
            at for at in range(len(rates)) if found.hit_tokens(blocks=at) >= least
        )


@given(st.integers(0, 10**9), st.sampled_from([1, 16, 512]), st.floats(1e-3, 1e9))
def test_gib_given_back_are_the_same_blocks(blocks: int, block_size: int, each: float) -> None:
    sizes = Sizes(block_size, each)
    budget = sizes.budget(blocks)
    assert budget.gib is not None
    assert sizes.blocks(gib=budget.gib) == blocks
    assert sizes.blocks(tokens=budget.tokens) == blocks
    assert budget.gib == pytest.approx(blocks * block_size * each / 2**30)


@given(curves())
def test_json_gives_the_same_curve_back(found: Curve) -> None:
    assert Curve.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found


def test_everything_survives_json() -> None:
    errors = Steps.of({1: 2, 3: -2})
    notes = [Note("uncovered", 3, 7, "3 rows have fewer ids")]
    found = replace(stack_pass(rows(*PROMPTS), B, ENGINE, warm_rows=1), errors=errors)
    exact = Curve.of_stack(
        found,
        B,
        name="t",
        rules="engine",
        bytes_per_token=2.5,
        warm=0.25,
        notes=notes,
    )
    points = simulated((1, 4, 2), (3, 16, 2), bytes_per_token=8, rules="engine", name="t", notes=notes, warm=0.25)
    for one in (exact, points):
        given_back = Curve.from_json(json.loads(json.dumps(one.to_json(), allow_nan=False)))
        assert given_back == one
        assert (given_back.rules, given_back.notes, given_back.warm) == (ENGINE, tuple(notes), 0.25)
        assert given_back.sizes == one.sizes
    assert exact.error(blocks=2) == 4 / 28
    assert "sampled" in repr(exact)


def test_the_document_tells_what_the_curve_tells() -> None:
    document = curve(name="t").to_json()
    assert {
        key: document[key] for key in ("schema", "policy", "ceiling", "ceiling_tokens", "knee", "unique_blocks")
    } == {
        "schema": "pytest-kvcache/curve/1",
        "policy": "lru",
        "ceiling": 0.6,
        "ceiling_tokens": 24,
        "knee": {"blocks": 4, "tokens": 16, "gib": None},
        "unique_blocks": 4,
    }
    assert document["hit_tokens"] == {"at": [0, 1, 3, 4], "value": [0, 4, 20, 24], "slope": [4, 8, 4, 0]}
    assert (document["points"], document["error_tokens"]) == (None, None)


def damaged(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    document = curve().to_json()
    change(document)
    return document


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({}, "schema 'pytest-kvcache/curve/1'; this one None"),
        (damaged(lambda d: d.update(schema="pytest-kvcache/curve/2")), "this one 'pytest-kvcache/curve/2'"),
        (damaged(lambda d: d.pop("requests")), "damaged: KeyError: 'requests'"),
        (damaged(lambda d: d.update(hit_tokens=None)), "damaged: TypeError"),
        (damaged(lambda d: d["hit_tokens"]["at"].pop()), "do not belong together"),
        (damaged(lambda d: d["hit_tokens"].update(at=[1, 2, 3, 4])), "do not belong together"),
        (damaged(lambda d: d["hit_tokens"]["value"].__setitem__(2, 19)), "contradict one another behind 1 blocks"),
        (damaged(lambda d: d["hit_tokens"]["at"].__setitem__(1, 3)), "contradict one another"),
        (damaged(lambda d: d["stored"]["slope"].__setitem__(0, 0.5)), "damaged: TypeError"),
        (damaged(lambda d: d.update(points=[])), "damaged: ValueError: points"),
        (damaged(lambda d: d["rules"].update(other=1)), "damaged: TypeError"),
    ],
)
def test_a_damaged_document_is_an_error(document: dict[str, Any], why: str) -> None:
    with pytest.raises(TraceError, match=why):
        Curve.from_json(document)


def test_csv_has_one_row_a_budget(tmp_path: Path) -> None:
    found = curve(bytes_per_token=MIB)
    out = io.StringIO()
    found.to_csv(out, [0, 2, 4])
    assert list(csv.reader(out.getvalue().splitlines())) == [
        ["blocks", "tokens", "gib", "hit_tokens", "hit_rate", "error", "evictions"],
        ["0", "0", "0.0", "0", "0.0", "0.0", "0"],
        ["2", "8", "0.0078125", "12", "0.3", "0.0", "2"],
        ["4", "16", "0.015625", "24", "0.6", "0.0", "0"],
    ]
    found.to_csv(tmp_path / "c.csv")
    assert [line.split(",")[0] for line in (tmp_path / "c.csv").read_text().split()] == ["blocks", "1", "2", "4"]
    unknown = io.StringIO()
    curve().to_csv(unknown, [2])
    assert unknown.getvalue().endswith("\n2,8,,12,0.3,0.0,2\n")


def test_points_are_only_known_where_they_were_simulated() -> None:
    found = simulated((3, 16, 2), (1, 4, 2), name="t")
    assert found.points == (1, 3, 4)
    assert (found.hit_tokens(blocks=3), found.evictions(blocks=3)) == (16, 2)
    assert (found.ceiling, found.hit_rate(blocks=4), found.evictions(blocks=4)) == (0.6, 0.6, 0)
    assert (found.hit_tokens(blocks=100), found.evictions(blocks=100)) == (24, 0)  # there is nothing to evict
    with pytest.raises(TraceError, match=r"2 blocks were not simulated; .*: 1 and 3\. A curve of fifo"):
        found.hit_rate(tokens=8)
    with pytest.raises(TraceError, match=r"trace.simulate\('fifo', blocks=2\) or trace.sweep\('fifo', budgets="):
        found.evictions(blocks=2)
    with pytest.raises(TraceError, match=r"0 blocks .* that were: 1\. A curve"):
        found.hit_rate(blocks=0)
    assert simulated((1, 4, 2), (10, 24, 0)).points == (1, 4)  # what holds all need not be told twice
    assert found.budget_for(hit_rate=0.2).blocks == 3
    assert found.knee(within=0.2).blocks == 3
    assert found.knee().blocks == 4


def test_of_a_policy_that_gets_worse_with_more_the_smallest_budget_counts() -> None:
    found = simulated((1, 12, 2), (2, 8, 2), (3, 16, 2))
    assert found.budget_for(hit_rate=0.3).blocks == 1
    assert found.gain(blocks=1).hit_tokens == pytest.approx(12 * (1_000_000 / B) / 3)  # the next one is that of all


def test_one_line_for_an_assertion() -> None:
    name = "mooncake"
    assert repr(curve(name=name)) == "<Curve lru of mooncake: ceiling 0.600, knee 4 blocks (16 tokens) within 0.01>"
    assert "knee 4 blocks (16 tokens, 0.0156 GiB)" in repr(curve(bytes_per_token=MIB))
    assert repr(curve([1], [2])) == "<Curve lru of rows: ceiling 0>"


def test_printed_it_is_a_headline_a_drawing_a_table_and_notes() -> None:
    found = curve(name="t", notes=[Note("x", 1, None, "one row was skipped")])
    lines = str(found).splitlines()
    assert lines[0] == "lru of t: ceiling 0.600, knee 4 blocks (16 tokens) within 0.01"
    assert lines[2:14] == found.plot().splitlines()[:12]
    assert lines[-1] == "note: one row was skipped"
    assert str(curve([1], [2])).splitlines()[2] == "hit rate 0: no block is used twice"


def test_an_output_that_takes_ascii_alone_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="cp1252"))
    assert str(curve()).isascii()
