"""Real traces against figures that a brute-force simulator and kvcache-simulator 0.1.3 agree on, to the token."""

from __future__ import annotations

import gzip
import json
from array import array
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_kvcache.capacity.paths import Path as Blocks
from pytest_kvcache.capacity.paths import Paths
from pytest_kvcache.capacity.rules import ENGINE, REFERENCE, Rules
from pytest_kvcache.capacity.simulate import cache_of, simulate
from pytest_kvcache.capacity.simulated import Simulated
from pytest_kvcache.model import Row

DATA = Path(__file__).parents[2] / "data" / "traces"
CONVERSATION = "mooncake_conversation_trace.jsonl.gz"
SYNTHETIC = "mooncake_synthetic_trace.jsonl"
B = 512


@cache
def rows_of(name: str) -> list[Row]:
    text = (DATA / name).read_bytes()
    lines = (gzip.decompress(text) if name.endswith(".gz") else text).splitlines()
    found = [json.loads(line) for line in lines]
    return [
        Row(at, value["input_length"], array("q", value["hash_ids"]), time=value["timestamp"] / 1000)
        for at, value in enumerate(found, 1)
    ]


@cache
def blocks_of(name: str, rules: Rules) -> tuple[list[Blocks], Paths]:
    """A trace whose blocks are numbered, for many budgets."""
    paths = Paths(B, rules)
    return [paths.of(row) for row in rows_of(name)], paths


def hit_tokens(name: str, policy: str, slots: int | None, rules: Rules) -> int:
    """Only the look-ups of a simulation, without what else it tells."""
    served, paths = blocks_of(name, rules)
    held, hits = cache_of(policy, slots, paths), 0
    for now, path in enumerate(served):
        if rules.match == "any":
            hits += sum(map(path.credit_at, held.anywhere(path.blocks)))
        else:
            hits += path.credit(held.leading(path.blocks))
        held.admit(path.blocks, now)
    return hits


class Shape(NamedTuple):
    requests: int
    input_tokens: int
    events: int
    unique: int
    longest: int
    ceiling: int
    cold: float
    warm: float
    mean_of_rates: float
    with_any_hit: int


SHAPES = {
    CONVERSATION: Shape(12_031, 144_793_823, 288_500, 182_790, 247, 54_098_411, 0.373624, 0.398113, 0.409385, 12_030),
    SYNTHETIC: Shape(3_993, 61_194_628, 121_877, 43_924, 374, 39_852_661, 0.651244, 0.862750, 0.431521, 1_782),
}

# slots: LRU hit tokens, cold, warm50, FIFO hit tokens, cold, warm50, LRU evictions
BUDGETS = {
    CONVERSATION: {
        256: (6_190_664, 0.042755, 0.045392, 5_699_144, 0.039360, 0.041984, 276_152),
        1_000: (6_575_459, 0.045413, 0.046732, 6_403_037, 0.044222, 0.045731, 274_653),
        4_000: (12_772_896, 0.088214, 0.085945, 12_196_345, 0.084232, 0.083136, 259_536),
        16_000: (38_785_539, 0.267867, 0.276380, 34_651_883, 0.239319, 0.239678, 196_709),
        32_000: (49_016_486, 0.338526, 0.352107, 44_204_638, 0.305294, 0.308938, 160_719),
        64_000: (53_042_667, 0.366332, 0.383616, 50_561_194, 0.349194, 0.358814, 120_852),
        128_000: (53_930_987, 0.372467, 0.395648, 53_359_595, 0.368521, 0.387234, 55_117),
    },
    SYNTHETIC: {
        256: (1_490_232, 0.024352, 0.035125, 1_346_360, 0.022001, 0.031581, 117_640),
        1_000: (5_245_479, 0.085718, 0.130105, 4_908_762, 0.080216, 0.121677, 110_625),
        4_000: (14_617_729, 0.238873, 0.352982, 14_413_554, 0.235536, 0.347730, 89_300),
        16_000: (33_020_483, 0.539598, 0.724871, 31_068_168, 0.507694, 0.682875, 41_296),
        32_000: (39_138_867, 0.639580, 0.843222, 37_396_660, 0.611110, 0.796413, 13_323),
        64_000: (39_852_661, 0.651244, 0.862750, 39_852_661, 0.651244, 0.862750, 0),
        128_000: (39_852_661, 0.651244, 0.862750, 39_852_661, 0.651244, 0.862750, 0),
    },
}

# slots: LRU head first, LRU any block, FIFO any block, LRU by tokens, LRU as engines have it
VARIANTS: dict[str, dict[int | None, tuple[int, int, int, int, int]]] = {
    CONVERSATION: {
        256: (6_190_664, 6_190_664, 5_699_144, 6_190_664, 6_194_688),
        1_000: (6_567_267, 6_575_459, 6_435_488, 6_606_691, 6_650_880),
        4_000: (12_661_792, 12_772_896, 12_282_015, 12_947_702, 13_314_560),
        16_000: (38_777_859, 38_785_539, 35_643_132, 39_215_026, 39_565_824),
        32_000: (49_015_462, 49_016_486, 45_362_876, 49_451_030, 49_793_024),
        64_000: (53_042_667, 53_042_667, 51_453_183, 53_069_803, 53_132_800),
        128_000: (53_930_987, 53_930_987, 53_664_747, 53_940_715, 53_973_504),
        None: (54_098_411, 54_098_411, 54_098_411, 54_098_411, 54_063_104),
    },
    SYNTHETIC: {
        256: (1_283_896, 1_490_232, 1_540_920, 1_501_496, 1_526_272),
        1_000: (5_142_055, 5_245_479, 5_095_804, 5_283_879, 5_309_440),
        4_000: (14_349_953, 14_617_729, 14_678_397, 15_106_574, 15_471_104),
        16_000: (33_008_707, 33_020_483, 31_222_665, 33_235_355, 33_479_680),
        32_000: (39_138_867, 39_138_867, 37_456_013, 39_333_375, 39_447_552),
        64_000: (39_852_661, 39_852_661, 39_852_661, 39_852_661, 39_802_880),
        128_000: (39_852_661, 39_852_661, 39_852_661, 39_852_661, 39_802_880),
        None: (39_852_661, 39_852_661, 39_852_661, 39_852_661, 39_802_880),
    },
}
KINDS = {
    "head_first": (0, "lru", Rules(ages="head_first")),
    "lru_any_block": (1, "lru", Rules(match="any")),
    "fifo_any_block": (2, "fifo", Rules(match="any")),
    "tokens": (3, "lru", Rules(charge="tokens")),
    "engine": (4, "lru", ENGINE),
}


