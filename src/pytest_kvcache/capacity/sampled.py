"""The curve of a trace too large to hold, from a sample of its sessions.

Branches (``trunk.py``) are sampled by a hash of all that is before them. Every request is read: what it uses of the
trunk, and how many blocks, is known exactly; only requests of sampled branches are followed further. When more would be
held than allowed, the share is halved and branches above it are forgotten; what had been counted keeps its weight.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ..errors import TraceError
from ..rows import Note, Row
from .branches import Branches
from .budget import is_number
from .estimate import GROUPS, Estimate, Seen, Stage, rounded, settled, through
from .rules import Portion, Rules, portion
from .stack import StackPass, stored_changes
from .steps import Steps
from .trunk import WORD, Part, Trunk, Use, mix, shared

MAX_BLOCKS = 1_000_000
WINDOW = 20_000  # requests of which the trunk is learned
_Request: TypeAlias = tuple[Hashable, "array[int]"]  # scope, blocks
_Found: TypeAlias = tuple[int, int, int]  # start and end on the path, distance of the first block
_ROOM = 8  # times max_blocks: of a window of plain requests, which take less memory than a tree of them
_SHARED = 1000  # of so many requests, one with a way of its own on makes a beginning a shared one,
_LEAST = 8  # when there are so many
_MANY = 16  # requests in a window, after which a branch is large
_ENOUGH = 32  # requests of it to be looked at then


@dataclass(frozen=True, slots=True)
class SampledPass(StackPass):
    """What a pass over a sample has found: an estimate of what :func:`~.stack.stack_pass` finds.

    Attributes:
        share: of the sessions that were followed to the end.
        sampled: requests that were followed.
        held: blocks of sessions that were held at most.
    """

    share: float = 1.0
    sampled: int = 0
    held: int = 0


def sampled_pass(
    rows: Iterable[Row],
    block_size: int,
    rules: Rules,
    *,
    share: float | None = None,
    max_blocks: int = MAX_BLOCKS,
    seed: int = 0,
    warm_rows: int = 0,
    window: int = WINDOW,
) -> SampledPass:
    """Return the LRU hit tokens of a trace for every budget, estimated in bounded memory.

    Args:
        rows: in the order in which they are looked up; gone through once.
        block_size: tokens of a block.
        rules: what is cached and what can hit; those of a stack.
        share: of the sessions to follow, above 0; None: all of them, until there are too many.
        max_blocks: of sessions to hold at most; the share is halved to keep to it.
        seed: of the sample.
        warm_rows: so many first rows only fill the cache.
        window: requests that are looked at together to find what many share; the first ones are held meanwhile.

    Raises:
        TraceError: a share or a bound that is none; or no request that counts was sampled.
    """
    if share is not None and not (is_number(share, 1) and share):
        raise TraceError(f"sample={share!r}: expected a share of the sessions, above 0 and up to 1")
    for name, number in (("max_blocks", max_blocks), ("window", window)):
        if not (isinstance(number, int) and not isinstance(number, bool) and number > 0):
            raise TraceError(f"{name}={number!r}: expected a whole number, 1 or more")
    sampler = Sampler(block_size, rules, Branches(share or 1.0, max_blocks), seed, warm_rows, window)
    rest = iter(rows)
    sampler.read(sampler.prepare(rest))
    sampler.read(rest)
    return sampler.result()


class Sampler:
    """One pass; see :func:`sampled_pass`."""

    def __init__(
        self, block_size: int, rules: Rules, branches: Branches, seed: int, warm_rows: int, window: int
    ) -> None:
        self._size, self._rules, self._warm_rows, self._window = block_size, rules, warm_rows, window
        self._seed = mix(seed & WORD)
        self._trunk = Trunk(seed)
        self._branches = branches
        self._stages = [Stage(branches.share, counted=not warm_rows)]
        self._depths: dict[int, int] = defaultdict(int)  # requests by their blocks
        self._rows = self._input = self._covered = self._sampled = 0
        self._events = 0  # blocks of branches that were used
        self._often: dict[int, int] = {}  # requests of each branch, in this window
        self._large: dict[int, list[_Request]] = {}  # those of branches that have become large

    def prepare(self, rows: Iterator[Row]) -> list[Row]:
        """Take a window of requests, and let the trunk have what they share."""
        first: list[Row] = []
        room = _ROOM * self._branches.max_blocks
        for row in rows:
            first.append(row)
            room -= len(row.ids)
            if len(first) >= self._window or room < 0:
                break
        cut = ((row.scope, portion(row, self._size, self._rules).ids) for row in first)
        for scope, ids in shared(cut, max(_LEAST, len(first) // _SHARED)):
            self._trunk.grow(ids, scope, None)
        return first

    def read(self, rows: Iterable[Row]) -> None:
        """Read requests, in order. What is written out here is all that most of them cost."""
        size, partial, seed, window = self._size, self._rules.partial, self._seed, self._window
        follow, fresh, branches, depths = self._trunk.follow, self._trunk.fresh, self._branches, self._depths
        events, given, covered = self._events, self._input, self._covered
        stage, limit, (sampled, touches) = self._stages[-1], branches.limit, branches.sampled
        trunk, grown, counted = stage.trunk, stage.branches, stage.counted
        often, thin, number = self._often, branches.share < 1, self._rows - 1
        for number, row in enumerate(rows, self._rows):
            if number == self._warm_rows and number:
                stage = self._open(counted=True)
                trunk, grown, counted = stage.trunk, stage.branches, True
            ids, length = row.ids, row.input_length
            depth = len(ids)
            if row.weights is None:
                has = depth * size
                if has > length:  # ids of no tokens, or the last block is not full
                    has = length
                    depth = -(-length // size) if partial else length // size
            else:
                depth, has = len(portion(row, size, self._rules).ids), sum(row.weights)
            if counted:
                given += length
                covered += has
            depths[depth] += 1
            part, at, mark = follow(ids, depth, row.scope)
            if at < depth:
                mark = mix(mark ^ ids[at] & WORD)
                grown.blocks += depth - at
                grown.requests += 1
                if thin:
                    often[mark] = times = often.get(mark, 0) + 1
                    if times > _MANY:
                        self._look(mark, row.scope, ids[:depth], (number, events, sampled, touches))
            else:
                mark = mix(seed ^ mix(number))  # it has no branch: any of its kind will do
            if part is not None:
                trunk.blocks += at
                trunk.requests += 1
            if mark < limit:
                stage = self._measure(row, part, at, mark, number, events)
                trunk, grown, limit, (sampled, touches) = stage.trunk, stage.branches, branches.limit, branches.sampled
                thin = branches.share < 1
            events += depth - at
            if part is not None:
                fresh[part] = (number, events, sampled, touches)
            if number % window == 0:
                often.clear()
                self._large.clear()
        self._rows, self._events, self._input, self._covered = number + 1, events, given, covered

    def result(self) -> SampledPass:
        """Return what was found."""
        estimate = Estimate(settled(self._stages), self._size)
        used = sum(depth * requests for depth, requests in self._depths.items())
        hits = rounded(estimate.hit_blocks(), used)
        tokens = rounded(estimate.tokens(), self._covered)
        # what none of n requests shows may still be so of three in n ("rule of three")
        errors = estimate.errors(tokens, 3 * self._input / max(1, self._sampled))
        return SampledPass(
            tokens=tokens,
            stored=Steps.of(stored_changes(self._depths, [hits.changes()])),
            requests=max(0, self._rows - self._warm_rows),
            input_tokens=self._input,
            uncovered_tokens=self._input - self._covered,
            blocks=used - hits.most,
            errors=through(errors) if errors else None,
            notes=(self._note(),) if errors else (),
            share=self._branches.share,
            sampled=self._sampled,
            held=self._branches.held,
        )

    def _note(self) -> Note:
        share = self._branches.share
        sentence = f"estimated from {self._sampled:,} requests, those of {share:.3g} of the sessions (at the end)"
        return Note("sampled", self._sampled, None, sentence)

    def _open(self, *, counted: bool) -> Stage:
        self._stages.append(Stage(self._branches.share, counted))
        return self._stages[-1]

    def _look(self, mark: int, scope: Hashable, ids: array[int], now: Use) -> None:
        """Look at requests of a large branch; let what they share become trunk, if that is not too large itself."""
        if self._trunk.blocks > self._branches.max_blocks:
            return
        requests = self._large.setdefault(mark, [])
        requests.append((scope, ids))
        if len(requests) < _ENOUGH:
            return
        for _, beginning in shared(requests, _LEAST):
            self._trunk.grow(beginning, scope, now)
        del self._large[mark]
        self._often[mark] = -self._window  # in this window that is enough of it

    def _measure(self, row: Row, part: Part | None, at: int, mark: int, number: int, events: int) -> Stage:
        """Follow a request: where in the stack of all blocks is what it uses?"""
        used, group, stage = portion(row, self._size, self._rules), mark % GROUPS, self._stages[-1]
        own = len(used.ids) - at
        self._sampled += 1
        self._trunk.settle()
        if part is not None:
            found = self._on_trunk(part.path(), events)
            stage.trunk.seen.add(group, at, found)
            _correct(stage.trunk.seen, found, used, self._size)
        if not own:
            return stage
        pieces = self._branches.use(used.ids[at:], mark, number, events)
        found = [
            (at + start, at + end, 1 + self._trunk.since(last) + round(before)) for start, end, before, last in pieces
        ]
        stage.branches.seen.add(group, own, found)
        _correct(stage.branches.seen, found, used, self._size)
        if self._branches.full():
            share = self._branches.share
            self._trunk.renew(self._branches.tidy())
            if self._branches.share < share:
                stage.trunk.seen.fold()
                stage.branches.seen.fold()
                return self._open(counted=stage.counted)
        return stage

    def _on_trunk(self, path: list[Part], events: int) -> list[_Found]:
        """Return pieces of the trunk: start, end, and distance of the first block."""
        found: list[_Found] = []
        start, before = 0, None
        for part in path:
            end, last = start + len(part.ids), part.last
            if last is not None:
                if last == before:
                    first, _, distance = found.pop()
                else:
                    first, distance = start, 1 + self._trunk.younger(last) + round(self._branches.since(last, events))
                found.append((first, end, distance))
            start, before = end, last
        return found


def _correct(seen: Seen, found: list[_Found], used: Portion, size: int) -> None:
    for start, end, distance in found:
        for place in range(max(start, used.full), end):
            seen.correct(distance + place - start, used.rest[place - used.full] - size)
