"""The hit tokens of an LRU cache at every budget at once, in one pass over a trace.

LRU caches are nested: one of ``C`` blocks holds the ``C`` blocks used last, so a block hits wherever its *stack
distance*, the number of distinct blocks used since and itself, is at most ``C`` (Mattson et al., Evaluation techniques
for storage hierarchies, 1970). A request uses its blocks together, the head youngest, and so a victim is always a leaf.

Of what one request used last, others have taken over a beginning: whoever uses a block uses all before it. What is left
is the end of its path, in one piece. So the stack is, youngest request first, one such piece each; a Fenwick tree over
requests holds their sizes, a path crosses as many pieces as there were last users, and the blocks of one stand at
distances that follow each other by one. The cost of a request grows with these pieces, and not with its blocks.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from ..rows import Note, Row
from .fenwick import Fenwick
from .rules import Portion, Rules, portion
from .runs import RunTree, join
from .steps import Steps


@dataclass(frozen=True, slots=True)
class StackPass:
    """What one pass has found. Of warm rows only what they leave in the cache counts.

    Attributes:
        tokens: hit tokens by budget.
        stored: blocks that were put into the cache by budget, in all rows: those that did not hit and found a slot.
        requests / input_tokens / uncovered_tokens: of the counted rows.
        blocks: distinct ones.
        errors: hit tokens by which a sampled pass may be off, by budget; None: it is exact.
        notes: what a reader of the numbers should know.
    """

    tokens: Steps
    stored: Steps
    requests: int
    input_tokens: int
    uncovered_tokens: int
    blocks: int
    errors: Steps | None = None
    notes: tuple[Note, ...] = ()

    def evictions(self, blocks: int) -> int:
        """Return the blocks that had to go at a budget: what was stored and is not there at the end."""
        return max(0, self.stored(blocks) - blocks)


Found: TypeAlias = tuple[int, int, int, int]


class LruStack:
    """The blocks of a trace, most recently used first."""

    def __init__(self) -> None:
        self.tree = RunTree()
        self._left = Fenwick()  # of each request: blocks that nobody has used since

    def __len__(self) -> int:
        """Requests so far; the next one has this number."""
        return len(self._left)

    def use(self, ids: array[int], scope: Hashable = None) -> list[Found]:
        """Move what a request uses to the top of the stack, and return where it was.

        Returns:
            Pieces of the path as (start, end, distance of the first block, number of the request that had used them
            last); the next blocks are one further each. What is missing had not been used before.
        """
        path = self.tree.path(ids, scope)
        left = self._left
        take, number = left.take, len(left)
        found: list[Found] = []
        last, start, at, single = -1, 0, 0, False
        for run in path:
            if run.last != last:
                if last >= 0:
                    # before it in the stack: what younger requests left, and what this one took from them
                    found.append((start, at, take(last, at - start) + start + 1, last))
                last, start = run.last, at
            at += len(run.ids)
            run.last = number
            if len(run.children) == 1:
                single = True
        if last >= 0:
            found.append((start, at, take(last, at - start) + start + 1, last))
        left.append(at)
        if single:
            join(path)
        return found

    def since(self, number: int) -> int:
        """Return the blocks that were used last by a request or after it."""
        return self._left.behind(number - 1) if number else self._left.total

    def renumber(self) -> list[int]:
        """Forget requests that have no blocks left, number the others anew, and return the numbers that they had."""
        runs = list(self.tree.runs())
        kept = sorted({run.last for run in runs})
        numbers = {old: new for new, old in enumerate(kept)}
        sizes = [0] * len(kept)
        for run in runs:
            run.last = numbers[run.last]
            sizes[run.last] += len(run.ids)
        self._left = Fenwick()
        for size in sizes:
            self._left.append(size)
        return kept


def one_pass(policy: str, rules: Rules) -> bool:
    """Whether all budgets follow from one pass, as LRU caches are nested while a victim is a leaf of one slot.

    Else each budget is simulated by itself.
    """
    return policy == "lru" and (rules.match, rules.charge, rules.ages) == ("prefix", "block", "tail_first")


def stack_pass(rows: Iterable[Row], block_size: int, rules: Rules, *, warm_rows: int = 0) -> StackPass:
    """Return the exact LRU hit tokens of a trace for every budget.

    Args:
        rows: in the order in which they are looked up.
        block_size: tokens of a block.
        rules: what is cached and what can hit; those of a stack: leaves first, whole slots, prefixes.
        warm_rows: so many first rows only fill the cache.
    """
    rest, stack = iter(rows), LruStack()
    warm, counted = _Tally(block_size), _Tally(block_size)
    warm.read(islice(rest, warm_rows), stack, rules)
    counted.read(rest, stack, rules)
    return counted.result(warm, stack.tree.blocks)


class _Tally:
    """Adds up distances: hit blocks, and how far their tokens are from ``block_size`` each."""

    def __init__(self, block_size: int) -> None:
        self._size = block_size
        self._hits: dict[int, int] = defaultdict(int)  # change in hit blocks at a distance
        self._less: dict[int, int] = defaultdict(int)  # change in tokens, beside those of whole blocks
        self._depths: dict[int, int] = defaultdict(int)  # requests by their blocks
        self._input = self._uncovered = 0

    def read(self, rows: Iterable[Row], stack: LruStack, rules: Rules) -> None:
        """Look up requests, in order. What is written out here is all that most of them cost."""
        size, partial, use, hits, depths = self._size, rules.partial, stack.use, self._hits, self._depths
        given = uncovered = 0
        for row in rows:
            ids, length = row.ids, row.input_length
            if row.weights is None:
                bare = length - len(ids) * size  # tokens without an id; less than 0: the last block is not full
                blocks = -(-length // size) if partial else length // size
                if len(ids) > blocks:
                    ids = ids[:blocks]
            else:
                ids, bare = portion(row, size, rules).ids, length - sum(row.weights)
            found = use(ids, row.scope)
            depths[len(ids)] += 1
            for start, end, distance, _ in found:
                hits[distance] += 1
                hits[distance + end - start] -= 1
            if found and (found[-1][1] * size >= length or row.weights is not None):
                self._correct(portion(row, size, rules), found)
            given += length
            if bare > 0:
                uncovered += bare
        self._input += given
        self._uncovered += uncovered

    def _correct(self, used: Portion, found: list[Found]) -> None:
        """Count blocks that are not full, or hit without their last token."""
        for start, end, distance, _ in found:
            for at in range(max(start, used.full), end):
                less = used.rest[at - used.full] - self._size
                self._less[distance + at - start] += less
                self._less[distance + at - start + 1] -= less

    def result(self, warm: _Tally, blocks: int) -> StackPass:
        """Return what was found; of what came before only what it left in the cache and stored counts."""
        tokens = {distance: change * self._size for distance, change in self._hits.items()}
        for distance, change in self._less.items():
            tokens[distance] = tokens.get(distance, 0) + change
        depths = Counter(warm._depths)
        depths.update(self._depths)
        return StackPass(
            tokens=Steps.of(tokens),
            stored=Steps.of(stored_changes(depths, (self._hits, warm._hits))),
            requests=sum(self._depths.values()),
            input_tokens=self._input,
            uncovered_tokens=self._uncovered,
            blocks=blocks,
        )


def stored_changes(depths: Mapping[int, int], hits: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Return the changes of blocks stored: every block at a place up to the budget, without those that hit.

    Args:
        depths: requests by their blocks.
        hits: changes of hit blocks.
    """
    changes = {1: sum(depths.values())}
    for depth, requests in depths.items():
        changes[depth + 1] = changes.get(depth + 1, 0) - requests
    for of in hits:
        for distance, change in of.items():
            changes[distance] = changes.get(distance, 0) - change
    return changes
