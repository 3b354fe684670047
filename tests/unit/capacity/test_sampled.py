"""The curve of a sample beside the exact one."""

from __future__ import annotations

import gzip
import heapq
import itertools
import json
import random
from array import array
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.capacity import sampled
from pytest_kvcache.capacity.branches import Branches
from pytest_kvcache.capacity.curve import Curve
from pytest_kvcache.capacity.rules import ENGINE, REFERENCE, Rules
from pytest_kvcache.capacity.sampled import SampledPass, Sampler, sampled_pass
from pytest_kvcache.capacity.stack import StackPass, stack_pass
from pytest_kvcache.errors import TraceError
from pytest_kvcache.model import Row

from .test_stack import RULES, B, traces

DATA = Path(__file__).parents[2] / "data" / "traces"
CONVERSATION, SYNTHETIC = "mooncake_conversation_trace.jsonl.gz", "mooncake_synthetic_trace.jsonl"


@cache
def mooncake(name: str) -> list[Row]:
    with (gzip.open if name.endswith(".gz") else open)(DATA / name, "rt") as file:
        told = [json.loads(line) for line in file]
    return [Row(line, one["input_length"], array("q", one["hash_ids"])) for line, one in enumerate(told, 1)]


def chats(
    requests: int,
    *,
    turns: float = 2.5,
    going: int = 500,
    systems: int = 12,
    every: int | None = None,
    size: int = 1,
    seed: int = 0,
) -> Iterator[Row]:
    """Sessions of several turns behind system prompts of which some are much used; ``every`` so many requests two of
    these are replaced. Blocks of 16."""
    draw = random.Random(seed)
    fresh = itertools.count()

    def blocks(least: int, most: int) -> array[int]:
        return array("q", itertools.islice(fresh, draw.randint(least * size, most * size)))

    heads = [blocks(2, 12) for _ in range(systems)]
    heap = [(draw.random() * going, draw.random(), array("q"), True) for _ in range(going)]
    for line in range(1, requests + 1):
        if every and line % every == 0:
            heads[0], heads[draw.randrange(systems)] = blocks(2, 12), blocks(2, 12)
        time, _, ids, new = heapq.heappop(heap)
        if new:
            ids = array("q", heads[int(systems * draw.random() ** 3)])
        ids = ids + blocks(1, 6)
        yield Row(line, 16 * len(ids) - draw.randrange(16), ids)
        # the last block was not full, and is another one in the next turn
        heapq.heappush(heap, (time + draw.expovariate(1 / going), draw.random(), ids[:-1], draw.random() < 1 / turns))


@cache
def generated(requests: int, every: int | None = None) -> tuple[list[Row], StackPass]:
    rows = list(chats(requests, every=every))
    return rows, stack_pass(rows, 16, REFERENCE)


def far(found: SampledPass, exact: StackPass) -> tuple[float, float]:
    """The largest error of the hit rate, and the largest in relation to what is stated; at budgets of a fine grid."""
    assert (found.input_tokens, found.uncovered_tokens, found.requests) == (
        exact.input_tokens,
        exact.uncovered_tokens,
        exact.requests,
    )
    budgets = sorted({round(2 ** (step / 4)) for step in range(4 * exact.blocks.bit_length() + 1)})
    off = [abs(found.tokens(blocks) - exact.tokens(blocks)) for blocks in budgets]
    stated = [found.errors(blocks) if found.errors else 0 for blocks in budgets]
    return max(off) / exact.input_tokens, max(is_off / max(1, may) for is_off, may in zip(off, stated, strict=True))


def inside(found: SampledPass, exact: StackPass) -> float:
    """In how many of the budgets the error is within the stated one."""
    budgets = [round(2 ** (step / 2)) for step in range(2 * exact.blocks.bit_length() + 1)]
    assert found.errors is not None
    right = [abs(found.tokens(blocks) - exact.tokens(blocks)) <= found.errors(blocks) for blocks in budgets]
    return sum(right) / len(right)


