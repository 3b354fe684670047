"""Which block is which? Ids behind each other become numbers that stand for all of what is before them.

A block is the path of ids to it within a scope, as in a trie, so hashes of a block's own tokens and hashes of the whole
prefix are treated alike. Numbers are dense and given by first appearance: a block's is greater than its parent's.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import NamedTuple

from ..errors import TraceError
from ..rows import Row
from .rules import Portion, Rules, portion


class Path(NamedTuple):
    """What of one request is cached, and which blocks that is.

    Attributes:
        row: the request.
        used: what of it is cached.
        blocks: its numbers, first block first; they ascend.
        block_size: tokens of a block.
    """

    row: Row
    used: Portion
    blocks: list[int]
    block_size: int

    @property
    def covered(self) -> int:
        """Tokens of the prompt that have an id."""
        return self.tokens(len(self.row.ids))

    def tokens(self, depth: int) -> int:
        """Tokens of the prompt in its first ``depth`` blocks, cached or not."""
        weights = self.row.weights
        return min(self.row.input_length, depth * self.block_size) if weights is None else sum(weights[:depth])

    def sizes(self, start: int) -> list[int]:
        """Tokens of each cached block from a place on."""
        weights, size, length, end = self.row.weights, self.block_size, self.row.input_length, len(self.used.ids)
        if weights is not None:
            return weights[start:end].tolist()
        return [min(size, length - place * size) for place in range(start, end)]

    def credit(self, depth: int) -> int:
        """Tokens that hit when the first ``depth`` blocks do."""
        full = self.used.full
        if depth <= full:
            return depth * self.block_size
        return full * self.block_size + sum(self.used.rest[: depth - full])

    def credit_at(self, place: int) -> int:
        """Tokens that hit when one block does."""
        full = self.used.full
        return self.block_size if place < full else self.used.rest[place - full]


class Paths:
    """Numbers the blocks of a trace.

    Args:
        block_size: tokens of a block.
        rules: what of a prompt is cached, and what it costs.

    Attributes:
        block_size / rules: as given.
        costs: of each block by number: one slot, or the tokens it had when it was seen first.
    """

    __slots__ = ("_elsewhere", "_parents", "_scopes", "block_size", "costs", "rules")

    def __init__(self, block_size: int, rules: Rules) -> None:
        if block_size < 1:
            raise TraceError(f"block_size={block_size}: expected the tokens of a block, at least 1")
        self.block_size = block_size
        self.rules = rules
        self._scopes: dict[Hashable, tuple[int, dict[int, int]]] = {}  # its root, and the first block of each id
        self._parents: list[int] = []
        self._elsewhere: dict[tuple[int, int], int] = {}  # blocks whose id was first seen behind another parent
        self.costs: list[int] = []

    def of(self, row: Row) -> Path:
        """Return which blocks a request caches."""
        used = portion(row, self.block_size, self.rules)
        known = len(self._parents)
        path = Path(row, used, self._numbers(row, used.ids), self.block_size)
        new = len(self._parents) - known
        if new and self.rules.charge == "block":
            self.costs += [1] * new
        elif new:
            self.costs += path.sizes(len(used.ids) - new)
        return path

    def _numbers(self, row: Row, ids: array[int]) -> list[int]:
        scope = self._scopes.get(row.scope)
        if scope is None:
            scope = self._scopes[row.scope] = (-1 - len(self._scopes), {})
        parent, numbers = scope
        parents = self._parents
        path = []
        for block in ids:
            number = numbers.get(block)
            if number is None:
                number = numbers[block] = len(parents)
                parents.append(parent)
            elif parents[number] != parent:
                number = self._behind(parent, block)
            path.append(number)
            parent = number
        return path

    def _behind(self, parent: int, block: int) -> int:
        number = self._elsewhere.get((parent, block))
        if number is None:
            number = self._elsewhere[parent, block] = len(self._parents)
            self._parents.append(parent)
        return number
