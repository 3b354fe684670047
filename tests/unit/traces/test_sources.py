"""Where traces come from: files, pipes, standard input, lists and folders."""

from __future__ import annotations

import gc
import gzip
import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.errors import TraceError
from pytest_kvcache.traces import open_trace
from pytest_kvcache.traces import trace as module
from pytest_kvcache.traces.sources import title

from .files import DATA, jsonl, mooncake

ROWS = [mooncake(20, at, at + 1, time=at * 1_000) for at in range(5)]


def data(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Put bytes on standard input, and copies of it into a folder of the test's."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "copies"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "copies").mkdir()
    return lambda given: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))


@pytest.mark.parametrize("pack", [False, True])
def test_standard_input_can_be_read_again(
    stdin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: bool
) -> None:
    monkeypatch.setattr(module, "_KEPT", 0)
    stdin(gzip.compress(data(*ROWS[:2])) + gzip.compress(data(*ROWS[2:])) if pack else data(*ROWS))
    trace = open_trace("-", block_size=16)
    assert (len(trace), trace.name, trace.span) == (5, "standard input", 4.0)
    assert len(list(trace)) == len(list(trace)) == 5
    part = trace.first(2)
    del trace
    assert len(list(part)) == 2
    del part
    gc.collect()
    assert list((tmp_path / "copies").iterdir()) == []  # the copy goes with the trace


def test_damage_on_standard_input_is_told_by_its_name(stdin: Any) -> None:
    stdin(data(*ROWS) + b"{\n")
    with pytest.raises(TraceError, match=r"^standard input, line 6: no JSON"):
        open_trace("-", block_size=16)
    stdin(b"")
    with pytest.raises(TraceError, match=r"^standard input: it is empty"):
        open_trace("-", block_size=16)


class Taken:
    """Standard input as pytest leaves it while it captures output."""

    @property
    def buffer(self) -> Any:
        return self

    def read(self, size: int = -1) -> bytes:
        raise OSError("reading from stdin while output is captured! Consider using `-s`.")


@pytest.mark.parametrize(
    ("given", "why"), [(Taken(), "reading .* Consider using `-s`."), (None, "it is closed"), (io.StringIO("{}"), ".+")]
)
def test_standard_input_that_is_taken_away_is_told(monkeypatch: pytest.MonkeyPatch, given: Any, why: str) -> None:
    monkeypatch.setattr(sys, "stdin", given)
    with pytest.raises(TraceError, match=f"^standard input cannot be read: {why}$"):
        open_trace("-", block_size=16)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
def test_a_pipe_with_a_name_can_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 0)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(data(*ROWS)),))
    writer.start()
    trace = open_trace(path, block_size=16)
    writer.join()
    assert len(list(trace)) == len(list(trace)) == 5


def test_gzip_is_known_by_its_bytes_and_not_by_its_name(tmp_path: Path) -> None:
    packed, plain = tmp_path / "packed.jsonl", tmp_path / "plain.jsonl.gz"
    packed.write_bytes(gzip.compress(data(*ROWS)))
    plain.write_bytes(data(*ROWS))
    assert list(open_trace(packed, block_size=16)) == list(open_trace(plain, block_size=16))


def test_files_of_a_list_follow_one_another(tmp_path: Path) -> None:
    first, second = jsonl(tmp_path / "b.jsonl", *ROWS[:3]), jsonl(tmp_path / "a.jsonl.gz", *ROWS[3:])
    trace = open_trace([first, str(second)], block_size=16, ids="content")
    assert [(row.line, row.ids[0]) for row in trace] == [(1, 0), (2, 1), (3, 2), (1, 3), (2, 4)]
    assert trace.name == "b.jsonl and 1 more"
    assert trace.files == (first, second)
    assert [note.reason for note in trace.notes] == []


