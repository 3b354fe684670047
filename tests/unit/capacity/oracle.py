"""Caches played block by block with lists, and traces to play: slow, plain, and written without a look at the source.

A block is the tuple of its scope and of all ids up to it, so its parent is that tuple without its last id.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Any

from hypothesis import strategies as st

from pytest_kvcache.capacity.rules import Rules
from pytest_kvcache.model import Row

B = 4
Name = tuple[Any, ...]


@dataclass
class Block:
    name: Name
    holds: int  # tokens of the prompt in it
    counts: int  # tokens that hit with it


def blocks_of(row: Row, rules: Rules) -> list[Block]:
    """What of a request is cached."""
    blocks: list[Block] = []
    for at in range(len(row.ids)):
        holds = min(B, row.input_length - at * B) if row.weights is None else row.weights[at]
        if holds <= 0 or (holds < B and not rules.partial):
            break
        blocks.append(Block((row.scope, *row.ids[: at + 1]), holds, holds))
    if not rules.last_token and blocks and sum(block.holds for block in blocks) == row.input_length:
        blocks[-1].counts = 0
    return blocks


def covered(row: Row) -> int:
    return min(row.input_length, len(row.ids) * B) if row.weights is None else sum(row.weights)


def leading(cached: Sequence[Name], blocks: list[Block]) -> list[Block]:
    found = []
    for block in blocks:
        if block.name not in cached:
            break
        found.append(block)
    return found


@dataclass
class Played:
    """What a cache did."""

    hits: list[int] = field(default_factory=list)  # tokens of each request
    evictions: int = 0
    lifetimes: list[tuple[int, int]] = field(default_factory=list)  # (came with, went with), by number of request
    idles: list[tuple[int, int]] = field(default_factory=list)  # (last used by, went with)
    reuses: list[tuple[int, int]] = field(default_factory=list)  # (last used by, hit by)
    compulsory: list[int] = field(default_factory=list)
    reusable: list[int] = field(default_factory=list)


class Player:
    """A cache of one policy. ``cached`` tells since which request each block is there."""

    def __init__(self, policy: str, slots: int, rules: Rules) -> None:
        self.policy = policy
        self.rules = rules
        self.room = slots * (B if rules.charge == "tokens" else 1)
        self.costs: dict[Name, int] = {}
        self.cached: dict[Name, int] = {}
        self.stamps: dict[Name, tuple[int, ...]] = {}  # who is the lowest goes first
        self.uses: dict[Name, int] = {}
        self.small: list[Name] = []
        self.main: list[Name] = []
        self.ghost: list[Name] = []
        self.waiting: list[Name] = []  # in a queue, but out of turn until nothing continues them
        self.clock = 0

    def cost(self, names: Sequence[Name]) -> int:
        return sum(self.costs[name] for name in names)

    def admit(self, blocks: list[Block], now: int) -> list[tuple[Name, int]]:
        for block in blocks:
            self.costs.setdefault(block.name, block.holds if self.rules.charge == "tokens" else 1)
        names = [block.name for block in blocks]
        if self.policy == "fifo":
            return self.fifo(names, now)
        own: list[Name] = []
        for name in names:
            if self.cost([*own, name]) > self.room:
                break
            own.append(name)
        return self.s3fifo(own, now) if self.policy == "s3fifo" else self.ordered(own, now)

    def evict(self, name: Name) -> tuple[Name, int]:
        self.uses.pop(name, None)
        return name, self.cached.pop(name)

    def fifo(self, names: list[Name], now: int) -> list[tuple[Name, int]]:
        gone = []
        for name in names:
            if name in self.cached or self.costs[name] > self.room:
                continue
            while self.cost([*self.cached, name]) > self.room:
                gone.append(self.evict(min(self.cached, key=self.stamps.__getitem__)))
            self.clock += 1
            self.stamps[name] = (self.clock,)
            self.cached[name] = now
        return gone

    def ordered(self, own: list[Name], now: int) -> list[tuple[Name, int]]:
        for name in own:
            self.cached.setdefault(name, now)
            self.uses[name] = self.uses.get(name, 0) + 1
            depth = len(name)
            recency = (now, depth if self.rules.ages == "head_first" else -depth)
            self.stamps[name] = recency if self.policy == "lru" else (self.uses[name], *recency)
        for name in self.cached:
            if self.policy == "lfu":
                self.stamps[name] = (self.uses[name], *self.stamps[name][1:])
        gone = []
        while self.cost(list(self.cached)) > self.room:
            others = [name for name in self.cached if name not in own]
            gone.append(self.evict(min(others, key=self.stamps.__getitem__)))
        return gone

    def s3fifo(self, own: list[Name], now: int) -> list[tuple[Name, int]]:
        for name in own:
            if name in self.cached:
                self.uses[name] = min(3, self.uses[name] + 1)
        for name in reversed(own):
            if name not in self.cached:
                (self.main if name in self.ghost else self.small).append(name)
                if name in self.ghost:
                    self.ghost.remove(name)
                self.cached[name] = now
                self.uses[name] = 0
        gone = []
        protected = own[-1:]
        while self.cost(list(self.cached)) > self.room:
            small_first = self.cost(self.small) > self.room // 10
            victim = self.from_small(protected) if small_first else None
            victim = victim or self.from_main(protected) or self.from_small(protected)
            assert victim is not None
            gone.append(self.evict(victim))
            self.come_back(protected)
        self.come_back([])
        return gone

    def needed(self, name: Name, protected: list[Name]) -> bool:
        return name in protected or any(other[:-1] == name for other in self.cached)

    def come_back(self, protected: list[Name]) -> None:
        """What waited for blocks that have gone is the oldest of its queue again."""
        for name in [name for name in self.waiting if not self.needed(name, protected)]:
            self.waiting.remove(name)
            queue = self.small if name in self.small else self.main
            queue.remove(name)
            queue.insert(0, name)

    def from_small(self, protected: list[Name]) -> Name | None:
        for name in list(self.small):
            if name in self.waiting:
                continue
            if self.uses[name] > 1:
                self.small.remove(name)
                self.main.append(name)
                self.uses[name] = 0
            elif self.needed(name, protected):
                self.waiting.append(name)
            else:
                self.small.remove(name)
                self.ghost.append(name)
                while self.cost(self.ghost) > self.room - self.room // 10:
                    self.ghost.pop(0)
                return name
        return None

    def from_main(self, protected: list[Name]) -> Name | None:
        while any(name not in self.waiting for name in self.main):
            name = next(name for name in self.main if name not in self.waiting)
            if self.needed(name, protected):
                self.waiting.append(name)
                continue
            self.main.remove(name)
            if not self.uses[name]:
                return name
            self.uses[name] -= 1
            self.main.append(name)
        return None


def play(rows: list[Row], policy: str, slots: int | None, rules: Rules) -> Played:
    """Send rows through a cache; no slots: without limit."""
    told = Played()
    player = Player(policy, 10**6 if slots is None else slots, rules)
    last: dict[Name, int] = {}
    for now, row in enumerate(rows):
        blocks = blocks_of(row, rules)
        cached = list(player.cached)
        found = [b for b in blocks if b.name in cached] if rules.match == "any" else leading(cached, blocks)
        told.hits.append(sum(block.counts for block in found))
        told.reuses += [(last[block.name], now) for block in found]
        told.compulsory.append(sum(block.holds for block in blocks if block.name not in last))
        told.reusable.append(sum(block.counts for block in blocks if block.name in last))
        last.update({block.name: now for block in blocks})
        for name, since in player.admit(blocks, now):
            told.evictions += 1
            told.lifetimes.append((since, now))
            told.idles.append((last[name], now))
    return told


def best(rows: list[Row], slots: int, rules: Rules, warm_rows: int = 0) -> int:
    """The most hit tokens that any choice of what to keep after each request can have: all choices are tried."""
    served = [blocks_of(row, rules) for row in rows]
    costs: dict[Name, int] = {}
    for blocks in served:
        for block in blocks:
            costs.setdefault(block.name, block.holds if rules.charge == "tokens" else 1)
    room = slots * (B if rules.charge == "tokens" else 1)
    most: dict[frozenset[Name], int] = {frozenset(): 0}
    for now, blocks in enumerate(served):
        later = {block.name for after in served[now + 1 :] for block in after}
        then: dict[frozenset[Name], int] = {}
        for cached, reached in most.items():
            names = list(cached)
            found = [b for b in blocks if b.name in cached] if rules.match == "any" else leading(names, blocks)
            total = reached + (sum(block.counts for block in found) if now >= warm_rows else 0)
            useful = sorted({*cached, *(block.name for block in blocks)} & later, key=repr)
            for kept in _choices(useful, costs, room):
                then[kept] = max(then.get(kept, 0), total)
        most = then
    return max(most.values())


def _choices(names: list[Name], costs: dict[Name, int], room: int) -> list[frozenset[Name]]:
    """Subsets that fit and to which nothing can be added: to keep more is never worse."""
    fit = [
        frozenset(some)
        for size in range(len(names) + 1)
        for some in combinations(names, size)
        if sum(costs[name] for name in some) <= room
    ]
    return [some for some in fit if not any(some < other for other in fit)]


def row(
    line: int,
    ids: Sequence[int],
    length: int | None = None,
    *,
    time: float | None = None,
    session: str | None = None,
    tenant: str | None = None,
    scope: Hashable = None,
    weights: Sequence[int] | None = None,
) -> Row:
    """A request; without a length its ids stand for full blocks."""
    return Row(
        line=line,
        input_length=len(ids) * B if length is None else length,
        ids=array("q", ids),
        time=time,
        session=session,
        tenant=tenant,
        scope=scope,
        weights=None if weights is None else array("q", weights),
    )


@st.composite
def traces(draw: st.DrawFn, requests: int = 10, longest: int = 4, *, whole: bool = False) -> list[Row]:
    """Requests over few ids, so that they share, part, end inside one another, come back and stand elsewhere.

    Args:
        requests: at most so many.
        longest: blocks that a request adds to an earlier one, at most.
        whole: every prompt is full blocks and a token more.
    """
    rows: list[Row] = []
    told = draw(st.sampled_from([False, False, True])) and not whole
    time = 0.0
    for line in range(1, draw(st.integers(1, requests)) + 1):
        ids = draw(st.lists(st.integers(0, 2), max_size=longest))
        if rows and draw(st.booleans()):  # a turn that goes on
            ids = [*rows[draw(st.integers(0, len(rows) - 1))].ids, *ids]
        weights = draw(st.lists(st.sampled_from([B, B, B, 1, 3]), min_size=len(ids), max_size=len(ids)))
        if whole:
            length = len(ids) * B + 1
        elif told:
            length = max(1, sum(weights) + draw(st.sampled_from([0, 0, 3])))
        else:  # the last block is partial, has no id, or is one too many
            length = max(1, len(ids) * B - draw(st.integers(0, B - 1)) + draw(st.sampled_from([0, 0, 0, B + 1, -B])))
        time += draw(st.sampled_from([0.0, 0.5, 70.0]))
        session, tenant = draw(st.sampled_from([None, "s", "t"])), draw(st.sampled_from([None, "u"]))
        scope = draw(st.sampled_from([None, None, None, "other"]))
        given = weights if told else None
        rows.append(row(line, ids, length, time=time, session=session, tenant=tenant, scope=scope, weights=given))
    return rows


def busy(seed: int, requests: int = 150) -> list[Row]:
    """A long trace over a few dozens of blocks, of which some are asked for all the time."""
    random = Random(seed)
    rows = []
    for line in range(1, requests + 1):
        depth = random.choice([1, 1, 2, 2, 3])
        ids = [min(int(random.expovariate(0.15)), 30), *(random.randrange(3) for _ in range(depth - 1))]
        rows.append(row(line, ids, len(ids) * B - random.choice([0, 0, 1]), time=float(line)))
    return rows


RULES = [
    Rules(partial=partial, last_token=last_token, match=match, charge=charge)
    for partial in (True, False)
    for last_token in (True, False)
    for match in ("prefix", "any")
    for charge in ("block", "tokens")
]
HEAD_FIRST = [
    Rules(ages="head_first", partial=False),
    *(
        Rules(ages="head_first", match=match, charge=charge)
        for match in ("prefix", "any")
        for charge in ("block", "tokens")
    ),
]
