"""Reports as files: whole or not there, and what is at their place stays what it is."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_kvcache.report import files


@contextmanager
def room(size: int) -> Iterator[None]:
    """Let no file grow beyond a size, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_does_not_fit_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    files.write(path, "old")
    with room(10), pytest.raises(OSError, match="too large"):
        files.write(path, "n" * 1000)
    assert [each.name for each in tmp_path.iterdir()] == ["kv.json"]
    assert path.read_text() == "old"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    link, there = tmp_path / "kv.json", tmp_path / "shared" / "kv.json"
    link.symlink_to(there)
    files.write(link, "first")
    files.write(link, "new")
    assert link.is_symlink()
    assert there.read_text() == "new"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    """As ``/dev/null`` is, which root could replace."""
    pipe, told = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: told.append(pipe.read_text()))
    reader.start()
    files.write(pipe, "text")
    reader.join(timeout=60)
    assert told == ["text"]
    assert pipe.is_fifo()


def test_words_that_are_no_utf_8_are_the_bytes_that_they_were(tmp_path: Path) -> None:
    files.write(tmp_path / "again.sh", f"cd {os.fsdecode(bytes([0xFF]))}")
    assert (tmp_path / "again.sh").read_bytes() == b"cd \xff"