def test_files_of_a_folder_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    names = ["a.jsonl.gz", "b.JSONL", *(f"c{at}.jsonl" for at in range(8))]
    for at, name in reversed(list(enumerate(names))):
        jsonl(tmp_path / name, mooncake(20, at, at + 1, time=at))
    (tmp_path / "README.md").write_text("about")
    (tmp_path / ".hidden.jsonl").write_text("{")
    (tmp_path / "folder.jsonl").mkdir()
    trace = open_trace(tmp_path, block_size=16, ids="content")
    assert [row.ids[0] for row in trace] == list(range(10))
    assert trace.name == tmp_path.name
    assert [(note.reason, note.sentence) for note in trace.notes] == [
        ("other_files", "not read: 1 other file of the folder"),
    ]


def test_lines_of_several_files_are_told_with_the_file(tmp_path: Path) -> None:
    first = jsonl(tmp_path / "a.jsonl", ROWS[0])
    second = jsonl(tmp_path / "b.jsonl", ROWS[1], mooncake(0), mooncake(40, 1, 2))
    trace = open_trace([first, second], block_size=16)
    assert [note.sentence for note in trace.notes] == [
        "an id stands behind another id than before, 1x (first in line 1 of b.jsonl): what stands before a block is"
        " part of what it is, so these are blocks of their own",
        "1 row left out, the first in line 2 of b.jsonl: it has no input tokens",
        "1 row whose last, partial block has no id (first: line 3 of b.jsonl): 8 tokens can never hit",
        "time runs backwards at 1 row (first: line 3 of b.jsonl, from 1 s to 0 s)",
    ]
    third = jsonl(tmp_path / "c.jsonl", mooncake(99, 1))
    with pytest.raises(TraceError, match=f"^{third}, line 1: 1 ids leave 83 of 99"):
        open_trace([first, third], block_size=16)


def test_lines_of_standard_input_among_others_are_told_by_its_name(tmp_path: Path, stdin: Any) -> None:
    stdin(jsonl(tmp_path / "a.jsonl", ROWS[0], mooncake(0)).read_bytes())
    (note,) = open_trace(["-", jsonl(tmp_path / "b.jsonl", ROWS[0])], block_size=16, ids="content").notes
    assert note.sentence == "1 row left out, the first in line 2 of standard input: it has no input tokens"


def test_files_of_a_trace_have_one_form_and_one_block_size(tmp_path: Path) -> None:
    first = jsonl(tmp_path / "a.jsonl", mooncake(16, 1, block_size=16))
    table = tmp_path / "b.csv"
    table.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n")
    with pytest.raises(TraceError, match=f"{table} is azure, and {first} mooncake: the files of a trace have one form"):
        open_trace([first, table])
    other = jsonl(tmp_path / "c.jsonl", mooncake(16, 1, block_size=32))
    with pytest.raises(
        TraceError, match=r"c\.jsonl, line 1: it says block size 32, and 16 holds \(as line 1 of a\.jsonl says\)"
    ):
        open_trace([first, other])


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.jsonl: cannot be read: No such file or directory"):
        open_trace(tmp_path / "none.jsonl")
    with pytest.raises(TraceError, match=r"no traces in this folder, but no files; expected names in \.jsonl, "):
        open_trace(tmp_path)
    (tmp_path / "notes.txt").write_text("{}")
    with pytest.raises(TraceError, match="no traces in this folder, but 1 other file;"):
        open_trace(tmp_path)
    with pytest.raises(TraceError, match="no files are given; expected a path, '-', a folder or a list of them"):
        open_trace([])


def test_a_home_folder_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    jsonl(tmp_path / "t.jsonl", *ROWS)
    assert len(open_trace("~/t.jsonl", block_size=16)) == 5


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("a/b.jsonl", "b.jsonl"),
        ("-", "standard input"),
        (["x/a", "b", "c"], "a and 2 more"),
        (DATA, "traces"),
        (".", "."),
    ],
)
def test_a_trace_is_called_by_its_file(given: Any, name: str) -> None:
    assert title(given) == name
