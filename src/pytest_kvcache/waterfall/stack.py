"""What an LRU cache still holds, for every capacity at once.

An LRU cache of C blocks holds the C blocks used last, so a block is still there exactly when at most C distinct blocks,
itself included, were used since (the stack algorithm of Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques for
storage hierarchies", IBM Systems Journal 9, 1970). Prefix caches use a prompt's blocks with the head as the youngest
(vLLM 0.32 frees them in reverse), so a run of blocks that are always used together needs one entry, whatever its
length: of the run that the capacity cuts, the head stays.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from .visits import Run


class LruStack:
    """Runs in order of use. Every question and every use costs the logarithm of the uses so far, for each run.

    Args:
        block: tokens per block. A block belongs to the run in which it ends: it is another block for every
            continuation of a run that ends inside of it.
        uses: most runs that will ever be used, counting repetitions.
    """

    def __init__(self, block: int, uses: int) -> None:
        self._block = block
        self._sums = [0] * (uses + 1)  # a Fenwick tree of the blocks by moment of their last use
        self._last: dict[Hashable, int] = {}
        self._now = 0
        self.total = 0

    def __contains__(self, key: Hashable) -> bool:
        return key in self._last

    def use(self, path: Sequence[Run]) -> None:
        """Use runs, the last one first."""
        for run in reversed(path):
            blocks = self._blocks(run)
            if run.key in self._last:
                self._add(self._last[run.key], -blocks)
            self._now += 1
            self._last[run.key] = self._now
            self._add(self._now, blocks)

    def held(self, path: Sequence[Run], capacity: int) -> int:
        """Return how many first blocks of a path a cache of so many blocks holds."""
        held = 0
        for run in path:
            if run.key not in self._last:
                break
            held += max(0, min(self._blocks(run), capacity - self._younger(run)))
        return held

    def needed(self, path: Sequence[Run], blocks: int) -> int:
        """Return the smallest capacity in blocks that holds so many first blocks of a path that was used before."""
        needed = 0
        for run in path:
            if blocks <= 0:
                break
            taken = min(blocks, self._blocks(run))
            if taken:
                needed = self._younger(run) + taken
            blocks -= taken
        return needed

    def _blocks(self, run: Run) -> int:
        return run.end // self._block - run.start // self._block

    def _younger(self, run: Run) -> int:
        """Return the blocks of all runs that were used after this one."""
        at, older = self._last[run.key], 0
        while at:
            older += self._sums[at]
            at &= at - 1
        return self.total - older

    def _add(self, at: int, blocks: int) -> None:
        self.total += blocks
        while at < len(self._sums):
            self._sums[at] += blocks
            at += at & -at
