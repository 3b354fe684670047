"""What no policy exceeds, against all that can be kept: every choice after every request is tried."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_kvcache.capacity.paths import Paths
from pytest_kvcache.capacity.policies import Foresight, bound
from pytest_kvcache.capacity.policies.optimum import most
from pytest_kvcache.capacity.rules import ENGINE, REFERENCE, Rules
from pytest_kvcache.capacity.simulate import simulate
from pytest_kvcache.errors import TraceError
from pytest_kvcache.model import Row

from .oracle import RULES, B, best, row, traces

TINY = traces(requests=7, longest=3)
WHOLE = traces(requests=7, longest=3, whole=True)


def distinct(rows: list[Row]) -> int:
    return len({(r.scope, *r.ids[: at + 1]) for r in rows for at in range(len(r.ids))})


@given(rows=WHOLE, slots=st.integers(0, 5), match=st.sampled_from(["prefix", "any"]), warm=st.integers(0, 3))
@settings(max_examples=150)
def test_it_is_the_optimum_where_blocks_are_worth_the_same(rows: list[Row], slots: int, match: str, warm: int) -> None:
    assume(distinct(rows) <= 12)
    rules = Rules(match="any" if match == "any" else "prefix")
    found = simulate(rows, B, "optimum", slots=slots, rules=rules, warm_rows=warm)
    assert found.hit_tokens == best(rows, slots, rules, warm)
    assert sum(found.per_request) == found.hit_tokens  # and a schedule reaches it
    assert "optimum_schedule" not in {note.reason for note in found.notes}


@given(rows=TINY, slots=st.integers(0, 5), rules=st.sampled_from(RULES), warm=st.integers(0, 3))
@settings(max_examples=150)
def test_nothing_exceeds_it(rows: list[Row], slots: int, rules: Rules, warm: int) -> None:
    assume(distinct(rows) <= 12)
    found = simulate(rows, B, "optimum", slots=slots, rules=rules, warm_rows=warm)
    reached = sum(found.per_request)
    assert reached <= best(rows, slots, rules, warm) <= found.hit_tokens
    told = {note.reason: note.count for note in found.notes}.get("optimum_schedule", found.hit_tokens)
    assert told == reached


@given(rows=traces(requests=20), slots=st.integers(0, 20), rules=st.sampled_from(RULES), warm=st.integers(0, 5))
@settings(max_examples=60)
def test_no_policy_exceeds_it(rows: list[Row], slots: int, rules: Rules, warm: int) -> None:
    found = simulate(rows, B, "optimum", slots=slots, rules=rules, warm_rows=warm)
    ceiling = simulate(rows, B, slots=None, rules=rules, warm_rows=warm).hit_tokens
    assert found.hit_tokens <= ceiling
    for policy in ("lru", "fifo", "lfu", "s3fifo"):
        assert simulate(rows, B, policy, slots=slots, rules=rules, warm_rows=warm).hit_tokens <= found.hit_tokens
    assert found.hit_tokens + found.miss_tokens + found.uncovered_tokens == found.input_tokens
    reuse = found.reuse
    assert reuse.compulsory_tokens + reuse.capacity_tokens + reuse.excluded_tokens == found.miss_tokens
    if slots >= distinct(rows):
        assert found.hit_tokens == ceiling
        assert found.evictions == 0


def test_by_hand() -> None:
    rows = [row(1, [1]), row(2, [2]), row(3, [3]), row(4, [1]), row(5, [2]), row(6, [3])]
    assert simulate(rows, B, slots=2).hit_tokens == 0  # LRU always drops what is needed next
    found = simulate(rows, B, "optimum", slots=2)
    assert (found.hit_tokens, found.hit_requests, found.evictions) == (2 * B, 2, 0)  # 3 is not let in
    assert found.notes == ()
    assert simulate(rows, B, "optimum", slots=1).hit_tokens == B


def test_a_known_schedule_that_may_not_be_the_best_is_told() -> None:
    # one slot: kept is what is needed first, a partial block of one token, and not the full one
    rows = [row(1, [1]), row(2, [2], 1), row(3, [2], 1), row(4, [1])]
    found = simulate(rows, B, "optimum", slots=1)
    assert best(rows, 1, REFERENCE) == 4
    assert found.hit_tokens == 4
    assert sum(found.per_request) == 1
    (note,) = found.notes
    assert (note.reason, note.count, note.line) == ("optimum_schedule", 1, None)
    assert "no policy has more than 4 hit tokens; a schedule with 1 is known" in note.sentence
    assert (found.miss_tokens, found.reuse.capacity_tokens) == (6, 1)


def test_hits_of_warm_rows_are_worth_nothing() -> None:
    rows = [row(1, [1]), row(2, [2]), row(3, [2]), row(4, [1])]
    assert simulate(rows, B, "optimum", slots=1, warm_rows=3).hit_tokens == B
    assert best(rows, 1, REFERENCE, 3) == B


def test_a_block_is_needed_for_its_latest_reason() -> None:
    """2 is not worth keeping from the second request to the third, which is warm, but from there to the last."""
    rows = [row(1, [1]), row(2, [2]), row(3, [2]), row(4, [3]), row(5, [3]), row(6, [2])]
    found = simulate(rows, B, "optimum", slots=2, warm_rows=3)
    assert list(found.per_request) == [0, B, B]


def test_many_values_are_few_layers() -> None:
    """Forty blocks of 1 to 40 tokens that each come twice, at once: the best has the largest ones."""
    size, slots = 40, 7
    first = [Row(n, n, row(1, [n]).ids) for n in range(1, 41)]
    rows = [*first, *(request._replace(line=40 + request.line) for request in first)]
    found = simulate(rows, size, "optimum", slots=slots)
    exact = sum(range(34, 41))  # what is kept from the first half to the second
    step = Fraction(40, 16)
    rounded = sum(-(-n // step) * step for n in range(34, 41))
    assert exact <= found.hit_tokens <= rounded
    assert found.hit_tokens == int(rounded)
    everything = simulate(rows, size, "optimum", slots=40)
    assert (everything.hit_tokens, everything.notes) == (sum(range(1, 41)), ())  # never above the ceiling


def test_most_by_hand() -> None:
    stays = {(0, 3): 2, (1, 2): 2, (2, 4): 1, (3, 4): 3}
    assert most(stays, 0) == 0
    assert most(stays, 1) == 1 + 1  # (1, 2), then one of what ends last
    assert most(stays, 2) == 2 + 2
    assert most(stays, 3) == 2 + 1 + 1 + 2
    assert most(stays, 100) == 8


def test_the_bound_of_tokens_counts_tokens() -> None:
    rules = Rules(charge="tokens")
    rows = [row(1, [1, 2], 5), row(2, [3, 4], 5), row(3, [1, 2], 5), row(4, [3, 4], 5)]
    paths = Paths(B, rules)
    served = [paths.of(request) for request in rows]
    foresight = Foresight(served, paths.costs, 0)
    assert foresight.stays == {Fraction(1): {(0, 2): 5, (1, 3): 5}}
    assert [bound(foresight, room) for room in (0, 1, 5, 7, 10)] == [0, 1, 5, 7, 10]  # both stay from 1 to 2


@pytest.mark.parametrize("rules", [REFERENCE, ENGINE])
def test_without_a_limit_it_is_the_ceiling(rules: Rules) -> None:
    rows = [row(1, [1, 2]), row(2, [1, 2]), row(3, [1, 3])]
    found = simulate(rows, B, "optimum", slots=None, rules=rules)
    assert found.policy == "optimum"
    assert found.hit_tokens == simulate(rows, B, slots=None, rules=rules).hit_tokens


def test_a_budget_below_nothing_is_an_error() -> None:
    with pytest.raises(TraceError, match="slots=-1: expected a budget in blocks"):
        simulate([row(1, [1])], B, "optimum", slots=-1)