@pytest.mark.parametrize("rules", RULES)
@given(rows=traces(), warm=st.integers(0, 4), window=st.integers(1, 9))
def test_of_all_sessions_it_is_exact(rules: Rules, rows: list[Row], warm: int, window: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampled, "_LEAST", 2)  # so that there is a trunk
        found = sampled_pass(rows, B, rules, share=1.0, warm_rows=warm, window=window)
    assert replace(found, held=0) == SampledPass(
        **{name: getattr(stack_pass(rows, B, rules, warm_rows=warm), name) for name in StackPass.__dataclass_fields__},
        share=1.0,
        sampled=len(rows),
    )


@pytest.mark.parametrize("name", [CONVERSATION, SYNTHETIC])
@pytest.mark.parametrize("rules", [REFERENCE, ENGINE])
def test_of_all_sessions_of_mooncake_it_is_exact(name: str, rules: Rules) -> None:
    rows = mooncake(name)
    found, exact = (
        sampled_pass(rows, 512, rules, window=1000, warm_rows=100),
        stack_pass(rows, 512, rules, warm_rows=100),
    )
    assert (found.tokens, found.stored, found.blocks, found.errors, found.notes) == (
        exact.tokens,
        exact.stored,
        exact.blocks,
        None,
        (),
    )


@pytest.mark.parametrize("name", [CONVERSATION, SYNTHETIC])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_mooncake_is_within_what_is_stated(name: str, share: float) -> None:
    rows = mooncake(name)
    exact = stack_pass(rows, 512, REFERENCE)
    found = [sampled_pass(rows, 512, REFERENCE, share=share, seed=seed, window=1000) for seed in range(5)]
    off, of_stated = zip(*(far(one, exact) for one in found), strict=True)
    assert sum(ratio <= 1 for ratio in of_stated) >= 3  # of whole curves
    assert sum(inside(one, exact) for one in found) / 5 > 0.9
    # few sessions, of which some are large: 0.1 of the synthetic trace are 230 of them
    assert sum(off) / len(off) < {0.1: 0.09, 0.3: 0.05, 0.5: 0.03}[share]


@pytest.mark.parametrize("every", [None, 5000])
def test_two_of_a_hundred_sessions_tell_the_curve(every: int | None) -> None:
    """Also of traffic whose system prompts are replaced all the time."""
    rows, exact = generated(60_000, every)
    found = sampled_pass(iter(rows), 16, REFERENCE, share=0.02, seed=1, window=5000)
    off, of_stated = far(found, exact)
    assert off < 0.02
    assert of_stated < 1.5
    assert 500 < found.sampled < 2500
    assert found.blocks == pytest.approx(exact.blocks, rel=0.05)
    for blocks in (1000, 5000, 20_000, 10**6):
        assert found.evictions(blocks) == pytest.approx(exact.evictions(blocks), rel=0.05, abs=exact.blocks / 20)


def test_distances_within_shared_beginnings_are_not_blown_up() -> None:
    """One system prompt of 8 blocks and sessions of one block: all of it hits in a cache of 9 blocks."""
    rows = [Row(n, 9 * B, array("q", [*range(8), 100 + n])) for n in range(4000)]
    found = sampled_pass(rows, B, REFERENCE, share=0.01, window=50)
    exact = stack_pass(rows, B, REFERENCE)
    assert exact.tokens.reaches(exact.tokens.most) == found.tokens.reaches(found.tokens.most) == 8
    # the first request found nothing, and need not be in the sample
    assert [exact.tokens(blocks) for blocks in range(9)] == [3999 * B * blocks for blocks in range(9)]
    assert all(0 <= found.tokens(blocks) - exact.tokens(blocks) <= B * blocks for blocks in range(9))


