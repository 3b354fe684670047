"""Lines of files, whatever packs them, splits them or is wrong with them."""

from __future__ import annotations

import gzip
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kvcache.errors import TraceError
from pytest_kvcache.traces.check import RowError
from pytest_kvcache.traces.lines import Lines
from pytest_kvcache.traces.notes import Notes

TEXT = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=12)
MIB = 2**20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines") / "trace"


def packed(data: bytes, cuts: list[int]) -> bytes:
    """Pack parts of data as members of one gzip file."""
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return b"".join(gzip.compress(data[a:b]) for a, b in pairwise(bounds))


@given(
    lines=st.lists(st.tuples(TEXT, st.sampled_from(["\n", "\r\n"])), max_size=8),
    last=TEXT,
    bom=st.booleans(),
    cuts=st.none() | st.lists(st.integers(0, 60), max_size=3),
    spare=st.sampled_from([1, 2, 3, 7, 1000]),
)
@settings(max_examples=300)
def test_lines_are_the_same_however_they_are_packed_and_split(
    path: Path, lines: list[tuple[str, str]], last: str, bom: bool, cuts: list[int] | None, spare: int
) -> None:
    data = ("".join(text + end for text, end in lines) + last).encode()
    expected = [(at, text) for at, text in enumerate([*(text for text, _ in lines), last], 1) if text.strip()]
    if bom:
        data = b"\xef\xbb\xbf" + data
    path.write_bytes(data if cuts is None else packed(data, cuts))
    if data.startswith(b"\x1f\x8b") and cuts is None:
        return
    longest = max(len(text.encode()) for text in [last, *(text for text, _ in lines)])
    found = Lines(path, max_line=longest + 3 + spare)  # as much is read at once; 3: a byte order mark
    assert list(found) == expected
    assert list(found) == expected  # as often as asked for
    if not bom:
        assert found.whole().encode() == data if len(data) <= longest + 3 + spare else True


@given(sizes=st.lists(st.integers(1, 9), max_size=8), limit=st.integers(1, 9), end=st.booleans(), many=st.booleans())
@settings(max_examples=300)
def test_lines_that_are_too_long_are_left_out_or_the_first_is_an_error(
    path: Path, sizes: list[int], limit: int, end: bool, many: bool
) -> None:
    data = b"\n".join(b"a" * size for size in sizes) + (b"\n" if end else b"")
    path.write_bytes(packed(data, []) if many else data)
    notes = Notes()
    expected = [(at, "a" * size) for at, size in enumerate(sizes, 1) if size <= limit]
    assert list(Lines(path, max_line=limit, strict=False, notes=notes)) == expected
    wrong = [at for at, size in enumerate(sizes, 1) if size > limit]
    assert [(note.count, note.line) for note in notes.all()] == ([(len(wrong), wrong[0])] if wrong else [])
    if wrong:
        with pytest.raises(RowError, match=f"line {wrong[0]}: it is longer than {limit} bytes.*give max_line="):
            list(Lines(path, max_line=limit))


@pytest.mark.parametrize("pack", [False, True])
def test_a_file_of_one_endless_line_is_refused_within_its_bound(tmp_path: Path, pack: bool) -> None:
    path = tmp_path / "long"
    with gzip.open(path, "wb", compresslevel=1) if pack else path.open("wb") as file:
        file.write(b"{}\n")
        for _ in range(32):
            file.write(b"a" * MIB)
        file.write(b"\n{}\n")
    tracemalloc.start()
    try:
        with pytest.raises(RowError, match="line 2: it is longer than 1,048,576 bytes"):
            list(Lines(path, max_line=MIB))
        assert list(Lines(path, max_line=MIB, strict=False)) == [(1, "{}"), (3, "{}")]
        assert len(Lines(path).head()) == 2
        with pytest.raises(TraceError, match="longer than 1,048,576 bytes"):
            Lines(path, max_line=MIB).whole()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * MIB


def test_many_lines_are_read_in_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "many"
    with path.open("w") as file:
        for at in range(100):
            file.write(f'{{"input_length": {at}}}\n' * 2000)
    assert path.stat().st_size > 3 * MIB
    tracemalloc.start()
    try:
        assert sum(1 for _ in Lines(path)) == 200_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * MIB


@pytest.fixture
def whole() -> bytes:
    """10,000 lines that pack badly."""
    return b"".join(b'{"input_length": %d}\n' % (at * 7919 % 10_007) for at in range(10_000))


def test_cut_gzip_data_are_an_error_with_their_line(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(whole)[:20_000])
    seen = []
    with pytest.raises(TraceError) as error:
        seen.extend(Lines(path, "cut.gz"))
    notes = Notes()
    kept = list(Lines(path, "cut.gz", strict=False, notes=notes))
    assert len(kept) > 1000
    assert kept == [(at, text.decode()) for at, text in enumerate(whole.split(b"\n")[: len(kept)], 1)]
    expected = f"cut.gz, line {len(kept) + 1:,}: the gzip data end before they are complete, after 20,000 bytes"
    assert str(error.value) == f"{expected} of the file; fetch the file again, or read what is whole with strict=False"
    (note,) = notes.all()
    assert (note.reason, note.line, note.sentence) == ("cut", len(kept) + 1, f"{expected} of the file")


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[:15_000] + bytes(100) + data[15_100:], "Error|CRC"),
        (lambda data: data[:-8] + bytes(4) + data[-4:], "CRC"),
        (lambda data: data + b"and more", "Not a gzipped file"),
    ],
    ids=["inside", "checksum", "behind"],
)
def test_damaged_gzip_data_are_an_error(tmp_path: Path, whole: bytes, damage: object, why: str) -> None:
    path = tmp_path / "damaged.gz"
    path.write_bytes(damage(gzip.compress(whole)))  # type: ignore[operator] # a function
    with pytest.raises(TraceError, match=f"line [0-9,]+: the gzip data are damaged near byte [0-9,]+ .*({why})"):
        list(Lines(path))


