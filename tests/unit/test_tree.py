"""The prefix tree says what comparing every sequence with every other one says."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.simulate.tree import PrefixTree, common_prefix

IDS = st.lists(st.integers(0, 2), max_size=9)
SEQUENCES = st.lists(IDS, max_size=12)


def shared(a: Sequence[int], b: Sequence[int]) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def longest(ids: Sequence[int], others: Sequence[Sequence[int]]) -> int:
    return max((shared(ids, other) for other in others), default=0)


@given(SEQUENCES, IDS)
def test_a_match_is_the_longest_prefix_shared_with_anything_inserted(
    sequences: list[list[int]], ids: list[int]
) -> None:
    tree = PrefixTree()
    for number, sequence in enumerate(sequences):
        assert tree.match(sequence) == longest(sequence, sequences[:number])
        assert tree.insert(sequence) == longest(sequence, sequences[:number])
        assert tree.match(sequence) == len(sequence)
    assert tree.match(ids) == longest(ids, sequences)
    assert tree.root.visits == len(sequences)


@given(SEQUENCES)
def test_every_run_tells_who_brought_it_and_how_many_begin_with_it(sequences: list[list[int]]) -> None:
    tree = PrefixTree()
    for sequence in sequences:
        tree.insert(sequence)
    prefixes = {tuple(s[:n]) for s in sequences for n in range(1, len(s) + 1)}
    assert sum(len(node.run) for node, _ in tree.nodes()) == len(prefixes)  # every distinct prefix once
    for sequence in sequences:
        depth = 0
        for node in tree.path(sequence):
            assert list(node.run) == sequence[depth : depth + len(node.run)]
            depth += len(node.run)
            head = sequence[:depth]
            users = [number for number, other in enumerate(sequences) if other[:depth] == head]
            assert (node.owner, node.visits) == (users[0], len(users))
        assert depth == len(sequence)  # a run ends where a sequence does


@given(SEQUENCES)
def test_a_run_stands_behind_as_many_tokens_as_it_is_told(sequences: list[list[int]]) -> None:
    tree = PrefixTree()
    for sequence in sequences:
        tree.insert(sequence)
    depths = {id(node): depth for node, depth in tree.nodes()}
    for sequence in sequences:
        depth = 0
        for node in tree.path(sequence):
            assert depths[id(node)] == depth
            depth += len(node.run)


def test_runs_are_split_where_sequences_part() -> None:
    tree = PrefixTree()
    assert [tree.insert(ids) for ids in ([1, 2, 3, 4], [1, 2, 5], [1, 2], [1, 2, 3])] == [0, 2, 2, 3]
    assert [(list(node.run), node.owner, node.visits) for node in tree.path([1, 2, 3, 4])] == [
        ([1, 2], 0, 4),
        ([3], 0, 2),
        ([4], 0, 1),
    ]
    with pytest.raises(KeyError):
        list(tree.path([7]))


@given(IDS, IDS)
def test_common_prefix_stops_at_the_first_difference(a: list[int], b: list[int]) -> None:
    assert common_prefix(a, array("I", b)) == shared(a, b)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_common_prefix_of_long_sequences(same: int, left: int, right: int) -> None:
    head = [*range(same)]
    assert common_prefix([*head, *[2_000] * left], [*head, *[3_000] * right]) == same
    assert common_prefix([*head, *[2**32 - 1] * left], head) == same
