"""The garbage collector rests while rows are read from files, which leave it nothing to do."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.errors import TraceError
from pytest_kvcache.garbage import uncollected
from pytest_kvcache.rows import Row
from pytest_kvcache.traces import Trace, open_trace

from .files import DATA, jsonl, mooncake

pytestmark = pytest.mark.usefixtures("enabled")


@pytest.fixture
def enabled() -> Iterator[None]:
    was = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was else gc.disable)()


def test_it_rests_and_goes_on() -> None:
    with uncollected([Path("a")]):
        assert not gc.isenabled()
        with uncollected([Path("b")]):
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(KeyError), uncollected([Path("a")]):
        raise KeyError
    assert gc.isenabled()


def test_it_stays_off_when_it_was() -> None:
    gc.disable()
    with uncollected([Path("a")]):
        pass
    assert not gc.isenabled()


def test_it_goes_on_for_rows_of_ones_own() -> None:
    seen: list[bool] = []

    def rows() -> Iterator[Row]:
        seen.append(gc.isenabled())
        yield Row(1, 4, array("q", [1]))

    Trace.of(rows, block_size=4).sweep()
    assert set(seen) == {True}


def test_it_rests_for_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    add = Row.__new__

    def noted(*given: Any, **named: Any) -> Row:
        seen.append(gc.isenabled())
        return add(*given, **named)

    monkeypatch.setattr(Row, "__new__", noted)
    path = jsonl(tmp_path / "trace", mooncake(5, 1))
    assert len(open_trace(path, block_size=512)) == 1
    assert seen == [False]
    assert gc.isenabled()
    with pytest.raises(TraceError):
        open_trace(jsonl(path, mooncake(5, 1), "{"), block_size=512)
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("mooncake_conversation_first1000.jsonl", {"block_size": 512}),
        ("mooncake_conversation_first1000.jsonl", {"block_size": 512, "order": "time", "ids": "prefix"}),
        ("agentic_8_sessions_block64.jsonl.gz", {}),
        ("agentic", {}),
        ("azure_llm_2023_code.csv", {}),
    ],
)
def test_reading_and_the_pass_leave_nothing_to_collect(file: str, options: dict[str, Any]) -> None:
    def once() -> None:
        trace = open_trace(DATA / file, **options)
        if trace.block_events:
            trace.sweep()

    once()  # what is imported may leave something
    gc.collect()
    gc.disable()
    once()
    assert gc.collect() == 0
