"""Rows in parts: each where it was written, in any order, and whole or not at all."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_kvcache.report.sheets.cells import lines
from pytest_kvcache.report.sheets.parts import Part, Place, found, joined
from pytest_kvcache.report.sheets.requests import HEADER

Row = tuple[object, ...]
Start = Callable[..., Part]


def row(nodeid: str, started: str = "t", request: int = 1) -> Row:
    return (nodeid, 1, started, "measured", request, *[None] * (len(HEADER) - 5))


def rows(nodeid: str, count: int, started: str = "t") -> Iterator[Row]:
    return (row(nodeid, started, n) for n in range(count))


@pytest.fixture
def start() -> Iterator[Start]:
    """Start parts, and close their files at the end."""
    with ExitStack() as stack:

        def started(folder: Path, worker: str = "main") -> Part:
            part = Part(folder, "s", worker)
            stack.callback(part.close)
            return part

        yield started


def table(folder: Path, *places: Place) -> tuple[str, int]:
    to = io.BytesIO()
    missing = joined(folder, places, to)
    return to.getvalue().decode(), missing


def test_places_in_any_order_and_of_several_parts(start: Start, tmp_path: Path) -> None:
    one, two = start(tmp_path, "gw0"), start(tmp_path, "gw1")
    b, c = one.append(rows("b", 4_001)), one.append(rows('ü,"=', 2))
    a = two.append(rows("a", 3))
    assert (a.rows, b.rows, c.rows) == (3, 4_001, 2)
    assert b.end == c.begin
    written, missing = table(tmp_path, a, b, c)
    assert missing == 0
    assert written == lines([HEADER, *rows("a", 3), *rows("b", 4_001), *rows('ü,"=', 2)])
    assert sorted(path.name.rpartition(".")[0].rpartition(".")[0] for path in tmp_path.iterdir()) == ["s.gw0", "s.gw1"]


def test_no_rows_make_no_file(start: Start, tmp_path: Path) -> None:
    part = start(tmp_path / "deep")
    assert part.append(iter(())) == Place("", 0, 0, 0)
    assert not (tmp_path / "deep").exists()
    part.append(rows("a", 1))
    part.close()
    part.close()


def test_a_part_that_is_gone_or_short_is_told(start: Start, tmp_path: Path) -> None:
    part = start(tmp_path)
    place = part.append(rows("a", 3))
    written, missing = table(tmp_path, place._replace(part="other.csv"), place._replace(end=place.end + 1), place)
    assert (written, missing) == (lines([HEADER, *rows("a", 3)]), 2)


def test_after_an_error_the_next_rows_go_to_another_file(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = start(tmp_path)
    part.append(rows("a", 1))

    def full(_: object) -> str:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("pytest_kvcache.report.sheets.parts.lines", full)
        with pytest.raises(OSError, match="No space left"):
            part.append(rows("b", 1))
    place = part.append(rows("c", 1))
    assert len(list(tmp_path.iterdir())) == 2
    assert table(tmp_path, place)[0] == lines([HEADER, *rows("c", 1)])


def test_rows_of_earlier_sessions(start: Start, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text(
        lines([HEADER, *rows("a", 2), *rows("a", 3, "later"), *rows("b", 2), *rows("short", 1), *rows("other", 9)])
    )
    other = [(*one[:1], 2, *one[2:]) for one in rows("a", 2)]  # what was found first counts
    (tmp_path / "second.csv").write_text(lines([HEADER, *other, *rows("short", 2)]))
    wanted = {("a", "t"): 2, ("b", "t"): 3, ("short", "t"): 2, ("none", "t"): 1}
    into = start(tmp_path / "parts")
    places = found([tmp_path / "old.csv", tmp_path / "missing.csv", tmp_path / "second.csv"], wanted, into)
    assert {key: place.rows for key, place in places.items()} == {("a", "t"): 2, ("short", "t"): 2}
    written, missing = table(tmp_path / "parts", places["short", "t"], places["a", "t"])
    assert (written, missing) == (lines([HEADER, *rows("short", 2), *rows("a", 2)]), 0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe not text",
        b"a,b\n1,2\n",
        lines([HEADER]).encode() + b"\x00" * 10,
        lines([HEADER]).encode() + b'"' + b"x" * 200_000,
        lines([HEADER, row("a")]).encode()[:-20],
        lines([(*HEADER, "more"), (*row("a"), 1)]).encode(),
        lines([(*HEADER[:-1], "renamed"), (*row("a")[:-1], "x")]).encode(),
    ],
    ids=["empty", "bytes", "another table", "nul", "endless", "cut", "another version", "other columns"],
)
def test_what_is_no_such_table_is_passed_over(start: Start, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.csv").write_bytes(content)
    (tmp_path / "good.csv").write_text(lines([HEADER, row("a")]))
    files = [tmp_path / "bad.csv", tmp_path, tmp_path / "good.csv"]
    places = found(files, {("a", "t"): 1}, start(tmp_path / "parts"))
    assert table(tmp_path / "parts", places["a", "t"]) == (lines([HEADER, row("a")]), 0)


def test_a_part_that_becomes_shorter_ends_in_an_error(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = start(tmp_path).append(rows("a", 3))
    monkeypatch.setattr("pytest_kvcache.report.sheets.parts.os.fstat", lambda _: os.stat_result([1 << 40] * 10))
    with pytest.raises(OSError, match="shorter"):
        table(tmp_path, place._replace(end=place.end + 1))
