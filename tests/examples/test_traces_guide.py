"""What `docs/traces.md` shows is what comes out: the drawing, the errors, the figures of its tables."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pytest_kvcache import Trace, open_trace
from pytest_kvcache.errors import TraceError

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "traces.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```text\n(.*?)\n```", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guide") / "conversation_trace.jsonl.gz"
    shutil.copy(ROOT / "tests" / "data" / "traces" / "mooncake_conversation_trace.jsonl.gz", path)
    return path


@pytest.fixture(scope="module")
def trace(file: Path) -> Trace:
    return open_trace(file, block_size=512)


def test_the_drawing(trace: Trace) -> None:
    assert str(trace.sweep()).splitlines() == SHOWN[1].splitlines()


@pytest.mark.parametrize(("line", "block_size"), [(0, None), (1, 16)])
def test_the_errors(file: Path, line: int, block_size: int | None) -> None:
    with pytest.raises(TraceError) as caught:
        open_trace(file, block_size=block_size)
    assert str(caught.value).replace(f"{file.parent}/", "") == SHOWN[0].splitlines()[line]


def test_the_table_of_policies(trace: Trace) -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| (0\.\d+) \|$", GUIDE.partition("| routing |")[0], re.MULTILINE)
    assert [name for name, _ in rows] == ["lru", "fifo", "s3fifo", "lfu", "optimum"]
    assert {name: f"{trace.simulate(name, blocks=16_000).hit_rate:.3f}" for name, _ in rows} == dict(rows)


def test_the_warm_half(trace: Trace) -> None:
    (shown,) = re.findall(r"counts the second: (0\.\d+) for `lru`", GUIDE)
    assert f"{trace.simulate(blocks=16_000, warm=0.5).hit_rate:.3f}" == shown


def test_the_table_of_routers(trace: Trace) -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| (0\.\d+) \|$", GUIDE.partition("| routing |")[2], re.MULTILINE)
    fleets = {name: trace.simulate(blocks=4_000, engines=4, routing=name) for name, _ in rows}
    assert list(fleets) == ["round_robin", "least_loaded", "session", "prefix"]
    assert {name: f"{fleet.hit_rate:.3f}" for name, fleet in fleets.items()} == dict(rows)


def test_sessions_that_nobody_names_are_all_sent_to_one_engine(trace: Trace) -> None:
    fleet = trace.simulate(blocks=4_000, engines=4, routing="session")
    assert sorted(engine.requests for engine in fleet.engines) == [0, 0, 0, 12_031]
    assert any("100% of the prompt tokens" in note.sentence for note in fleet.notes)