def test_a_line_that_was_cut_is_not_taken_for_whole(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"1,2\n3,4567\n")[:-8])  # all data, without the checksum
    assert list(Lines(path, strict=False)) == [(1, "1,2"), (2, "3,4567")]
    data = gzip.compress(b"1,2\n3,4", mtime=0)
    path.write_bytes(data[:-8])
    assert list(Lines(path, strict=False)) == [(1, "1,2")]


@pytest.mark.parametrize("data", [b"a\r\nb\r", b"a\nb\r", b"a\r\nb\r\n", b"a\r\nb"])
def test_carriage_returns_at_the_end_of_lines_are_no_text(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "trace"
    path.write_bytes(data)
    assert list(Lines(path)) == [(1, "a"), (2, "b")]
    path.write_bytes(b"\xff\r\n" + data)
    assert list(Lines(path, strict=False)) == [(2, "a"), (3, "b")]


def test_zeros_behind_gzip_data_are_padding(tmp_path: Path) -> None:
    path = tmp_path / "padded.gz"
    path.write_bytes(gzip.compress(b"a\n") + bytes(512))
    assert list(Lines(path)) == [(1, "a")]


def test_bytes_that_are_no_utf_8_are_told_by_line_and_place(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes("a,b\nä,ö\n".encode() + "x\nzé,y\n".encode("latin-1") + b"last\n")
    with pytest.raises(RowError, match="line 4: byte 2 of it is no UTF-8; save the file as UTF-8"):
        list(Lines(path))
    notes = Notes()
    assert list(Lines(path, strict=False, notes=notes)) == [(1, "a,b"), (2, "ä,ö"), (3, "x"), (5, "last")]
    assert [(note.reason, note.count, note.line) for note in notes.all()] == [("no_utf8", 1, 4)]
    with pytest.raises(TraceError, match=r"latin\.csv, line 4: byte 2 of it is no UTF-8"):
        Lines(path).whole()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"PAR1\x15\x04", "a Parquet file"),
        (b"\x28\xb5\x2f\xfd\x00", "packed with zstd"),
        (b"\xfd7zXZ\x00", "packed with xz"),
        (b"BZh91AY", "packed with bzip2"),
        (b"PK\x03\x04", "a zip archive"),
        ('{"a": 1}'.encode("utf-16"), "UTF-16"),
        (b'{"a": "\0"}\n', r"binary \(byte 8 is 0\)"),
    ],
)
def test_what_is_no_text_is_named(tmp_path: Path, data: bytes, what: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=f"it is {what}; expected UTF-8 text, JSON or CSV, plain or gzip"):
        Lines(path).head()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (gzip.compress(b"", mtime=0), "it is empty"),
        (b"\n# nothing\n \r\n", "it holds only blank lines and comments"),
        (gzip.compress(b"abc", mtime=0)[:9], "the gzip data end before they are complete"),
    ],
)
def test_a_file_without_a_first_line_says_why(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=f"{path}: {why}.*; expected a trace"):
        Lines(path).head()


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("\n# of mine\n\n a,b \nc\n", " a,b "),
        ("\n\na,b", "a,b"),  # and no more
        ("\ufeff{}\r\n{}\n", "{}"),
        ('{\n "requests": [\n', '{\n "requests": [\n'),
        ("# of mine\n[\n{}]", "[\n{}]"),
        ('[{"a": 1},\n{"a": 2}]', '[{"a": 1},\n{"a": 2}]'),
    ],
)
def test_the_head_is_the_first_line_or_that_of_a_document(tmp_path: Path, text: str, head: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text, encoding="utf-8", newline="")
    assert Lines(path).head() == head


@given(
    text=st.text(st.sampled_from('{}[]# \n\rä"'), max_size=14),
    bom=st.booleans(),
    chunk=st.integers(1, 6),
)
def test_the_head_is_the_same_however_the_file_is_read(path: Path, text: str, bom: bool, chunk: int) -> None:
    def head(**options: int) -> str:
        try:
            return Lines(path, **options).head()
        except TraceError as error:
            return f"error: {error}"

    path.write_bytes(text.encode("utf-8-sig" if bom else "utf-8"))
    assert head(max_line=chunk) == head()


def test_no_more_is_read_than_the_head_takes(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(b'# of mine\n{"a": 1}\n' + b"{}\n" * 2**16 + b"\0")
    assert Lines(path).head() == '{"a": 1}'
    path.write_bytes(b'{"a":\n1}\n' + b"{}\n" * 2**16 + b"\0")  # a document may go on
    with pytest.raises(TraceError, match="binary"):
        Lines(path).head()


def test_a_head_is_cut_at_1_mib(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text('{"a": [' + "1, " * MIB)
    assert MIB <= len(Lines(path).head()) <= 2 * MIB


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    for way in (lambda: list(Lines(tmp_path / "none")), Lines(tmp_path / "none").head, Lines(tmp_path).whole):
        with pytest.raises(TraceError, match=r"cannot be read: (No such file|Is a directory)"):
            way()


def test_a_damaged_document_is_an_error_or_a_note(tmp_path: Path) -> None:
    path = tmp_path / "cut.json.gz"
    path.write_bytes(gzip.compress(b"{}" * 100)[:-8])
    with pytest.raises(TraceError, match=r"cut\.json\.gz: the gzip data end"):
        Lines(path).whole()
    notes = Notes()
    assert Lines(path, strict=False, notes=notes).whole() == "{}" * 100
    assert [(note.reason, note.line) for note in notes.all()] == [("cut", None)]
