"""Which parts two prefixes of a tree have in common."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.workloads.paths import Part, Paths

LEVELS = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 9)), min_size=1, max_size=4).map(
    lambda levels: tuple(zip(sorted(count for count, _ in levels), (own for _, own in levels), strict=True))
)


def test_a_tree_by_hand() -> None:
    paths = Paths(((1, 100), (2, 20), (5, 3)))
    assert (paths.leaves, paths.roots, paths.length) == (5, 1, 123)
    assert paths.most_siblings == (1, 2, 3)
    # leaf * 2 // 5: leaves 0 to 2 are under node 0, leaves 3 and 4 under node 1
    assert paths.path(2) == (Part(0, 0, 0, 1, 0, 100), Part(1, 0, 0, 2, 100, 120), Part(2, 2, 2, 3, 120, 123))
    assert paths.path(3) == (Part(0, 0, 0, 1, 0, 100), Part(1, 1, 1, 2, 100, 120), Part(2, 3, 0, 2, 120, 123))


def test_one_level_has_nothing_in_common() -> None:
    assert [Paths(((3, 8),)).path(leaf) for leaf in range(3)] == [(Part(0, n, n, 3, 0, 8),) for n in range(3)]


@pytest.mark.parametrize(("above", "here"), [(1, 7), (3, 7), (7, 7), (4, 10), (10, 100)])
def test_children_are_divided_evenly(above: int, here: int) -> None:
    paths = Paths(((above, 1), (here, 1)))
    children = [[leaf for leaf in range(here) if paths.path(leaf)[0].number == node] for node in range(above)]
    assert all(len(found) in (here // above, -(-here // above)) for found in children)
    assert [leaf for found in children for leaf in found] == list(range(here))
    assert max(map(len, children)) == paths.most_siblings[1]


@settings(max_examples=200, derandomize=True)
@given(levels=LEVELS)
def test_paths_are_those_of_a_tree(levels: tuple[tuple[int, int], ...]) -> None:
    paths = Paths(levels)
    parents: dict[tuple[int, int], int] = {}
    siblings: dict[tuple[int, int], set[int]] = {}
    for leaf in range(paths.leaves):
        path = paths.path(leaf)
        assert path[-1].number == leaf
        assert [part.level for part in path] == list(range(len(levels)))
        assert [part.start for part in path] == [0, *(part.end for part in path)][:-1]
        assert [part.end - part.start for part in path] == [own for _, own in levels]
        for above, part in itertools.pairwise(path):
            assert parents.setdefault((part.level, part.number), above.number) == above.number
            assert part.number * levels[above.level][0] // levels[part.level][0] == above.number
            siblings.setdefault((part.level, above.number), set()).add(part.place)
    for leaf in range(paths.leaves):
        for above, part in itertools.pairwise(paths.path(leaf)):
            assert siblings[part.level, above.number] == set(range(part.siblings))
    for level, (count, _) in enumerate(levels):
        assert {paths.path(leaf)[level].number for leaf in range(paths.leaves)} == set(range(count))
