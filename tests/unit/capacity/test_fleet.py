"""Several engines against ones that are played by hand: a list of blocks each, and routers written out again."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from collections.abc import Hashable
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kvcache.capacity.fleet import fleet
from pytest_kvcache.capacity.routing import ROUTINGS
from pytest_kvcache.capacity.rules import ENGINE, REFERENCE, Rules
from pytest_kvcache.capacity.simulate import simulate
from pytest_kvcache.capacity.simulated import Simulated
from pytest_kvcache.errors import TraceError
from pytest_kvcache.model import Row

B = 4


def row(
    ids: list[int], *, session: str | None = None, length: int | None = None, line: int = 1, scope: Hashable = None
) -> Row:
    return Row(line, len(ids) * B if length is None else length, array("q", ids), session=session, scope=scope)


@st.composite
def traces(draw: st.DrawFn) -> list[Row]:
    rows: list[Row] = []
    for line in range(1, draw(st.integers(1, 14)) + 1):
        ids = draw(st.lists(st.integers(0, 2), max_size=5))
        if rows and draw(st.booleans()):
            ids = [*rows[draw(st.integers(0, len(rows) - 1))].ids, *ids]
        length = max(1, len(ids) * B - draw(st.integers(0, B - 1))) + draw(st.sampled_from([0, 0, B]))
        session = draw(st.sampled_from(["a", "b", "", None]))
        rows.append(row(ids, session=session, length=length, line=line, scope=draw(st.sampled_from([None, None, "x"]))))
    return rows


class Engine:
    """An LRU or FIFO cache, oldest block first, one block at a time."""

    def __init__(self, policy: str, slots: int) -> None:
        self.policy, self.slots = policy, slots
        self.blocks: list[tuple[object, ...]] = []
        self.evictions = 0

    def depth(self, path: list[tuple[object, ...]]) -> int:
        return next((at for at, block in enumerate(path) if block not in self.blocks), len(path))

    def take(self, path: list[tuple[object, ...]]) -> None:
        if self.policy == "lru":
            own = path[: self.slots]
            self.blocks = [block for block in self.blocks if block not in own] + own[::-1]
            while len(self.blocks) > self.slots:
                self.blocks.pop(0)
                self.evictions += 1
        else:
            for block in path if self.slots else []:
                if block not in self.blocks:
                    if len(self.blocks) == self.slots:
                        self.blocks.pop(0)
                        self.evictions += 1
                    self.blocks.append(block)


def digest_of(key: tuple[object, ...]) -> int:
    return int(blake2b(repr(key).encode(), digest_size=8).hexdigest(), 16)


def play(
    rows: list[Row], policy: str, engines: int, routing: str, slots: int
) -> tuple[list[Engine], list[int], list[int]]:
    """Return the engines, which one each request got, and its hit tokens."""
    all_engines = [Engine(policy, slots) for _ in range(engines)]
    loads, chosen, hits = [0] * engines, [], []
    for number, request in enumerate(rows):
        path = [
            (request.scope, *request.ids[: at + 1]) for at in range(len(request.ids)) if at * B < request.input_length
        ]
        depths = [engine.depth(path) for engine in all_engines]
        idle = loads.index(min(loads))
        if routing == "round_robin":
            at = number % engines
        elif routing == "least_loaded":
            at = idle
        elif routing == "session":
            first = digest_of(("block", request.scope, request.ids[0])) % engines if request.ids else idle
            at = first if request.session is None else digest_of(("session", request.session)) % engines
        else:
            best = [n for n in range(engines) if depths[n] == max(depths)]
            at = sorted(best, key=lambda n: loads[n])[0] if max(depths) >= len(path) / 2 else idle
        loads[at] += request.input_length
        chosen.append(at)
        hits.append(min(request.input_length, depths[at] * B))
        all_engines[at].take(path)
    return all_engines, chosen, hits


@pytest.mark.parametrize("routing", ROUTINGS)
@given(
    rows=traces(),
    policy=st.sampled_from(["lru", "fifo"]),
    engines=st.integers(1, 4),
    slots=st.integers(0, 9),
    warm=st.integers(0, 4),
)
def test_a_fleet_is_the_engines_played_by_hand(
    routing: str, policy: str, rows: list[Row], engines: int, slots: int, warm: int
) -> None:
    played, chosen, hits = play(rows, policy, engines, routing, slots)
    found = fleet(rows, B, policy, engines=engines, routing=routing, slots=slots, warm_rows=warm)
    assert list(found.per_request) == hits[warm:]
    assert found.evictions == sum(engine.evictions for engine in played)
    assert [engine.evictions for engine in found.engines] == [engine.evictions for engine in played]
    for at, engine in enumerate(found.engines):
        assert list(engine.per_request) == [hit for hit, to in list(zip(hits, chosen, strict=True))[warm:] if to == at]
        mine = [r for r, to in list(zip(rows, chosen, strict=True))[warm:] if to == at]
        assert engine.input_tokens == sum(r.input_length for r in mine)


@given(
    rows=traces(),
    policy=st.sampled_from(["lru", "fifo", "lfu", "s3fifo"]),
    rules=st.sampled_from([REFERENCE, ENGINE, Rules(match="any"), Rules(charge="tokens")]),
    engines=st.integers(1, 3),
    routing=st.sampled_from(list(ROUTINGS)),
    slots=st.integers(0, 8),
)
def test_engines_add_up_to_the_fleet(
    policy: str, rules: Rules, rows: list[Row], engines: int, routing: str, slots: int
) -> None:
    found = fleet(rows, B, policy, engines=engines, routing=routing, slots=slots, rules=rules, warm_rows=2)
    assert len(found.engines) == engines
    for name in (
        "requests",
        "input_tokens",
        "hit_tokens",
        "miss_tokens",
        "uncovered_tokens",
        "hit_requests",
        "evictions",
    ):
        assert getattr(found, name) == sum(getattr(engine, name) for engine in found.engines), name
    assert found.residency.lifetime.requests.count == found.evictions
    assert found.pooled == simulate(rows, B, policy, slots=slots * engines, rules=rules, warm_rows=2)
    assert (found.slots, found.engines[0].slots) == (slots * engines, slots)


@given(
    rows=traces(),
    policy=st.sampled_from(["lru", "fifo", "lfu", "s3fifo"]),
    routing=st.sampled_from(list(ROUTINGS)),
    slots=st.one_of(st.none(), st.integers(0, 8)),
)
def test_one_engine_is_one_cache(policy: str, rows: list[Row], routing: str, slots: int | None) -> None:
    one = simulate(rows, B, policy, slots=slots, rules=ENGINE, warm_rows=1)
    found = fleet(rows, B, policy, engines=1, routing=routing, slots=slots, rules=ENGINE, warm_rows=1)
    for told in (found, found.engines[0], found.pooled):
        assert told is not None
        assert bare(told) == bare(one)


def bare(found: Simulated) -> list[object]:
    return [getattr(found, name) for name in Simulated.__slots__ if name not in ("notes", "engines", "pooled")]


@given(rows=traces(), engines=st.integers(1, 4), routing=st.sampled_from(list(ROUTINGS)))
def test_without_limit_one_cache_of_all_has_whatever_the_engines_have(
    rows: list[Row], engines: int, routing: str
) -> None:
    found = fleet(rows, B, engines=engines, routing=routing, slots=None)
    assert found.pooled is not None
    assert found.pooled.slots is None
    assert all(there >= here for here, there in zip(found.per_request, found.pooled.per_request, strict=True))


@given(
    turns=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 3)), min_size=1, max_size=12),
    engines=st.integers(1, 4),
)
def test_sessions_that_share_nothing_lose_nothing_where_they_stay(turns: list[tuple[str, int]], engines: int) -> None:
    said: dict[str, list[int]] = {}
    rows = []
    for session, more in turns:
        before = said.setdefault(session, [100 * ord(session)])
        said[session] = before + [len(before) + ord(session) * 100 + n for n in range(more)]
        rows.append(row(said[session], session=session))
    found = fleet(rows, B, engines=engines, routing="session", slots=None)
    assert found.pooled is not None
    assert found.hit_tokens == found.pooled.hit_tokens


def test_one_prefix_on_engines_in_turn_is_computed_once_on_each() -> None:
    rows = [row([*range(64), 100 + n], length=64 * 16 + 16) for n in range(16)]
    spread = fleet(rows, 16, engines=8, routing="round_robin", slots=None)
    assert (spread.hit_tokens, spread.input_tokens) == (8 * 1024, 16_640)
    assert [engine.hit_tokens for engine in spread.engines] == [1024] * 8
    assert spread.pooled is not None
    assert spread.pooled.hit_tokens == 15 * 1024
    assert fleet(rows, 16, engines=8, routing="prefix", slots=None).hit_tokens == 15 * 1024


def test_the_least_loaded_engine_is_that_of_the_fewest_prompt_tokens() -> None:
    rows = [row([n], length=length) for n, length in enumerate([4, 1, 1, 1, 1, 3])]
    found = fleet(rows, B, engines=3, routing="least_loaded", slots=None)
    # 4 to 0; 1 to 1; 1 to 2; then 1 and 2 have 1 each: to 1; to 2; then 2 and 2: to 1
    assert [engine.input_tokens for engine in found.engines] == [4, 5, 2]


def test_prefixes_that_are_gone_count_no_more() -> None:
    a, b = [1, 2, 3], [4, 5, 6]
    rows = [row(a), row(b), row([7, 8]), row([7, 8]), row(a), row(b)]
    # 0: a; 1: b; then both have 12 tokens: 7 8 to 0, where of three slots 7 8 1 are left, and again. Of a only one
    # block of three is still there, so it goes to 1, which has fewer tokens, and pushes b out
    found = fleet(rows, B, engines=2, routing="prefix", slots=3)
    assert list(found.per_request) == [0, 0, 0, 8, 0, 0]
    assert [list(engine.per_request) for engine in found.engines] == [[0, 0, 8], [0, 0, 0]]


def test_a_prefix_that_all_share_does_not_send_all_to_one_engine() -> None:
    rows = [row([1, 10 + n, 20 + n]) for n in range(8)]
    rows += [row([1, 10, 20, 30]), row([1, 13, 23, 33])]  # these go on
    found = fleet(rows, B, engines=4, routing="prefix", slots=None)
    assert [engine.requests for engine in found.engines] == [3, 2, 2, 3]
    assert list(found.per_request) == [0, 0, 0, 0, B, B, B, B, 3 * B, 3 * B]


def test_requests_without_a_session_go_by_their_first_block_and_are_told() -> None:
    rows = [row([5, n], line=3 + n) for n in range(4)] + [row([5, 9], session="s", line=9)]
    found = fleet(rows, B, engines=3, routing="session", slots=None)
    assert sorted(engine.requests for engine in found.engines) in ([0, 1, 4], [0, 0, 5])
    assert [(note.reason, note.count, note.line) for note in found.notes if note.line] == [("no_session", 4, 3)]
    assert "4 requests have no session (first in line 3)" in found.notes[0].sentence
    assert not any(note.line for note in fleet(rows, B, engines=3, routing="prefix", slots=None).notes)
    assert not any(note.line for note in fleet(rows[4:], B, engines=3, routing="session", slots=None).notes)


def test_where_all_begin_alike_one_engine_gets_everything_and_it_is_told() -> None:
    rows = [row([1, 10 + n]) for n in range(8)]
    found = fleet(rows, B, engines=4, routing="prefix", slots=None)
    assert [engine.requests for engine in found.engines] == [8, 0, 0, 0]
    [note] = found.notes
    assert (note.reason, note.count) == ("uneven_load", 8)
    assert "engine 0 was sent 100% of the prompt tokens, 4.0 times an equal share" in note.sentence
    assert fleet(rows, B, engines=4, slots=None).notes == ()
    assert fleet([], B, engines=2, slots=None).notes == ()


@pytest.mark.parametrize(("lengths", "told"), [([3, 1], ["uneven_load"]), ([299, 101], [])])
def test_an_uneven_load_is_half_more_than_an_equal_share(lengths: list[int], told: list[str]) -> None:
    rows = [row([n], length=length) for n, length in enumerate(lengths)]
    assert [note.reason for note in fleet(rows, 512, engines=2, slots=None).notes] == told


def test_requests_without_blocks_are_spread() -> None:
    rows = [row([], length=4) for _ in range(6)]
    found = fleet(rows, B, engines=3, routing="session", slots=None)
    assert [engine.requests for engine in found.engines] == [2, 2, 2]
    assert found.uncovered_tokens == 24


def test_a_session_has_the_same_engine_in_every_process() -> None:
    code = (
        "from array import array\nfrom pytest_kvcache.model import Row\n"
        "from pytest_kvcache.capacity.fleet import fleet\n"
        "rows = [Row(1, 4, array('q', [n]), session=f'session {n}') for n in range(9)]\n"
        "found = fleet(rows, 4, engines=4, routing='session', slots=None)\n"
        "print([list(engine.sessions) for engine in found.engines])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    expected: list[list[str]] = [[], [], [], []]
    for n in range(9):
        expected[digest_of(("session", f"session {n}")) % 4].append(f"session {n}")
    assert told == {f"{expected}\n"}


@pytest.mark.parametrize("engines", [0, -1, True, 1.5, "2"])
def test_a_number_of_engines_is_one(engines: int) -> None:
    with pytest.raises(TraceError, match="expected a whole number of engines, at least 1"):
        fleet([], B, engines=engines, slots=None)


def test_what_no_fleet_has() -> None:
    with pytest.raises(
        TraceError, match="routing='random': expected 'round_robin', 'least_loaded', 'session', 'prefix'"
    ):
        fleet([], B, engines=2, slots=None, routing="random")
    with pytest.raises(TraceError, match="what no routing exceeds"):
        fleet([], B, "optimum", engines=2, slots=4)
    with pytest.raises(TraceError, match="policy='mru'"):
        fleet([], B, "mru", engines=2, slots=4)
    with pytest.raises(TraceError, match="slots=-1"):
        fleet([], B, engines=2, slots=-1)