def test_requests_without_a_branch_are_sampled_like_others() -> None:
    """Most ask for the 4 blocks of A alone, which stay at hand in a cache of 4, one of ten for B and more."""
    rows = []
    for n in range(6000):
        ids = [*range(10, 18), 1000 + n] if n % 10 == 0 else [*range(4), 1000 + n] if n % 10 == 5 else range(4)
        rows.append(Row(n, len(ids) * B, array("q", ids)))
    exact = stack_pass(rows, B, REFERENCE)
    found = sampled_pass(rows, B, REFERENCE, share=0.1, window=200)
    assert exact.tokens(4) / exact.tokens.most == pytest.approx(
        8 * 4 / (9 * 4 + 8), abs=0.001
    )  # A is not at hand after B
    assert found.tokens(4) == pytest.approx(exact.tokens(4), rel=0.05)
    assert found.sampled == pytest.approx(600, abs=75)


def test_a_session_of_its_own_does_not_stand_for_others() -> None:
    """Two turns of 40 blocks, the second one after 100 requests of one block each: at a distance of 101 to 140."""
    fresh = itertools.count(10_000)
    rows = []
    for session in range(300):
        turn = array("q", range(session * 40 + 10**6, session * 40 + 10**6 + 40))
        rows.append(Row(0, 40 * B, turn))
        rows += [Row(0, B, array("q", [next(fresh)])) for _ in range(100)]
        rows.append(Row(0, 40 * B, turn))
    exact = stack_pass(rows, B, REFERENCE)
    assert (exact.tokens(100), exact.tokens(101), exact.tokens(140)) == (0, 300 * B, 300 * 40 * B)
    found = sampled_pass(rows, B, REFERENCE, share=0.1, window=100)
    # as far as the coarse grid goes on which the regression stands: 96, 112, ... 160
    assert found.tokens(96) == 0
    assert found.tokens(100) < found.tokens.most / 100
    assert found.tokens(112) == pytest.approx(exact.tokens(112), rel=0.2)
    assert found.tokens(160) == found.tokens.most == pytest.approx(exact.tokens.most, rel=0.2)


@pytest.mark.parametrize(("size", "most", "bound"), [(1, 16_000, "runs"), (20, 64_000, "blocks")])
def test_what_is_held_stays_within_the_bound(size: int, most: int, bound: str) -> None:
    rows = list(chats(20_000, size=size))
    branches = Branches(1.0, most)
    sampler = Sampler(16, REFERENCE, branches, 0, 0, 1000)
    rest = iter(rows)
    sampler.read(sampler.prepare(rest))
    shares, seen = [branches.share], {"runs": 0, "blocks": 0}
    for part in iter(lambda: list(itertools.islice(rest, 20)), []):
        sampler.read(part)
        runs = list(branches._stack.tree.runs())
        seen = {"runs": max(seen["runs"], len(runs)), "blocks": max(seen["blocks"], sum(len(run.ids) for run in runs))}
        requests = len(branches._stack)
        assert len(branches._rows) == len(branches._events) == len(branches._touched) == requests <= most // 8
        shares.append(branches.share)
    found = sampler.result()
    assert seen["blocks"] <= found.held <= most
    assert seen["runs"] <= most // 8
    assert seen[bound] > {"runs": most / 16, "blocks": 0.9 * most}[bound]
    assert shares == sorted(shares, reverse=True)
    assert {1.0 / share for share in shares} <= {2.0**power for power in range(9)}
    assert found.share == shares[-1] < 0.3
    assert far(found, stack_pass(rows, 16, REFERENCE))[1] < 1.5


def test_a_share_is_halved_too_when_more_would_be_held() -> None:
    rows, exact = generated(60_000)
    found = sampled_pass(rows, 16, REFERENCE, share=0.3, max_blocks=20_000, window=1000)
    assert found.held <= 20_000
    assert found.share in [0.3 / 2**power for power in range(1, 6)]
    assert far(found, exact)[0] < 0.02


