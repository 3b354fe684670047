from __future__ import annotations

from array import array
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.model import Row
from pytest_kvcache.traces.check import RowError
from pytest_kvcache.traces.notes import Notes
from pytest_kvcache.traces.parents import Parents


def row(line: int, ids: list[int], scope: Hashable = None) -> Row:
    return Row(line, max(1, len(ids)), array("q", ids), scope=scope)


def seen(*rows: Row, most: int = 1000) -> list[tuple[str, int, int | None]]:
    notes = Notes()
    parents = Parents(notes, strict=False, most=most)
    for given_row in rows:
        parents.see(given_row)
    return [(note.reason, note.count, note.line) for note in notes.all()]


def test_prefix_hashes_have_one_parent_each() -> None:
    assert seen(row(1, [1, 2, 3]), row(2, [1, 2, 4]), row(3, []), row(4, [1, 2, 3, 5])) == []


def test_an_id_behind_two_others_is_counted_once_for_each() -> None:
    rows = [row(1, [3005, 3050]), row(2, [3008, 3050]), row(3, [3008, 3050]), row(4, [3050])]
    assert seen(*rows) == [("same_id_after_another_parent", 2, 2)]


def test_an_id_twice_in_one_prompt_is_no_prefix_hash() -> None:
    assert seen(row(7, [1, 1])) == [("same_id_after_another_parent", 1, 7)]


def test_ids_of_different_scopes_have_nothing_to_do_with_each_other() -> None:
    assert seen(row(1, [1, 2], "a"), row(2, [2, 1], "b")) == []


def test_declared_prefix_hashes_are_held_to_it() -> None:
    parents = Parents(Notes(), strict=True)
    parents.see(row(1, [3005, 3050]))
    with pytest.raises(RowError, match="line 2: id 3050 stands behind 3008, and stood behind 3005 before, so it is no"):
        parents.see(row(2, [3008, 3050]))
    with pytest.raises(RowError, match=r"line 3: id 3050 stands first, .* expected ids .* or ids=\"content\""):
        parents.see(row(3, [3050]))


def test_a_row_that_is_refused_tells_nothing_of_others() -> None:
    parents = Parents(Notes(), strict=True)
    parents.see(row(1, [1, 2]))
    with pytest.raises(RowError, match="line 2: id 2 stands behind 9"):
        parents.see(row(2, [9, 2, 3]))
    parents.see(row(3, [1, 5, 9, 3]))
    with pytest.raises(RowError, match="line 4: id 3 stands behind 2, and stood behind 9"):
        parents.see(row(4, [1, 2, 3]))


def test_memory_is_bounded_and_the_end_of_the_check_told() -> None:
    rows = [row(1, [1, 2, 3]), row(2, [4, 5]), row(3, [1, 9]), row(4, [5, 4])]
    assert seen(*rows, most=4) == [("parents_unchecked", 1, 2)]


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=8))
def test_counts_as_a_list_of_pairs_does(prompts: list[list[int]]) -> None:
    pairs = {(None if at == 0 else ids[at - 1], ids[at]) for ids in prompts for at in range(len(ids))}
    odd = len(pairs) - len({i for _, i in pairs})
    found = seen(*(row(line, ids) for line, ids in enumerate(prompts, 1)))
    assert [count for _, count, _ in found] == ([odd] if odd else [])
