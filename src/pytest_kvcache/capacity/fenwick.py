"""The sum of everything behind a place of a growing list, in logarithmic time.

Fenwick, A new data structure for cumulative frequency tables, 1994.
"""

from __future__ import annotations


class Fenwick:
    """Numbers in a row, appended one by one, changed anywhere.

    Attributes:
        total: of all of them.
    """

    __slots__ = ("_tree", "total")

    def __init__(self) -> None:
        self.total = 0
        self._tree = [0]  # entry i, from 1, holds the sum of the i & -i numbers up to it

    def __len__(self) -> int:
        return len(self._tree) - 1

    def append(self, number: int) -> None:
        """Put a number behind all others."""
        tree = self._tree
        at = len(tree)
        self.total += number
        first, below = at - (at & -at), at - 1
        while below > first:
            number += tree[below]
            below &= below - 1
        tree.append(number)

    def take(self, index: int, amount: int) -> int:
        """Take from the number at ``index``, from 0, and return the sum of those behind it."""
        tree, end, at = self._tree, len(self._tree), index + 1
        self.total -= amount
        if at == end - 1:  # the last one, which is taken from most: requests begin like the one before
            tree[at] -= amount
            return 0
        while at < end:
            tree[at] -= amount
            at += at & -at
        return self.behind(index)

    def behind(self, index: int) -> int:
        """Return the sum of the numbers behind ``index``."""
        tree, at, upto = self._tree, index + 1, 0
        while at:
            upto += tree[at]
            at &= at - 1
        return self.total - upto
