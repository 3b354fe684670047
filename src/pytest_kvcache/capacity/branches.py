"""How far down the stack of all blocks is one, when only a sample of the blocks is there?

Distances in a sample, divided by its share, are those in all (SHARDS: Waldspurger et al., Efficient MRC Construction
with SHARDS, FAST 2015), if there is much in between. But how many blocks *all* requests used in between is known, and
only how many of these were distinct is not. So what has not been sampled is counted, and taken to repeat itself as what
has been sampled does. Of a few requests next to nothing has been sampled; then they are taken to repeat themselves as
requests did in other windows of that length. Without a sample (a share of 1) nothing is estimated.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable

from .stack import LruStack
from .trunk import WORD, Use

_PRIOR = 100  # blocks seen in one window that weigh as much as all other windows of its length
_MEMORY = 1 << 14  # blocks seen in windows of a length; older ones weigh less and less
_RUN = 8  # blocks that a run costs as much as, nearly


class Branches:
    """Sampled branches, and how much all of them were used.

    Attributes:
        share: of the branches, by their marks.
        limit: marks below it are sampled.
        max_blocks: to hold at most.
        held: so many were held at most, after a request.
    """

    def __init__(self, share: float, max_blocks: int) -> None:
        self.share = share
        self.limit = _limit(share)
        self._stack = LruStack()
        self.held = 0
        self.max_blocks = max_blocks
        self._max_runs = max(64, max_blocks // _RUN)
        self._tidied = 0  # requests that were left when it was tidied up last
        # of each sampled request: its number among all, and what all and what sampled ones had used at its end
        self._rows = array("q")
        self._events = array("q")
        self._touched = array("d")
        self._touches = 0.0
        self._known = [[0.0, 0.0] for _ in range(64)]  # by the length of a window in bits: distinct blocks, and used

    @property
    def sampled(self) -> tuple[int, float]:
        """Requests that were sampled, and blocks of branches that they used: half of a ``Use``."""
        return len(self._stack), self._touches

    def use(self, ids: array[int], mark: int, row: int, events: int) -> list[tuple[int, int, float, int]]:
        """Let a request use what it has of a sampled branch.

        Args:
            ids: from the first block of the branch on.
            mark: of the branch.
            row: number of the request.
            events: blocks of branches that all requests before it had used.

        Returns:
            Pieces as (start, end, blocks of branches before its first block, row that had used them last).
        """
        found = []
        for start, end, distance, last in self._stack.use(ids, mark):
            between = distance - start - 1  # and ``start`` blocks of its own, which stand for nothing else
            used = self._touches - self._touched[last] - start
            others = self._distinct(between, used, events - self._events[last] - start)
            found.append((start, end, others + start, self._rows[last]))
        self._touches += len(ids)
        self._touched.append(self._touches)
        self._events.append(events + len(ids))
        self._rows.append(row)
        return found

    def since(self, use: Use, events: int) -> float:
        """Return how many distinct blocks of branches were used after a moment."""
        _, then, sampled, touches = use
        return self._distinct(self._stack.since(sampled), self._touches - touches, events - then)

    def _distinct(self, distinct: int, used: float, events: int) -> float:
        """Return how many blocks are distinct, when so many of the sampled ones are that were used, of all events."""
        if not events:
            return 0.0
        known = self._known[events.bit_length()]
        if known[1] > _MEMORY:
            known[:] = known[0] / 2, known[1] / 2
        known[0] += distinct
        known[1] += used
        usual = known[0] / known[1] if known[1] > 0 else 1.0
        return distinct + max(0.0, events - used) * (distinct + _PRIOR * usual) / (max(0.0, used) + _PRIOR)

    def full(self) -> bool:
        """Tell whether it is time to tidy up."""
        blocks = self._stack.tree.blocks
        if blocks > self.max_blocks or len(self._stack) - self._tidied > self._max_runs // 4:
            return True
        self.held = max(self.held, blocks)
        return False

    def tidy(self) -> Callable[[Use], Use]:
        """Forget requests that have no blocks left, and halve the share until what is held is within bounds.

        Returns:
            What becomes of moments.
        """
        tree, before = self._stack.tree, self._stack.tree.blocks
        while tree.roots and (tree.blocks > self.max_blocks or sum(1 for _ in tree.runs()) > self._max_runs // 2):
            self.share /= 2
            self.limit = _limit(self.share)
            tree.keep(lambda mark: isinstance(mark, int) and mark < self.limit)
        left = tree.blocks / before if before else 1.0
        kept = self._stack.renumber()
        self._rows = array("q", (self._rows[at] for at in kept))
        self._events = array("q", (self._events[at] for at in kept))
        self._touched = array("d", (self._touched[at] * left for at in kept))
        self._touches *= left
        self._tidied = len(kept)
        self.held = max(self.held, tree.blocks)
        return lambda use: (use[0], use[1], bisect_left(kept, use[2]), use[3] * left)


def _limit(share: float) -> int:
    return WORD + 1 if share == 1 else int(share * WORD)
