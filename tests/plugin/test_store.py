"""The folder of results: whole lines or none, whatever happens to it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.plugin.store import Before, Result, Store, can_be_written

RESULT = Result(
    nodeid="t.py::test", attempt=1, session="s", worker="main", ended="2026-01-01T00:00:00.000000+00:00",
    fingerprints=["f", None], parts={"a": "1"}, outcome="passed", raised="", text="", failure=None, duration=0.1,
    record={"verdict": "pass", "rate": 0.1 + 0.2, "nested": [None, {"é\ud800": True}]}, properties=[["kv_x", "1"]],
)  # fmt: skip


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    store = Store(folder, "s")
    assert not folder.exists()
    later = replace(RESULT, ended="2026-01-02", nodeid="other")
    for result in (later, RESULT, replace(RESULT, ended="2027"), replace(RESULT, ended="2025")):
        store.append(result)
    store.close()
    before = Before.read(folder, "another session")
    assert before.results == {
        "other": [later],
        RESULT.nodeid: [replace(RESULT, ended="2025"), RESULT, replace(RESULT, ended="2027")],
    }
    assert before.told(folder) == ""
    assert Before.read(folder, "s").results == {}
    assert Before.read(tmp_path / "missing", "x") == Before()
    (path,) = files(folder)
    assert path.name.startswith("s.main.")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_json_has_not_becomes_what_it_has(tmp_path: Path) -> None:
    store = Store(tmp_path, "s")
    store.append(replace(RESULT, failure={10: Path("x"), 9: (1, 2)}, record={"verdict": "pass", "rate": float("inf")}))
    store.close()
    ((result,),) = Before.read(tmp_path, "x").results.values()
    assert result.failure == {"10": "x", "9": [1, 2]}
    assert result.record == {"verdict": "pass", "rate": float("inf")}


def test_each_result_is_on_the_disk_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.fstat(file).st_size), fsync(file)))
    store = Store(tmp_path, "s")
    sizes = []
    for _ in range(3):
        store.append(RESULT)
        sizes.append(files(tmp_path)[0].stat().st_size)
    assert synced == sizes == [size * sizes[0] for size in (1, 2, 3)]
    store.close()
    store.close()


def test_a_write_may_take_several_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:100]))
    store = Store(tmp_path, "s")
    store.append(RESULT)
    store.close()
    assert Before.read(tmp_path, "x").results == {RESULT.nodeid: [RESULT]}


def test_after_a_failure_the_next_line_goes_to_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path, "s")
    store.append(RESULT)
    write = os.write

    def full(file: int, data: bytes) -> int:
        write(file, data[:50])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            store.append(RESULT)
    store.append(RESULT)
    store.close()
    assert len(files(tmp_path)) == 2
    before = Before.read(tmp_path, "x")
    assert before.results == {RESULT.nodeid: [RESULT, RESULT]}
    assert before.problems == {"cut": 1}


@given(st.data())
def test_a_file_that_is_cut_anywhere_loses_its_last_line_at_most(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    store = Store(folder, "s")
    for number in range(3):
        store.append(replace(RESULT, nodeid=str(number)))
    store.close()
    (path,) = files(folder)
    content = path.read_bytes()
    length = len(content) // 3
    end = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:end])
    before = Before.read(folder, "x")
    assert list(before.results) == [str(number) for number in range(end // length)]
    assert before.problems == ({"cut": 1} if end % length else {})


@given(st.data())
def test_a_changed_byte_is_seen(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("flip")
    store = Store(folder, "s")
    store.append(RESULT)
    store.close()
    (path,) = files(folder)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    before = Before.read(folder, "x")
    assert sum(map(len, before.results.values())) + sum(before.problems.values()) >= 1
    assert before.results in ({}, {RESULT.nodeid: [RESULT]})  # such as an escape in capitals: the same content


def line(change: Callable[[dict[str, Any]], object] = len) -> bytes:
    content: dict[str, Any] = {"schema": "pytest-kvcache-result/1", "sha256": "", "result": {"nodeid": "x"}}
    change(content)
    return json.dumps(content).encode() + b"\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff\xfe\n", "foreign"),
        (b"no JSON\n", "foreign"),
        (b"[" * 100_000 + b"\n", "foreign"),
        (b"[1]\n", "foreign"),
        (b"{}\n", "foreign"),
        (b'{"schema": 1}\n', "foreign"),
        (b'{"schema": "another/1"}\n', "foreign"),
        (line(lambda c: c.update(schema="pytest-kvcache-result/2")), "newer"),
        (line(lambda c: c.update(schema="pytest-kvcache-result/10")), "newer"),
        (line(), "damaged"),
        (line(lambda c: c.pop("result")), "damaged"),
        (line(lambda c: c.update(result=3)), "damaged"),
        (b'{"schema": "pytest-kvcache-result/1"}', "cut"),
    ],
    ids=range(13),
)
def test_lines_that_are_no_results(tmp_path: Path, content: bytes, problem: str) -> None:
    store = Store(tmp_path, "s")
    store.append(RESULT)
    store.close()
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes() + b"\n" + content)
    before = Before.read(tmp_path, "x")
    assert before.results == {RESULT.nodeid: [RESULT]}
    assert before.problems == {problem: 1}
    assert before.told(Path("res")).startswith("res: lines that are not used: 1 ")


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "kv.json").write_text("{}")
    (tmp_path / "folder.jsonl").mkdir()
    before = Before.read(tmp_path, "x")
    assert (before.results, before.problems) == ({}, {"unreadable": 1})
    assert before.told(tmp_path) == f"{tmp_path}: lines that are not used: 1 in files that cannot be read"


@pytest.mark.parametrize(
    ("outcome", "verdict", "judged"),
    [
        ("passed", "pass", True),
        ("passed", "fail", True),
        ("failed", "pass", True),
        ("failed", "fail", True),
        ("passed", "inconclusive", False),
        ("failed", "inconclusive", False),
        ("skipped", "pass", False),
        ("broken", "fail", False),
    ],
)
def test_what_was_judged(outcome: Any, verdict: str, judged: bool) -> None:
    assert replace(RESULT, outcome=outcome, record={"verdict": verdict}).judged is judged


def test_where_results_can_be_put(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert can_be_written(tmp_path)
    assert can_be_written(tmp_path / "a" / "b")
    assert not can_be_written(tmp_path / "file")
    assert not can_be_written(tmp_path / "file" / "b")
