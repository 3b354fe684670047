"""Rows held against the block size and the clock."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.rows import Row
from pytest_kvcache.traces.check import Checker, RowError, Skipped
from pytest_kvcache.traces.fits import fit_all, fits
from pytest_kvcache.traces.notes import Notes
from pytest_kvcache.traces.parents import Parents

from .files import row

Reason = tuple[str, int, int | None]


def check(
    *items: Row | Skipped, size: int | None = None, strict: bool = True, stated: int | None = None
) -> tuple[list[Row], Checker]:
    """Return the rows that are left, and who checked them."""
    checker = Checker(size, Notes(), strict=strict, stated=stated)
    return list(checker.rows(items)), checker


def reasons(checker: Checker) -> list[Reason]:
    return [(note.reason, note.count, note.line) for note in checker.notes.all()]


def sentences(checker: Checker) -> list[str]:
    return [note.sentence for note in checker.notes.all()]


# --- sizes that fit --------------------------------------------------------------------------------------------------


def weights(length: int, count: int, size: int) -> list[int]:
    """Tokens of each of a row's ids, block by block."""
    return [max(0, min(size, length - at * size)) for at in range(count)]


@given(length=st.integers(1, 120), count=st.integers(1, 12))
def test_sizes_that_fit_are_those_where_each_id_has_tokens_and_at_most_a_block_has_none(
    length: int, count: int
) -> None:
    found = fits(row(1, length, *range(count)))
    for size in range(1, 150):
        held = weights(length, count, size)
        listed = min(held) > 0 and sum(held) == length
        unlisted = min(held) == size and 0 <= length - sum(held) <= size
        assert (found.listed.least <= size <= found.listed.most) == listed
        assert (found.unlisted.least <= size <= found.unlisted.most) == unlisted


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ([(100, 7)], "15..16, or 13..14 without an id for the last, partial block"),
        ([(128, 2)], "64..127, or 43..64 without an id for the last, partial block"),
        ([(1, 1)], "1 and more, or 1 without an id for the last, partial block"),
        ([(5, 9)], ""),
        ([(33, 3), (16, 1)], "16, or 9..11 without an id for the last, partial block"),
        ([(33, 2), (16, 1), (15, 0)], "17..32, or 11..16 without an id for the last, partial block"),
        ([(15_818, 247)], "64 without an id for the last, partial block"),
        ([(512, 1), (513, 2), (1024, 2), (99_999, 196)], "512"),
    ],
)
def test_sizes_that_fit_all_rows_are_said(lengths: list[tuple[int, int]], said: str) -> None:
    found = fit_all(row(1, length, *range(count)) for length, count in lengths)
    assert bool(found) == bool(said)
    assert not said or str(found) == said


def test_sizes_that_fit_a_row_with_weights_hold_its_largest_block() -> None:
    found = fits(row(1, 30, 1, 2, weights=array("q", [10, 20])))
    assert str(found) == "20 and more"


# --- ids and lengths -------------------------------------------------------------------------------------------------


