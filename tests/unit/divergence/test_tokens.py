"""What two token sequences share behind the place at which they part."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.divergence.tokens import Run, appended, made_equal, moved_away, runs
from pytest_kvcache.simulate.tree import common_prefix

HEAD, TAIL = list(range(100, 110)), list(range(200, 220))
SEQUENCES = st.lists(st.integers(0, 3), max_size=60)


def test_one_thing_differs() -> None:
    a, b = [*HEAD, 1, *TAIL], [*HEAD, 2, 3, *TAIL]
    assert list(runs(a, b, 10)) == [Run(11, 12, 20)]
    assert moved_away(a, b, 10) == 30
    assert made_equal(a, b, 10) == 31  # of 32, and the last is computed


def test_the_last_token_is_always_computed() -> None:
    a = [*HEAD, *TAIL]
    assert moved_away([*HEAD, 1, *TAIL], a, 10) == 29
    assert moved_away(a, a, 30) == 30  # nothing differs: no run


def test_what_moves_takes_its_equal_part_with_it() -> None:
    a, b = [*HEAD, 1, *TAIL], [*HEAD, 2, *TAIL]
    assert moved_away(a, b, 10, width=1) == 30
    assert moved_away(a, b, 10, width=5) == 30 - 4
    assert moved_away(a, b, 10, width=99) == 10  # never less than what is shared now


def test_nothing_is_found_again() -> None:
    a, b = [*HEAD, 1, *TAIL[:7]], [*HEAD, 2, *TAIL[:7]]  # seven tokens may be equal by chance
    assert list(runs(a, b, 10)) == []
    assert moved_away(a, b, 10) == made_equal(a, b, 10) == 10


def test_two_differences() -> None:
    one, two = TAIL, list(range(300, 350))
    a, b = [*HEAD, 1, *one, 1, *two], [*HEAD, 2, *one, 2, *two]
    assert moved_away(a, b, 10) == 30
    assert made_equal(a, b, 10) == len(b) - 1
    assert made_equal(a, b, 10, 0.4) == 31  # of 72 that follow
    assert made_equal(a, b, 10, 0.9) == 31
    assert made_equal(a, b, 10, 0.99) == len(b) - 1
    assert made_equal(a, b, 10, 0.1) == 10


def test_a_beginning_of_an_answer_gives_nothing_back() -> None:
    prompt, think = [*HEAD, *TAIL], list(range(400, 409))
    a, b = [*prompt, *think], [*prompt, 1, 2, 3, *prompt, *think]
    assert appended(a, b, 30) == 30
    a, b = [*HEAD, *range(500, 530), *TAIL], [*HEAD, *TAIL, 7, 8]  # reasoning of 30 tokens left out
    assert appended(a, b, 10) == 30


@settings(max_examples=300, derandomize=True)
@given(SEQUENCES, SEQUENCES, SEQUENCES, st.integers(1, 9))
def test_runs_are_shared_long_in_order_and_as_long_as_they_can_be(
    head: list[int], a: list[int], b: list[int], anchor: int
) -> None:
    left, right = head + a, head + b
    start = common_prefix(left, right)
    place = (start, start)
    for run in runs(left, right, start, anchor=anchor):
        assert run.length >= anchor
        assert (run.left, run.right) >= place
        assert run.left >= place[0]
        assert run.right >= place[1]
        ends = (run.left + run.length, run.right + run.length)
        assert left[run.left : ends[0]] == right[run.right : ends[1]]
        assert left[ends[0] : ends[0] + 1] != right[ends[1] : ends[1] + 1] or ends[0] == len(left)
        place = ends
    for found in (moved_away(left, right, start), made_equal(left, right, start, 0.5)):
        assert found <= max(start, len(right) - 1)
        assert found >= min(start, len(right) - 1)


@settings(max_examples=300, derandomize=True)
@given(
    st.text("ab", max_size=90),
    st.text("ab", max_size=90),
    st.text("abc", min_size=12, max_size=40),
    st.integers(0, 90),
    st.integers(0, 90),
    st.integers(14, 34),
)
def test_the_first_run_of_two_texts_is_found_wherever_it_stands(
    a: str, b: str, common: str, left: int, right: int, anchor: int
) -> None:
    a, b = a[:left] + common + a[left:], b[:right] + common + b[right:]
    places = [at for at in range(len(b) - anchor + 1) if b[at : at + anchor] in a]
    found = next(runs(a[:64], b[:64], 0, anchor=anchor), None)
    near = [at for at in range(min(64, len(b)) - anchor + 1) if b[:64][at : at + anchor] in a[:64]]
    assert (None if found is None else (found.left, found.right)) == (
        (a[:64].index(b[near[0] : near[0] + anchor]), near[0]) if near else None
    )
    assert (next(runs(a, b, 0, anchor=anchor), None) is None) == (not places)


def test_repeated_text_takes_time_with_its_length_alone() -> None:
    a, b = [1] + [0] * 20_000, [2] + [0] * 20_000
    assert list(runs(a, b, 0)) == [Run(1, 1, 20_000)]
    assert moved_away(a, b + [1] * 20_000, 0) == 20_000
