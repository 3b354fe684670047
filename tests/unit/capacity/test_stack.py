"""The curve in one pass against caches that are played block by block, at every budget."""

from __future__ import annotations

from array import array
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.capacity.fenwick import Fenwick
from pytest_kvcache.capacity.rules import ENGINE, REFERENCE, Rules
from pytest_kvcache.capacity.runs import RunTree, join
from pytest_kvcache.capacity.stack import LruStack, stack_pass
from pytest_kvcache.capacity.steps import Steps
from pytest_kvcache.model import Row

B = 4
RULES = [REFERENCE, ENGINE, Rules(partial=False), Rules(last_token=False)]


def row(line: int, ids: list[int], length: int, scope: Hashable = None) -> Row:
    return Row(line, length, array("q", ids), scope=scope)


@st.composite
def traces(draw: st.DrawFn) -> list[Row]:
    """Requests over few ids, so that they share, part, end inside one another and come back."""
    rows = []
    for line in range(draw(st.integers(1, 14))):
        ids = draw(st.lists(st.integers(0, 2), min_size=0, max_size=6))
        if rows and draw(st.booleans()):  # a turn that goes on
            ids = [*rows[draw(st.integers(0, len(rows) - 1))].ids, *ids]
        tail = draw(st.integers(1, B))
        length = max(1, (len(ids) - 1) * B + tail) if ids else draw(st.integers(1, 9))
        length += draw(st.sampled_from([0, 0, 0, B]))  # sometimes one block has no id
        rows.append(row(line, ids, length, draw(st.sampled_from(["a", "a", "b"]))))
    return rows


class Played:
    """An LRU cache as the rules say it, one block at a time: a list, most recently used first."""

    def __init__(self, slots: int, rules: Rules) -> None:
        self.slots = slots
        self.rules = rules
        self.cache: list[tuple[object, ...]] = []
        self.evictions = 0

    def use(self, row: Row) -> int:
        names, weights = self._blocks(row)
        hit = 0
        leading = True
        for name, weight in zip(names, weights, strict=True):
            leading = leading and name in self.cache
            hit += weight if leading else 0
        own = names[: self.slots]
        others = [name for name in self.cache if name not in own]
        room = self.slots - len(own)
        self.evictions += len(others) - len(others[:room])
        self.evictions += sum(name in self.cache for name in names[self.slots :] if name not in others[room:])
        self.cache = own + others[:room]
        return hit

    def _blocks(self, row: Row) -> tuple[list[tuple[object, ...]], list[int]]:
        names: list[tuple[object, ...]] = []
        weights = []
        for at in range(len(row.ids)):
            holds = min(B, row.input_length - at * B)
            if holds < B and not self.rules.partial:
                break
            ends = at * B + holds == row.input_length
            names.append((row.scope, *row.ids[: at + 1]))
            weights.append(0 if ends and not self.rules.last_token else holds)
        return names, weights


@pytest.mark.parametrize("rules", RULES)
@given(rows=traces(), warm=st.integers(0, 4))
def test_every_budget_of_the_pass_is_the_cache_of_that_size(rules: Rules, rows: list[Row], warm: int) -> None:
    found = stack_pass(rows, B, rules, warm_rows=warm)
    counted = rows[warm:]
    assert found.requests == len(counted)
    assert found.input_tokens == sum(r.input_length for r in counted)
    assert found.uncovered_tokens == sum(max(0, r.input_length - B * len(r.ids)) for r in counted)
    for slots in range(found.blocks + 2):
        cache = Played(slots, rules)
        hits = [cache.use(r) for r in rows]
        assert found.tokens(slots) == sum(hits[warm:]), slots
        assert found.evictions(slots) == cache.evictions, slots
    assert found.tokens.most == found.tokens(10**9)


@given(rows=traces())
def test_blocks_are_what_is_before_them(rows: list[Row]) -> None:
    distinct = {(r.scope, *r.ids[: at + 1]) for r in rows for at in range(len(r.ids))}
    assert stack_pass(rows, B, REFERENCE).blocks == len(distinct)


def test_distances_by_hand() -> None:
    stack = LruStack()

    def use(*ids: int) -> list[tuple[int, int, int, int]]:
        return stack.use(array("q", ids))

    assert use(1, 2, 3) == []
    assert use(1, 2, 4) == [(0, 2, 1, 0)]  # on top of the stack: 1 2 3
    assert use(9) == []
    # now 9, 1 2 4, 3: the prompt 1 2 3 finds 1 and 2 behind 9, and 3 behind all
    assert use(1, 2, 3) == [(0, 2, 2, 1), (2, 3, 5, 0)]
    assert [stack.since(number) for number in range(5)] == [5, 5, 4, 3, 0]
    assert len(stack) == 4
    assert stack.renumber() == [1, 2, 3]  # of the first request nothing is left
    assert [stack.since(number) for number in range(4)] == [5, 4, 3, 0]
    assert use(1, 2, 4) == [(0, 2, 1, 2), (2, 3, 5, 0)]


def test_weights_of_the_row_count() -> None:
    rows = [Row(n, 9, array("q", [1, 2, 3]), weights=array("q", [4, 2, 3])) for n in range(2)]
    found = stack_pass(rows, B, REFERENCE)
    assert [found.tokens(slots) for slots in range(4)] == [0, 4, 6, 9]
    assert found.uncovered_tokens == 0


def test_what_nothing_parts_is_joined_again() -> None:
    tree = RunTree()
    for ids in ([1, 2, 3], [1, 2], [1, 2, 3, 4], [1, 2, 3, 4]):
        path = tree.path(array("q", ids))
        for run in path:
            run.last = 0
        join(path)
    assert [list(run.ids) for run in tree.path(array("q", [1, 2, 3, 4]))] == [[1, 2, 3, 4]]
    assert tree.blocks == 4


def test_a_trace_keeps_its_ids() -> None:
    """Runs begin as arrays of rows: joining and splitting them must not write there."""
    rows = [row(0, [1, 2, 3], 12), row(1, [1, 2, 3, 4], 16), row(2, [1, 5], 8)]
    stack_pass(rows, B, REFERENCE)
    assert [list(r.ids) for r in rows] == [[1, 2, 3], [1, 2, 3, 4], [1, 5]]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=30))
def test_fenwick_sums_what_is_behind(changes: list[tuple[int, int]]) -> None:
    plain: list[int] = []
    sums = Fenwick()
    for index, amount in changes:
        if plain and index < len(plain):
            plain[index] -= amount
            assert sums.take(index, amount) == sum(plain[index + 1 :])
        else:
            plain.append(amount)
            sums.append(amount)
        assert len(sums) == len(plain)
        assert sums.total == sum(plain)
        assert [sums.behind(at) for at in range(len(plain))] == [sum(plain[at + 1 :]) for at in range(len(plain))]


@given(st.dictionaries(st.integers(1, 20), st.integers(0, 5), max_size=8))
def test_steps_are_sums_over_distances(tokens: dict[int, int]) -> None:
    changes = {d: tokens.get(d, 0) - tokens.get(d - 1, 0) for d in range(1, 22)}
    steps = Steps.of(changes)
    plain = [sum(count for distance, count in tokens.items() if distance <= budget) for budget in range(30)]
    assert [steps(budget) for budget in range(30)] == plain
    assert steps.most == plain[-1]
    for number in range(plain[-1] + 2):
        wanted = next((budget for budget, value in enumerate(plain) if value >= number), None)
        assert steps.reaches(number) == wanted