def warm_rate(found: Simulated, name: str) -> float:
    """The rate of the second half, from the hits of each request of a cold run."""
    rows = rows_of(name)
    half = len(rows) // 2
    return sum(found.per_request[half:]) / sum(row.input_length for row in rows[half:])


@pytest.mark.parametrize("name", SHAPES)
def test_shape_ceiling_and_three_meanings_of_a_hit_rate(name: str) -> None:
    shape, rows = SHAPES[name], rows_of(name)
    found = simulate(rows, B, slots=None)
    assert (found.requests, found.input_tokens, found.uncovered_tokens) == (shape.requests, shape.input_tokens, 0)
    assert sum(len(row.ids) for row in rows) == shape.events
    assert len(blocks_of(name, REFERENCE)[1].costs) == shape.unique
    assert max(len(row.ids) for row in rows) == shape.longest
    assert (found.hit_tokens, found.evictions) == (shape.ceiling, 0)
    assert found.hit_rate == pytest.approx(shape.cold, abs=5e-7)
    assert warm_rate(found, name) == pytest.approx(shape.warm, abs=5e-7)
    rates = [hit / row.input_length for hit, row in zip(found.per_request, rows, strict=True)]
    assert sum(rates) / len(rates) == pytest.approx(shape.mean_of_rates, abs=5e-7)
    assert found.hit_requests == shape.with_any_hit
    assert found.request_weighted == shape.with_any_hit / shape.requests
    assert found.reuse.capacity_tokens == found.reuse.excluded_tokens == 0
    assert found.notes == ()


@pytest.mark.parametrize(("name", "slots"), [(name, slots) for name, budgets in BUDGETS.items() for slots in budgets])
def test_budgets(name: str, slots: int) -> None:
    lru_tokens, lru_cold, lru_warm, fifo_tokens, fifo_cold, fifo_warm, evictions = BUDGETS[name][slots]
    lru, fifo = (simulate(rows_of(name), B, policy, slots=slots) for policy in ("lru", "fifo"))
    assert (lru.hit_tokens, lru.evictions, fifo.hit_tokens) == (lru_tokens, evictions, fifo_tokens)
    assert (lru.hit_rate, fifo.hit_rate) == pytest.approx((lru_cold, fifo_cold), abs=5e-7)
    assert (warm_rate(lru, name), warm_rate(fifo, name)) == pytest.approx((lru_warm, fifo_warm), abs=5e-7)
    for found in (lru, fifo):
        assert found.hit_tokens + found.reuse.capacity_tokens == SHAPES[name].ceiling


@pytest.mark.parametrize(("name", "slots"), [(CONVERSATION, 16_000), (SYNTHETIC, 4_000), (SYNTHETIC, None)])
def test_the_first_half_only_fills(name: str, slots: int | None) -> None:
    rows = rows_of(name)
    found = simulate(rows, B, slots=slots, warm_rows=len(rows) // 2)
    expected = SHAPES[name].warm if slots is None else BUDGETS[name][slots][2]
    assert found.requests == len(rows) - len(rows) // 2
    assert found.hit_rate == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VARIANTS)
def test_other_rules(name: str, kind: str) -> None:
    column, policy, rules = KINDS[kind]
    found = {slots: hit_tokens(name, policy, slots, rules) for slots in VARIANTS[name]}
    assert found == {slots: values[column] for slots, values in VARIANTS[name].items()}
    assert simulate(rows_of(name), B, policy, slots=4_000, rules=rules).hit_tokens == found[4_000]


def test_fifo_can_beat_lru() -> None:
    rows = rows_of(SYNTHETIC)[:1000]
    lru, fifo = (simulate(rows, B, policy, slots=4_000) for policy in ("lru", "fifo"))
    assert (lru.hit_tokens, fifo.hit_tokens, lru.input_tokens) == (576_735, 605_919, 11_851_558)


def test_the_optimum_is_above_all_and_close_to_what_a_schedule_reaches() -> None:
    found = simulate(rows_of(SYNTHETIC), B, "optimum", slots=4_000)
    (note,) = found.notes
    assert note.reason == "optimum_schedule"
    assert found.hit_tokens * 0.999 < note.count <= found.hit_tokens < SHAPES[SYNTHETIC].ceiling
    for policy in ("lfu", "s3fifo"):
        assert simulate(rows_of(SYNTHETIC), B, policy, slots=4_000).hit_tokens < note.count
    assert BUDGETS[SYNTHETIC][4_000][0] < note.count