def test_the_same_seed_is_the_same_sample() -> None:
    rows = generated(60_000)[0][:20_000]
    found = [sampled_pass(rows, 16, REFERENCE, share=0.1, seed=seed, window=1000) for seed in (3, 3, 4)]
    assert found[0] == found[1] != found[2]


def test_ids_of_a_scope_are_its_own() -> None:
    """Sessions that number their blocks anew, as those of separate files do."""
    rows = [replace_scope(row, f"file {n % 400}") for n, row in enumerate(chats(4000, going=1, systems=1))]
    local = [row._replace(ids=array("q", range(len(row.ids)))) for row in rows]
    exact = stack_pass(local, 16, REFERENCE)
    found = sampled_pass(local, 16, REFERENCE, share=0.3, window=100)
    assert 600 < found.sampled < 1800
    assert far(found, exact)[1] < 1.5


def replace_scope(row: Row, scope: str) -> Row:
    return row._replace(scope=scope)


def test_warm_rows_only_fill() -> None:
    rows = generated(60_000)[0]
    exact = stack_pass(rows, 16, ENGINE, warm_rows=30_000)
    found = sampled_pass(rows, 16, ENGINE, warm_rows=30_000, share=0.1, window=5000)
    off, of_stated = far(found, exact)
    assert off < 0.02
    assert of_stated < 1.5
    assert found.blocks == pytest.approx(exact.blocks, rel=0.05)


def test_weights_of_rows_count() -> None:
    rows = [
        row._replace(weights=array("q", [16] * (len(row.ids) - 1) + [3]), input_length=16 * len(row.ids) - 13)
        for row in generated(60_000)[0][:10_000]
    ]
    exact = stack_pass(rows, 16, REFERENCE)
    found = sampled_pass(rows, 16, REFERENCE, share=0.2, window=2000)
    assert found.uncovered_tokens == 0
    assert far(found, exact)[0] < 0.02


def test_a_curve_tells_that_it_is_sampled() -> None:
    rows, exact = generated(60_000)
    found = sampled_pass(rows, 16, REFERENCE, share=0.05, window=5000)
    curve = Curve.of_stack(found, 16, name="chats")
    assert curve.errors == found.errors
    assert 0 < curve.error(blocks=2000) < 0.03
    assert curve.error(blocks=0) == 0
    assert abs(curve.hit_rate(blocks=2000) - exact.tokens(2000) / exact.input_tokens) <= curve.error(blocks=2000)
    assert curve.notes == found.notes
    assert f"estimated from {found.sampled:,} requests, those of 0.05 of the sessions" in str(curve)
    off = found.errors(found.blocks) / found.input_tokens if found.errors else 0.0
    assert f"lru of chats: ceiling {curve.ceiling:.3f} (sampled, error {off:.3f}), knee" in repr(curve)
    assert Curve.from_json(json.loads(json.dumps(curve.to_json()))) == curve


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"share": 0}, "sample=0: expected a share of the sessions, above 0 and up to 1"),
        ({"share": 1.5}, "sample=1.5: expected a share"),
        ({"share": float("nan")}, "sample=nan: expected a share"),
        ({"share": True}, "sample=True: expected a share"),
        ({"max_blocks": 0}, "max_blocks=0: expected a whole number, 1 or more"),
        ({"max_blocks": 2.5}, "max_blocks=2.5: expected a whole number"),
        ({"window": -1}, "window=-1: expected a whole number"),
    ],
)
def test_what_is_no_sample_is_an_error(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(TraceError, match=why):
        sampled_pass([], 16, REFERENCE, **wrong)


def test_a_sample_of_nothing_is_an_error() -> None:
    rows = generated(60_000)[0][:1000]
    with pytest.raises(TraceError, match=r"the sample has none of 1,000 requests: give a larger share"):
        sampled_pass(rows, 16, REFERENCE, share=1e-9, window=10)
    nothing = sampled_pass([], 16, REFERENCE, share=0.5)
    assert (nothing.input_tokens, nothing.tokens.most, nothing.errors) == (0, 0, None)
