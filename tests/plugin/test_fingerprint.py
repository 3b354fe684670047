"""Fingerprints: equal content is equal, everything that decides a run is another one, and nothing else is."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import threading
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache import Trace
from pytest_kvcache.endpoint import Endpoint, MetricsSource
from pytest_kvcache.model import ServerFacts
from pytest_kvcache.pace import Pace
from pytest_kvcache.plugin.decided import fingerprint
from pytest_kvcache.plugin.fingerprint import Fingerprint, Untold, digest
from pytest_kvcache.plugin.settings import SIM, Settings
from pytest_kvcache.rows import Row
from pytest_kvcache.workloads import WorkloadBuilder

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


class Color(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Described:
    size: int
    hidden: str = field(default="", repr=False, compare=False)


class Plain:
    def __init__(self, size: int) -> None:
        self.size = size


class Slotted:
    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size


def adder(size: int) -> Callable[[int], int]:
    return lambda number: number + size


def scaled(number: int, by: int = 2, *, plus: int = 0) -> int:
    return number * by + plus


def rows(*ids: int, time: float = 0.0) -> list[Row]:
    return [Row(n, 16 * len(ids), array("q", ids), 1, time) for n in range(2)]


def trace(*ids: int, time: float = 0.0, block_size: int = 16) -> Trace:
    return Trace.of(rows(*ids, time=time), block_size=block_size)


MAKERS: list[Callable[[int], Any]] = [
    lambda n: n,
    float,
    str,
    lambda n: f"\ud800{n}",
    lambda n: f"\ud800{n}" * 600,
    lambda n: bytes([n]),
    lambda n: [n, [n]],
    lambda n: {"a": {"b": n}},
    lambda n: {n: "a"},
    lambda n: OrderedDict([("a", 1), ("b", 2)] if n == 1 else [("b", 2), ("a", 1)]),
    lambda n: {n, 7, "x"},
    lambda n: (Color.RED, Color.BLUE)[n - 1],
    Described,
    lambda n: Described(1, str(n)),
    Plain,
    Slotted,
    lambda n: Plain(n).__init__,  # type: ignore[misc] # a bound method
    adder,
    lambda n: (adder, scaled)[n - 1],
    lambda n: (Plain, Slotted)[n - 1],
    lambda n: (len, max)[n - 1],
    lambda n: (random, threading)[n - 1],
    lambda n: partial(scaled, by=n),
    itemgetter,
    lambda n: [1, 2][n - 1 :].count,
    random.Random,
    lambda n: random.Random(n).random,
    lambda n: array("q", [n]),
    lambda n: array("qi"[n - 1], [1]),
    Decimal,
    lambda n: deque([n]),
    lambda n: range(n),
    lambda n: slice(n),
    lambda n: trace(n, 5),
    lambda n: trace(1, 5, time=float(n)),
    lambda n: trace(1, block_size=16 * n),
    lambda n: Pace(n),
    lambda n: WorkloadBuilder().shared_prefix(n, 256, 0.5),
    lambda n: WorkloadBuilder().shared_prefix(2, {64: 0.5, 128 * n: 0.5}, 0.5),
    lambda n: WorkloadBuilder().working_set(64 * n, 64, 0.5),
    lambda n: WorkloadBuilder().conversation(user=f"hello {n}"),
    lambda n: WorkloadBuilder().conversation(user=lambda session, turn: f"{session} {turn} {n}"),
    lambda n: WorkloadBuilder().requests([{"messages": [], "n": n}]),
    lambda n: WorkloadBuilder().trace(trace(n, 5)),
]


@pytest.mark.parametrize("make", MAKERS, ids=range(len(MAKERS)))
def test_content_decides(make: Callable[[int], Any]) -> None:
    assert digest(make(1)) == digest(make(1))
    assert digest(make(1)) != digest(make(2))


def test_a_long_text_is_none_of_its_digest() -> None:
    long = "x" * 1025
    told = hashlib.sha256(long.encode()).hexdigest()
    assert len({digest(value) for value in (long, long[1:], told, ["text", told], ["x", long])}) == 5


def test_values_of_different_kinds_differ() -> None:
    values: list[Any] = [
        None, True, 1, 1.0, "1", b"1", [1], {1: None}, {1}, Color.RED, Described(1), Plain(1), Slotted(1), [[1]], ["1"],
        "true", "null", ["sequence", 1], ["set", "1"], [], {}, "", set(),
    ]  # fmt: skip
    assert len({digest(value) for value in values}) == len(values)
    assert digest([1, 2]) == digest((1, 2))  # an argument may be given as either


@given(PLAIN, PLAIN)
def test_plain_values_are_equal_exactly_when_their_texts_are(left: Any, right: Any) -> None:
    assert (digest(left) == digest(right)) == (repr(left) == repr(right))


def test_the_same_in_another_process() -> None:
    code = (
        "from pytest_kvcache.plugin.fingerprint import digest\n"
        "from pytest_kvcache.workloads import WorkloadBuilder\n"
        "print(digest([{'a', 'b', 'c', 'd'}, WorkloadBuilder().conversation(user='x', turns=2), len]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = digest([{"a", "b", "c", "d"}, WorkloadBuilder().conversation(user="x", turns=2), len])
    assert done.stdout.strip() == here


def test_files_are_known_by_their_content(tmp_path: Path) -> None:
    for name, text in {"a": "x", "b": "x", "c": "y"}.items():
        (tmp_path / name).write_text(text)
    assert digest(tmp_path / "a") == digest(tmp_path / "b") != digest(tmp_path / "c")
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(Untold, match="a file that cannot be read"):
            digest(path)


def itself() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def unset() -> Any:
    def inner() -> Any:
        return later

    if len("x") == 2:
        later = 1
    return inner


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: (n for n in "x"), "a builtins.generator"),
        (threading.Lock, "a _thread.lock"),
        (lambda: Plain(threading.Lock()), "a _thread.lock"),  # type: ignore[arg-type] # as a user may
        (itself, "something that holds itself"),
        (unset, "unset.<locals>.inner, which uses a name that has no value yet"),
        (lambda: eval("lambda: 1", {"__name__": "made_up"}), "made_up.<lambda>, whose source is not known"),
        (lambda: type("Made", (), {"__module__": "made_up"})(), "made_up.Made, whose source is not known"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_cannot_be_told_is_said(make: Callable[[], Any], what: str) -> None:
    with pytest.raises(Untold) as told:
        digest({"secret": [make()]})
    assert str(told.value) == what
    with pytest.raises(Untold, match="its workload holds"):
        Fingerprint.of("x", {"workload": make()})


def test_parts_tell_what_has_changed() -> None:
    one = Fingerprint.of("test", {"a": 1, "b": 2})
    other = Fingerprint.of("test", {"a": 1, "b": 3, "c": 4})
    assert other.changed(one.parts) == ["b", "c"]
    assert one.changed(one.parts) == []
    assert len({one.whole, other.whole, Fingerprint.of("another", {"a": 1, "b": 2}).whole}) == 3
    assert {len(part) for part in one.parts.values()} == {12}
    assert len(one.whole) == 64


# --- the list --------------------------------------------------------------------------------------------------------

FACTS = ServerFacts("vllm", "m", "v1", "0.9", 16, True, 4096, capacity=1000)
ENDPOINT = Endpoint("http://h:1", metrics=(MetricsSource("http://h:2/metrics"),), headers=(("X-A", "1"),))
SETTINGS = Settings(endpoint="http://h:1")
RUN: dict[str, Any] = {
    "nodeid": "t.py::test", "test": "code", "number": 1, "kind": "run", "endpoint": ENDPOINT, "facts": FACTS,
    "arguments": {"pace": Pace(8), "retries": 0}, "workload": Pace(1), "settings": SETTINGS, "sim": False,
}  # fmt: skip


def of(**changed: Any) -> Fingerprint:
    return fingerprint(**{**RUN, **changed})


def changes(**changed: Any) -> list[str]:
    before, after = of(), of(**changed)
    found = after.changed(before.parts)
    assert (before.whole != after.whole) == bool(found)
    return found


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("test", {"test": "other code"}),
        ("call", {"number": 2}),
        ("call", {"kind": "replay"}),
        ("call", {"arguments": {"pace": Pace(9), "retries": 0}}),
        ("call", {"arguments": {"pace": Pace(8), "retries": 1}}),
        ("workload", {"workload": Pace(2)}),
        ("endpoint", {"endpoint": replace(ENDPOINT, base="http://h:3")}),
        ("endpoint", {"endpoint": replace(ENDPOINT, base="https://h:1")}),
        ("endpoint", {"endpoint": replace(ENDPOINT, metrics=())}),
        ("endpoint", {"endpoint": replace(ENDPOINT, metrics=(MetricsSource("http://h:3/metrics"),))}),
        ("endpoint", {"endpoint": replace(ENDPOINT, metrics=(MetricsSource("http://h:2/metrics", "prefill"),))}),
        ("endpoint", {"endpoint": replace(ENDPOINT, metrics=(MetricsSource("http://h:2/metrics", match="a"),))}),
        (
            "endpoint",
            {"endpoint": replace(ENDPOINT, metrics=(MetricsSource("http://h:2/metrics", kind="prometheus"),))},
        ),
        (
            "endpoint",
            {"endpoint": replace(ENDPOINT, metrics=(MetricsSource("http://h:2/metrics", renamed=("a:", "b:")),))},
        ),
        ("engine", {"facts": replace(FACTS, engine="sglang")}),
        ("engine", {"facts": replace(FACTS, variant="v2")}),
        ("engine", {"facts": replace(FACTS, version="1.0")}),
        ("engine", {"facts": replace(FACTS, model="n")}),
        ("engine", {"facts": replace(FACTS, block_size=32)}),
        ("engine", {"facts": replace(FACTS, caching=None)}),
        ("engine", {"facts": replace(FACTS, max_model_len=None)}),
        ("engine", {"facts": replace(FACTS, capacity=2000)}),
        ("engine", {"facts": replace(FACTS, simulated=True)}),
        ("settings", {"endpoint": replace(ENDPOINT, timeout=5.0)}),
        ("settings", {"endpoint": replace(ENDPOINT, headers=())}),
        ("settings", {"endpoint": replace(ENDPOINT, profiles=({"id": "mine"},))}),
        ("settings", {"settings": replace(SETTINGS, usage_prompt="total")}),
        ("settings", {"settings": replace(SETTINGS, usage_absent="zero")}),
        ("settings", {"settings": replace(SETTINGS, sample_interval=2.0)}),
        ("settings", {"settings": replace(SETTINGS, seed=1)}),
        ("settings", {"settings": replace(SETTINGS, processes=2)}),
        ("settings", {"settings": replace(SETTINGS, tokenizer="builtin")}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_of_these_is_another_run(part: str, changed: dict[str, Any]) -> None:
    assert changes(**changed) == [part]


@pytest.mark.parametrize(
    "changed",
    [
        {"endpoint": replace(ENDPOINT, base="http://user:secret@h:1")},
        {"endpoint": replace(ENDPOINT, api_key="secret")},
        {"endpoint": replace(ENDPOINT, headers=(("x-a", "2"),))},
        {"endpoint": replace(ENDPOINT, metrics=(MetricsSource("http://user:secret@h:2/metrics"),))},
        {"facts": replace(FACTS, note="x", usage_flag="x", step=8, minimum=64)},
        {"settings": replace(SETTINGS, report=Path("x"), results=Path("y"), resume=True, show_text=True)},
        {"settings": replace(SETTINGS, concurrency=3, reset="auto")},  # the arguments have what a run made of them
        {"settings": replace(SETTINGS, require=True, model="m", api_key="secret")},
        {"sim": True},
    ],
    ids=str,
)
def test_none_of_these_is(changed: dict[str, Any]) -> None:
    assert changes(**changed) == []


def test_a_new_version_of_the_plugin_measures_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    before = of()
    monkeypatch.setattr("pytest_kvcache.plugin.decided.version", {"pytest-kvcache": "9.9"}.__getitem__)
    assert of().changed(before.parts) == ["version"]


def test_an_engine_of_our_own_is_known_by_its_name_alone() -> None:
    own, moved = replace(FACTS, simulated=True), replace(ENDPOINT, base="http://127.0.0.1:5", metrics=())
    there = replace(moved, base="http://127.0.0.1:6")
    assert of(sim=True, facts=own, endpoint=moved).whole == of(sim=True, facts=own, endpoint=there).whole
    assert of(facts=own, endpoint=moved).whole != of(facts=own, endpoint=there).whole
    assert of(sim=True, endpoint=moved).whole != of(sim=True, endpoint=there).whole  # a fixture gives another one
    assert SIM == "sim"


def test_a_tokenizer_that_is_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    def spec(name: str) -> str:
        return of(settings=replace(SETTINGS, tokenizer=str(tmp_path / name))).whole

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "tokenizer.json").write_text("x")
    (tmp_path / "b.json").write_text("x")
    (tmp_path / "c.json").write_text("y")
    assert spec("a") == spec("b.json") != spec("c.json")
    assert spec("missing") != spec("missing-too")


def test_own_traffic_depends_on_no_setting_of_the_load() -> None:
    assert of(settings=None).whole == of(settings=None).whole != of().whole