@given(
    rows=st.lists(st.tuples(st.integers(1, 200), st.sampled_from(["ceil", "floor", "none"])), min_size=1),
    size=st.integers(1, 50),
)
def test_tokens_of_ids_and_uncovered_ones_are_the_input(rows: list[tuple[int, str]], size: int) -> None:
    given = []
    for at, (length, style) in enumerate(rows, 1):
        count = {"ceil": -(-length // size), "floor": length // size, "none": 0}[style]
        given.append(row(at, length, *range(count)))
    kept, checker = check(*given, size=size)
    assert kept == given
    tally = checker.tally
    covered = sum(sum(weights(item.input_length, len(item.ids), size)) for item in given)
    assert covered + tally.uncovered_tokens == tally.input_tokens == sum(length for length, _ in rows)
    assert tally.requests == len(rows)
    assert tally.block_events == sum(len(item.ids) for item in given)
    assert tally.max_blocks == max(len(item.ids) for item in given)


@given(length=st.integers(1, 100), count=st.integers(1, 30), size=st.integers(1, 40))
def test_a_row_is_refused_where_an_id_has_no_tokens_or_more_than_a_block_has_no_id(
    length: int, count: int, size: int
) -> None:
    given = row(4, length, *range(count))
    held = weights(length, count, size)
    reason = "past_end" if min(held) == 0 else "short_ids" if length - sum(held) > size else None
    if reason is None:
        assert check(given, size=size)[0] == [given]
        return
    with pytest.raises(RowError) as error:
        check(given, size=size)
    assert (error.value.reason, error.value.line) == (reason, 4)
    mended, checker = check(given, size=size, strict=False)
    assert mended == [given._replace(ids=given.ids[: sum(map(bool, held))])]
    assert sum(held) + checker.tally.uncovered_tokens == length
    assert reasons(checker) == [(reason, 1, 4)]


def test_a_whole_block_without_an_id_is_the_last_and_one_more_token_is_too_many() -> None:
    kept, checker = check(row(1, 32, 7), size=16)
    assert len(kept) == 1
    assert checker.tally.uncovered_tokens == 16
    with pytest.raises(RowError) as error:
        check(row(1, 33, 7), size=16)
    assert error.value.sentence == (
        "1 ids leave 17 of 33 input tokens without one, more than a block of 16 (as given); fits block sizes 33 and"
        " more, or 17..33 without an id for the last, partial block"
    )


def test_the_error_of_ids_past_the_end_names_the_sizes_that_fit() -> None:
    with pytest.raises(RowError) as error:
        check(row(1, 100, *range(7)), size=512)
    assert error.value.sentence == (
        "7 ids need more than 3,072 tokens at block size 512 (as given), and its input length is 100; fits block sizes"
        " 15..16, or 13..14 without an id for the last, partial block"
    )


def test_notes_count_rows_and_tokens() -> None:
    _, checker = check(row(1, 16, 1), row(2, 20, 1), row(4, 37, 1, 2), row(5, 9), row(6, 1_000), size=16)
    assert checker.tally.uncovered_tokens == 4 + 5 + 9 + 1_000
    assert sentences(checker) == [
        "2 rows whose last, partial block has no id (first: line 2): 9 tokens can never hit",
        "2 rows without block ids (first: line 5): 1,009 tokens can never hit",
    ]


def test_ids_past_the_end_that_are_cut_off_are_counted() -> None:
    kept, checker = check(row(1, 33, 1, 2, 3, 4, 5), row(2, 16, 1, 2), size=16, strict=False)
    assert [list(item.ids) for item in kept] == [[1, 2, 3], [1]]
    assert sentences(checker) == ["2 rows with ids past the end (first: line 1); cut off: 3"]


# --- weights of the row's own ----------------------------------------------------------------------------------------


def weighed(length: int, *tokens: int) -> Row:
    return row(1, length, *range(len(tokens)), weights=array("q", tokens))


def test_weights_of_the_row_count_as_they_are() -> None:
    given = [weighed(30, 10, 16, 4), weighed(30, 3, 3, 8), weighed(16, 16)]
    kept, checker = check(*given, size=16)
    assert kept == given
    assert checker.tally.uncovered_tokens == 30 - 14
    assert reasons(checker) == [("uncovered", 1, 1)]


@pytest.mark.parametrize(
    ("given", "reason", "what"),
    [
        (weighed(30, 10, 17), "block_tokens", "a block of 17 tokens; expected 1 to 16"),
        (weighed(30, 0, 16), "block_tokens", "a block of 0 tokens; expected 1 to 16"),
        (row(1, 30, 1, 2, weights=array("q", [16])), "block_tokens", "2 ids have 1 block tokens"),
        (weighed(30, 16, 15), "past_end", "2 ids need more than 30 tokens at block size 16"),
        (weighed(30, 10, 3), "short_ids", "2 ids leave 17 of 30 input tokens without one"),
    ],
)
def test_weights_that_do_not_fit_are_refused(given: Row, reason: str, what: str) -> None:
    with pytest.raises(RowError, match=what) as error:
        check(given, size=16)
    assert error.value.reason == reason


def test_weights_are_cut_off_with_their_ids() -> None:
    kept, checker = check(weighed(30, 16, 10, 10), weighed(15, 16), size=16, strict=False)
    assert [(list(item.ids), list(item.weights or ())) for item in kept] == [([0, 1], [16, 10]), ([], [])]
    assert checker.tally.uncovered_tokens == 4 + 15
    assert reasons(checker) == [("past_end", 2, 1), ("uncovered", 2, 1)]


# --- the block size --------------------------------------------------------------------------------------------------


def test_without_a_block_size_no_weights_for_ids_fit_any() -> None:
    with pytest.raises(RowError, match="the block size is not said; it fits block sizes 1 and more"):
        check(row(1, 10, 1, weights=array("q")))


def test_what_is_left_out_behind_another_parent_is_not_counted_as_uncovered() -> None:
    notes = Notes()
    checker = Checker(16, notes, strict=False, parents=Parents(notes, strict=True))
    kept = list(checker.rows((row(1, 40, 1, 2), row(2, 40, 9, 2), row(3, 12, 9, 2))))
    assert ([item.line for item in kept], checker.tally.uncovered_tokens) == ([1, 3], 8)
    assert [item for item in reasons(checker) if item[0] != "no_time"] == [
        ("uncovered", 1, 1),
        ("ids", 1, 2),
        ("past_end", 1, 3),
    ]


def test_the_block_size_is_what_the_rows_say_whichever_says_it_first() -> None:
    rows = [row(1, 9), row(2, 33, 1, 2, 3), row(3, 33, 1, 2, 3, block_size=16), row(4, 33, 1, 2, 3)]
    kept, checker = check(*rows)
    assert (kept, checker.block_size) == (rows, 16)
    assert reasons(checker) == [("no_ids", 1, 1)]


@pytest.mark.parametrize("strict", [True, False])
def test_an_unknown_block_size_is_an_error_that_names_those_that_fit(strict: bool) -> None:
    with pytest.raises(RowError) as error:
        check(row(1, 5), row(2, 128, 1, 2), row(3, 128, 1, 2), strict=strict)
    assert (error.value.line, error.value.reason) == (2, "block_size")
    assert error.value.sentence == (
        "the block size is not said; all 2 rows looked at fit block sizes 64..127, or 43..64 without an id for the"
        " last, partial block. Give block_size="
    )
    with pytest.raises(RowError, match=r"not said; it fits block sizes 64\.\.127"):
        check(row(1, 128, 1, 2), strict=strict)
    with pytest.raises(RowError, match=r"not said; no one size fits all 2 rows looked at\. Give block_size="):
        check(row(1, 128, 1, 2), row(2, 12, 1, 2), strict=strict)


def test_a_thousand_rows_are_looked_at() -> None:
    rows: Iterable[Row] = (row(at, 16 if at <= 1_000 else 999, 1) for at in range(1, 5_000))
    with pytest.raises(RowError, match="all 1,000 rows looked at fit block sizes 16 and more"):
        check(*rows)


def test_a_size_that_is_said_after_a_thousand_rows_without_ids_is_found() -> None:
    rows = [row(at, 5) for at in range(1, 1_500)]
    kept, checker = check(*rows, row(1_500, 33, 1, 2, 3, block_size=16), row(1_501, 16, 1))
    assert len(kept) == 1_501
    assert checker.block_size == 16
    for strict in (True, False):  # to leave out all rows with ids would be to answer another question
        with pytest.raises(RowError, match=r"line 1,500: the first ids, and no block size is said; give block_size=, "):
            check(*rows, row(1_500, 33, 1, 2, 3), strict=strict)


def test_one_size_for_all_rows() -> None:
    with pytest.raises(RowError) as error:
        check(row(1, 16, 1, block_size=16), row(2, 16, 1, block_size=32))
    assert (error.value.line, error.value.reason) == (2, "block_size")
    assert (
        error.value.sentence
        == "it says block size 32, and 16 holds (as line 1 says); expected one block size for all rows"
    )
    with pytest.raises(RowError, match=r"it says block size 16, and 32 holds \(as given\)"):
        check(row(1, 16, 1, block_size=16), size=32)
    kept, checker = check(row(1, 16, 1, block_size=16), row(2, 16, 1, block_size=32), strict=False)
    assert [item.line for item in kept] == [1]
    assert reasons(checker) == [("block_size", 1, 2)]


def test_what_the_documentation_says_is_stated_and_gives_way_to_rows_and_user() -> None:
    _, checker = check(row(1, 33, 1, 2, 3), row(2, 16, 4), stated=16)
    assert checker.block_size == 16
    assert sentences(checker) == ["the file does not say its block size; the documentation of its form does: 16"]
    with pytest.raises(RowError, match=r"at block size 16 \(as the form's documentation says\)"):
        check(row(1, 33, 1, 2, 3, 4), stated=16)
    _, checker = check(row(1, 33, 1, 2, block_size=32), stated=16)
    assert (checker.block_size, reasons(checker)) == (32, [])
    _, checker = check(row(1, 33, 1, 2), stated=16, size=32)
    assert (checker.block_size, reasons(checker)) == (32, [])


def test_without_ids_no_block_size_is_needed() -> None:
    kept, checker = check(row(1, 5), row(2, 7))
    assert len(kept) == 2
    assert checker.block_size is None
    assert checker.tally.uncovered_tokens == 12


# --- what is left out, and what is odd -------------------------------------------------------------------------------


def test_rows_without_input_are_left_out_and_counted_whoever_finds_them() -> None:
    kept, checker = check(row(1, 0), row(2, 16, 1), Skipped(3, "zero_input", "it has no input tokens"), size=16)
    assert [item.line for item in kept] == [2]
    assert sentences(checker) == ["2 rows left out, the first in line 1: it has no input tokens"]
    with pytest.raises(RowError, match="line 1: its input length is -1; expected at least 1"):
        check(row(1, -1), size=16)


def test_rows_without_output_are_kept_and_counted() -> None:
    kept, checker = check(row(1, 5, output_length=0), row(2, 5, output_length=3), row(3, 5, output_length=0))
    assert len(kept) == 3
    assert checker.tally.output_tokens == 3
    assert ("zero_output", 2, 1) in reasons(checker)
    _, checker = check(row(1, 5, output_length=3), row(2, 5), row(3, 5, output_length=3))
    assert checker.tally.output_tokens is None


def test_time_that_runs_backwards_is_counted_with_its_first_place() -> None:
    times = [3.0, 5.0, 4.0, 4.0, 4.5, None, 1.5, 9.0]
    _, checker = check(*(row(at, 16, 1, time=time) for at, time in enumerate(times, 1)), size=16)
    assert sentences(checker) == [
        "time runs backwards at 2 rows (first: line 3, from 5 s to 4 s)",
        "1 row without a time (first: line 6)",
    ]
    tally = checker.tally
    assert (tally.start, tally.end, tally.span, tally.untimed) == (1.5, 9.0, 7.5, 1)


def test_rows_that_follow_an_answer_need_no_time() -> None:
    _, checker = check(row(1, 16, 1, time=None, delay=0.5), row(2, 16, 1, time=None), size=16)
    assert reasons(checker) == [("no_time", 1, 2)]
    assert checker.tally.span is None
    assert checker.tally.untimed == 2


def test_recorded_hits_are_summed_over_the_rows_that_tell() -> None:
    _, checker = check(row(1, 10, cached=5), row(2, 100), row(3, 30, cached=0))
    assert (checker.tally.cached_tokens, checker.tally.cached_input) == (5, 40)
    kept, _ = check(row(1, 16, 1, cached=16), size=16)
    assert len(kept) == 1
    for cached in (17, -1):
        with pytest.raises(RowError, match=f"line 1: {cached} cached tokens of 16 input tokens"):
            check(row(1, 16, 1, cached=cached), size=16)


def test_lines_of_several_files_are_told_with_the_file() -> None:
    checker = Checker(16, Notes())
    checker.notes.file = "b.json"
    list(checker.rows([row(1_234, 20, 1)]))
    checker.notes.file = "c.json"
    list(checker.rows([row(2, 20, 1)]))
    assert sentences(checker) == [
        "2 rows whose last, partial block has no id (first: line 1,234 of b.json): 8 tokens can never hit"
    ]


def test_braces_of_a_reader_stay_as_they_are() -> None:
    notes = Notes()
    notes.skip(Skipped(1, "odd", "{amount} is {no} figure"))
    assert notes.all()[0].sentence == "1 row left out, the first in line 1: {amount} is {no} figure"
