"""Which block is which? Ids behind each other become numbers that stand for all of what is before them.

A block is the path of ids to it within a scope, as in a trie, so hashes of a block's own tokens and hashes of the whole
prefix are treated alike. Numbers are dense and given by first appearance: a block's is greater than its parent's.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import Literal, NamedTuple

from ..errors import TraceError
from ..model.trace import Note, Row
from .rules import Portion, Rules, portion

Ids = Literal["content", "prefix"]
"""What a trace declares its ids to be: hashes of a block's own tokens, or of all tokens up to its end."""


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
        ids: what the trace declares its ids to be; None: nothing, so that an id behind another one than before is worth
            a note.
        name: of the trace, for errors.

    Attributes:
        block_size / rules: as given.
        costs: of each block by number: one slot, or the tokens it had when it was seen first.
    """

    __slots__ = ("_elsewhere", "_ids", "_line", "_name", "_parents", "_scopes", "block_size", "costs", "rules")

    def __init__(self, block_size: int, rules: Rules, ids: Ids | None = None, name: str = "") -> None:
        if block_size < 1:
            raise TraceError(f"block_size={block_size}: expected the tokens of a block, at least 1")
        self.block_size = block_size
        self.rules = rules
        self._ids = ids
        self._name = name
        self._scopes: dict[Hashable, tuple[int, dict[int, int]]] = {}  # its root, and the first block of each id
        self._parents: list[int] = []
        self._elsewhere: dict[tuple[int, int], int] = {}  # blocks whose id was first seen behind another parent
        self._line: int | None = None
        self.costs: list[int] = []

    def of(self, row: Row) -> Path:
        """Return which blocks a request caches.

        Raises:
            TraceError: an id of a trace of prefix hashes stands behind two parents; names the line.
        """
        used = portion(row, self.block_size, self.rules)
        known = len(self._parents)
        path = Path(row, used, self._numbers(row, used.ids), self.block_size)
        new = len(self._parents) - known
        if new and self.rules.charge == "block":
            self.costs += [1] * new
        elif new:
            self.costs += path.sizes(len(used.ids) - new)
        return path

    def notes(self) -> tuple[Note, ...]:
        """Return what should be known of the ids."""
        count = len(self._elsewhere)
        if not count or self._ids is not None:
            return ()
        sentence = (
            f"{count:,} distinct blocks have an id that was seen before behind another parent (first in line"
            f" {self._line}): what stands before it is part of what a block is, so none of them is a hit of the other"
        )
        return (Note("same_id_after_another_parent", count, self._line, sentence),)

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
                number = self._behind(parent, block, row.line)
            path.append(number)
            parent = number
        return path

    def _behind(self, parent: int, block: int, line: int) -> int:
        number = self._elsewhere.get((parent, block))
        if number is None:
            if self._ids == "prefix":
                where = f"{self._name}, line {line}" if self._name else f"line {line}"
                raise TraceError(
                    f"{where}: id {block} stood behind another id before, so it is no prefix hash; expected ids that"
                    ' each mean all of the prompt up to them, or ids="content"'
                )
            self._line = line if self._line is None else self._line
            number = self._elsewhere[parent, block] = len(self._parents)
            self._parents.append(parent)
        return number
