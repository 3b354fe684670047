"""A trace through one cache of one budget: what hits?"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from ..errors import TraceError
from ..rows import Note, Row
from .paths import Path, Paths
from .policies import ONLINE, Cache, Foresight, HeadFirstLRU, Optimum, Unlimited, bound
from .rules import REFERENCE, Rules, rules_of
from .simulated import Rate, Residency, Reuse, Simulated
from .timing import Clock, GapLog, TouchLog

POLICIES = (*ONLINE, "optimum")
"""Names of policies: those that know the past only, and what none of them exceeds."""


def simulate(
    rows: Iterable[Row],
    block_size: int,
    policy: str = "lru",
    *,
    slots: int | None,
    rules: Rules | str = REFERENCE,
    warm_rows: int = 0,
) -> Simulated:
    """Send a trace through one cache.

    One request follows another, in the order of the rows. A request is looked up whole before any of its blocks is put
    into the cache; its hit tokens are those of its leading run of cached blocks.

    Args:
        rows: requests. ``optimum`` keeps all of them in memory.
        block_size: tokens of a block.
        policy: ``lru``, ``fifo``, ``lfu``, ``s3fifo``, or ``optimum``: what none of them exceeds.
        slots: budget in blocks; None without limit. With ``charge="tokens"`` it is ``slots * block_size`` tokens.
        rules: what is cached and what can hit.
        warm_rows: so many first rows only fill the cache.

    Raises:
        TraceError: an unknown policy, a policy without such rules, or a budget below 0.
    """
    rules = rules_of(rules)
    paths = Paths(block_size, rules)
    _check(policy, slots, rules)
    if policy == "optimum" and slots is not None:
        return _optimum([paths.of(row) for row in rows], paths, slots, warm_rows)
    run = Simulation(cache_of(policy, slots, paths), rules)
    for number, row in enumerate(rows):
        run.serve(paths.of(row), counted=number >= warm_rows)
    return run.result(policy, slots, block_size)


def cache_of(policy: str, slots: int | None, paths: Paths) -> Cache:
    """Return an empty cache, of a policy that knows the past only, for blocks of these numbers.

    Raises:
        TraceError: an unknown policy, a policy without such rules, or a budget below 0.
    """
    _check(policy, slots, paths.rules)
    if slots is None:
        return Unlimited(0, paths.costs)
    head_first = paths.rules.ages == "head_first"
    return (HeadFirstLRU if head_first else ONLINE[policy])(room_of(slots, paths), paths.costs)


def _check(policy: str, slots: int | None, rules: Rules) -> None:
    if policy not in POLICIES:
        raise TraceError(f"policy={policy!r}: expected {', '.join(map(repr, POLICIES))}")
    if rules.ages != "tail_first" and policy != "lru":
        raise TraceError(f"policy={policy!r} has no ages={rules.ages!r}: only 'lru' orders the blocks of a request so")
    if slots is not None and slots < 0:
        raise TraceError(f"slots={slots}: expected a budget in blocks, 0 or more")


def room_of(slots: int, paths: Paths) -> int:
    """Return the room of a budget, in the unit of what blocks cost."""
    return slots if paths.rules.charge == "block" else slots * paths.block_size


class Simulation:
    """One cache, request by request.

    Args:
        cache: empty.
        rules: what can hit.
    """

    def __init__(self, cache: Cache, rules: Rules) -> None:
        self.cache = cache
        self._rules = rules
        self._clock = Clock()
        self._last: list[int] = []  # by block: the last request that had it, -1: none
        self._requests = 0
        self._evictions = 0
        self._lifetime, self._idle, self._reuse, self._touched = GapLog(), GapLog(), GapLog(), TouchLog()
        self._tally = _Tally()

    def serve(self, path: Path, *, counted: bool = True) -> int:
        """Look a request up, then put it into the cache; return its hit tokens."""
        now, blocks, cache = self._requests, path.blocks, self.cache
        self._requests += 1
        self._clock.tick(path.row.time)
        if self._rules.match == "any":
            hits: Sequence[int] = cache.anywhere(blocks)
            tokens = sum(map(path.credit_at, hits))
        else:
            depth = cache.leading(blocks)
            hits, tokens = range(depth), path.credit(depth)
        known = self._touch(path, now, hits if counted else ())
        if counted:
            self._tally.add(path, tokens, known)
        evicted = cache.admit(blocks, now)
        if evicted:
            last = self._last
            self._evictions += len(evicted)
            self._lifetime.add_each([since for _, since in evicted], now)
            self._idle.add_each([last[block] for block, _ in evicted], now)
        return tokens

    def result(self, policy: str, slots: int | None, block_size: int, notes: tuple[Note, ...] = ()) -> Simulated:
        """Return what the cache did so far."""
        times, tally = self._clock.times, self._tally
        return Simulated(
            policy=policy,
            rules=self._rules,
            slots=slots,
            block_size=block_size,
            requests=len(tally.per_request),
            input_tokens=tally.input,
            hit_tokens=tally.hit,
            uncovered_tokens=tally.input - tally.covered,
            hit_requests=sum(map(bool, tally.per_request)),
            evictions=self._evictions,
            per_request=tally.per_request[:],
            sessions=tally.rates(tally.sessions),
            tenants=tally.rates(tally.tenants),
            residency=Residency(self._lifetime.gaps(times), self._idle.gaps(times)),
            reuse=Reuse(self._reuse.gaps(times), tally.compulsory, tally.reusable - tally.hit, tally.excluded),
            working_set=self._touched.working_set(times, self._requests),
            notes=notes,
        )

    def _touch(self, path: Path, now: int, hits: Sequence[int]) -> int:
        """Log what a request has, and what of it hit, by who had it last; return how many first blocks anyone had."""
        blocks, last = path.blocks, self._last
        if blocks and blocks[-1] >= len(last):
            last.extend([-1] * (blocks[-1] + 1 - len(last)))
        at = tokens = hit = known = 0
        for then, equal in groupby(map(last.__getitem__, blocks)):
            before, at = at, at + len(list(equal))
            lower, tokens = tokens, path.tokens(at)
            self._touched.add(then, now, at - before, tokens - lower)
            if then >= 0:
                known = at
                sooner, hit = hit, bisect_left(hits, at)
                if hit > sooner:
                    self._reuse.add(then, now, hit - sooner)
        for block in blocks:
            last[block] = now
        return known


class _Tally:
    """Adds up counted rows."""

    def __init__(self) -> None:
        self.input = self.covered = self.hit = 0
        self.compulsory = self.excluded = 0
        self.reusable = 0  # hit tokens of a cache without limit
        self.per_request = array("q")
        self.sessions: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.tenants: dict[str, list[int]] = defaultdict(lambda: [0, 0])

    def add(self, path: Path, tokens: int, known: int) -> None:
        row, covered = path.row, path.covered
        seen, all_kept, reusable = path.tokens(known), path.tokens(len(path.blocks)), path.credit(known)
        self.input += row.input_length
        self.covered += covered
        self.hit += tokens
        self.reusable += reusable
        self.compulsory += all_kept - seen
        self.excluded += covered - all_kept + seen - reusable
        self.per_request.append(tokens)
        for key, rates in ((row.session, self.sessions), (row.tenant, self.tenants)):
            if key is not None:
                rate = rates[key]
                rate[0] += tokens
                rate[1] += row.input_length

    @staticmethod
    def rates(found: dict[str, list[int]]) -> dict[str, Rate]:
        return {key: Rate(*rate) for key, rate in found.items()}


def _optimum(served: list[Path], paths: Paths, slots: int, warm_rows: int) -> Simulated:
    """Return the bound, and beside it what the schedule does that drops what is needed last."""
    room = room_of(slots, paths)
    foresight = Foresight(served, paths.costs, warm_rows)
    run = Simulation(Optimum(room, paths.costs, foresight), paths.rules)
    for number, path in enumerate(served):
        run.serve(path, counted=number >= warm_rows)
    done = run.result("optimum", slots, paths.block_size)
    most = min(bound(foresight, room), done.hit_tokens + done.reuse.capacity_tokens)
    if most == done.hit_tokens:
        return done
    note = Note(
        "optimum_schedule",
        done.hit_tokens,
        None,
        f"no policy has more than {most:,} hit tokens; a schedule with {done.hit_tokens:,} is known, and what is told"
        " of single requests, sessions and evictions is told of that",
    )
    lost = done.reuse.capacity_tokens - (most - done.hit_tokens)
    reuse = done.reuse._replace(capacity_tokens=lost)
    return replace(done, hit_tokens=most, reuse=reuse, notes=(note,))
