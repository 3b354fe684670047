"""What holds for any trace, policy and rule; and what a simulation says beside its hit tokens."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.capacity.paths import Paths
from pytest_kvcache.capacity.rules import ENGINE, REFERENCE, Rules
from pytest_kvcache.capacity.simulate import POLICIES, Simulation, cache_of, simulate
from pytest_kvcache.capacity.simulated import Rate
from pytest_kvcache.errors import TraceError
from pytest_kvcache.model import Row

from .oracle import RULES, B, covered, play, row, traces

ANY = {
    "rows": traces(),
    "policy": st.sampled_from(POLICIES),
    "rules": st.sampled_from(RULES),
    "slots": st.integers(0, 20),
    "warm": st.integers(0, 4),
}


@given(**ANY)
@settings(max_examples=200)
def test_tokens_add_up(rows: list[Row], policy: str, rules: Rules, slots: int, warm: int) -> None:
    found = simulate(rows, B, policy, slots=slots, rules=rules, warm_rows=warm)
    ceiling = simulate(rows, B, policy, slots=None, rules=rules, warm_rows=warm)
    counted, reuse = rows[warm:], found.reuse
    assert found.hit_tokens + found.miss_tokens + found.uncovered_tokens == found.input_tokens
    assert reuse.compulsory_tokens + reuse.capacity_tokens + reuse.excluded_tokens == found.miss_tokens
    assert min(found.miss_tokens, found.uncovered_tokens, *reuse[1:], 0) == 0
    assert found.hit_tokens + reuse.capacity_tokens == ceiling.hit_tokens
    assert ceiling.reuse.capacity_tokens == ceiling.evictions == 0
    assert found.requests == len(counted) == len(found.per_request)
    assert found.input_tokens == sum(r.input_length for r in counted)
    assert found.uncovered_tokens == sum(r.input_length - covered(r) for r in counted)
    assert found.hit_requests == sum(tokens > 0 for tokens in found.per_request)
    for key, rates in (("session", found.sessions), ("tenant", found.tenants)):
        told: dict[str, Rate] = {}
        for r, tokens in zip(counted, found.per_request, strict=True):
            name = getattr(r, key)
            if name is not None:
                before = told.get(name, Rate(0, 0))
                told[name] = Rate(before.hit_tokens + tokens, before.input_tokens + r.input_length)
        assert rates == told


@given(**ANY)
@settings(max_examples=100)
def test_why_tokens_were_missed(rows: list[Row], policy: str, rules: Rules, slots: int, warm: int) -> None:
    found = simulate(rows, B, policy, slots=slots, rules=rules, warm_rows=warm)
    told = play(rows, "lru", None, rules)
    assert found.reuse.compulsory_tokens == sum(told.compulsory[warm:])
    assert found.hit_tokens + found.reuse.capacity_tokens == sum(told.reusable[warm:])


@given(**ANY)
@settings(max_examples=100)
def test_names_of_ids_and_scopes_are_nothing(rows: list[Row], policy: str, rules: Rules, slots: int, warm: int) -> None:
    renamed = [
        r._replace(ids=array("q", [7 - 3 * block for block in r.ids]), scope=("scope", r.scope), line=r.line + 100)
        for r in rows
    ]
    found, other = (simulate(some, B, policy, slots=slots, rules=rules, warm_rows=warm) for some in (rows, renamed))
    assert found.per_request == other.per_request
    assert (found.hit_tokens, found.evictions, found.residency) == (other.hit_tokens, other.evictions, other.residency)


@pytest.mark.parametrize("policy", POLICIES)
@given(rows=traces(), rules=st.sampled_from(RULES))
@settings(max_examples=40)
def test_no_room_no_hits_and_all_the_room_all_hits(policy: str, rows: list[Row], rules: Rules) -> None:
    nothing, unlimited = (simulate(rows, B, policy, slots=slots, rules=rules) for slots in (0, None))
    assert (nothing.hit_tokens, nothing.evictions) == (0, 0)
    assert simulate(rows, B, policy, slots=10_000, rules=rules).hit_tokens == unlimited.hit_tokens


def test_a_request_is_looked_up_before_it_is_put_in() -> None:
    assert simulate([row(1, [1, 2])], B, slots=None).hit_tokens == 0
    assert simulate([row(1, [1, 1])], B, slots=None).hit_tokens == 0


def test_uncovered_tokens_can_never_hit() -> None:
    found = simulate([row(1, [1], 7), row(2, [1], 7)], B, slots=9)
    assert (found.hit_tokens, found.miss_tokens, found.uncovered_tokens) == (4, 4, 6)
    assert found.hit_rate == 4 / 14


def test_what_engines_never_let_hit() -> None:
    found = simulate([row(1, [1, 2], 7), row(2, [1, 2], 7), row(3, [1, 2], 8)], B, slots=9, rules="engine")
    assert found.rules is ENGINE
    assert list(found.per_request) == [0, 4, 4]
    assert (found.reuse.compulsory_tokens, found.reuse.excluded_tokens) == (4 + 4, 3 + 3)


def test_nothing_of_nothing_is_no_rate() -> None:
    found = simulate([], B, slots=1)
    assert (found.hit_rate, found.request_weighted, found.input_tokens) == (None, None, 0)
    assert simulate([row(1, [1])], B, slots=1, warm_rows=1).hit_rate is None
    assert Rate(0, 0).hit_rate is None
    assert Rate(1, 4).hit_rate == 0.25
    assert simulate([row(1, [1])], B, slots=1).hit_rate == 0.0


def test_what_is_told_of_the_run() -> None:
    rows = [row(1, [1, 2], session="a"), row(2, [3], tenant="t"), row(3, [1, 2], session="a", tenant="t")]
    found = simulate(iter(rows), B, "fifo", slots=8, rules=REFERENCE)
    assert (found.policy, found.rules, found.slots, found.block_size) == ("fifo", REFERENCE, 8, B)
    assert found.sessions == {"a": Rate(8, 16)}
    assert found.tenants == {"t": Rate(8, 12)}
    assert (found.hit_requests, found.request_weighted) == (1, 1 / 3)
    assert (found.engines, found.pooled) == ((), None)
    assert simulate(rows, B, slots=None).slots is None


def test_a_cache_that_is_asked_in_between() -> None:
    rows = [row(1, [1, 2]), row(2, [3]), row(3, [1, 2])]
    paths = Paths(B, REFERENCE)
    run = Simulation(cache_of("lru", 2, paths), REFERENCE)
    seen = []
    for request in rows:
        run.serve(paths.of(request))
        seen.append(run.result("lru", 2, B))
    assert [list(found.per_request) for found in seen] == [[0], [0, 0], [0, 0, 4]]
    assert [found.evictions for found in seen] == [0, 1, 2]


SHARED = [row(1, [1, 7]), row(3, [2, 7]), row(4, [2, 7]), row(6, [3, 7])]


def test_an_id_behind_another_parent_is_another_block() -> None:
    found = simulate(SHARED, B, slots=None)
    assert list(found.per_request) == [0, 0, 8, 0]


def test_scopes_share_nothing() -> None:
    rows = [row(1, [1, 2], scope="a"), row(2, [1, 2], scope="b"), row(3, [2], scope="b"), row(4, [2], scope="a")]
    found = simulate(rows, B, slots=None)
    assert found.hit_tokens == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": "arc", "slots": 1}, "policy='arc': expected 'lru', 'fifo', 'lfu', 's3fifo', 'optimum'"),
        ({"policy": "arc", "slots": None}, "policy='arc'"),
        ({"slots": -1}, "slots=-1: expected a budget in blocks, 0 or more"),
        ({"slots": 1, "rules": "vllm"}, "rules='vllm'"),
        ({"slots": 1, "block_size": 0}, "block_size=0: expected the tokens of a block, at least 1"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        simulate([], **{"block_size": B, **arguments})  # type: ignore[arg-type] # wrong on purpose
