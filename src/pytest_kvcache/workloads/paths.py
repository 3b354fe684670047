"""Which prefixes are there, and which parts do they have in common? Pure.

A tree: of one level where prefixes share nothing with one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Part(NamedTuple):
    """The part of a prefix that one node of the tree adds.

    Attributes:
        level / number: the node, numbered through each level.
        place / siblings: which of the nodes under the same parent it is, and how many there are.
        start / end: tokens of the prefix before it, and with it.
    """

    level: int
    number: int
    place: int
    siblings: int
    start: int
    end: int


@dataclass(frozen=True)
class Paths:
    """A tree of prefixes: each leaf is one, and shares with another what lies on both their paths.

    Attributes:
        levels: from the root down, the nodes of each in all, and the tokens of each node's own part. No level has
            fewer nodes than the one above; node ``n`` of a level is under node ``n * above // here``.
    """

    levels: tuple[tuple[int, int], ...]

    @property
    def leaves(self) -> int:
        """How many prefixes there are."""
        return self.levels[-1][0]

    @property
    def roots(self) -> int:
        """Nodes of the first level, which share nothing with one another."""
        return self.levels[0][0]

    @cached_property
    def length(self) -> int:
        """Tokens of each prefix."""
        return sum(tokens for _, tokens in self.levels)

    @cached_property
    def most_siblings(self) -> tuple[int, ...]:
        """The most nodes under one parent, at each level."""
        above = (1, *(count for count, _ in self.levels))
        return tuple(-(-here // over) for over, (here, _) in zip(above, self.levels, strict=False))

    def path(self, leaf: int) -> tuple[Part, ...]:
        """Return the parts of a prefix, from the root down."""
        return tuple(self._upwards(leaf))[::-1]

    def _upwards(self, number: int) -> Iterator[Part]:
        end = self.length
        for level in range(len(self.levels) - 1, -1, -1):
            here, tokens = self.levels[level]
            above = self.levels[level - 1][0] if level else 1
            parent = number * above // here
            first = _ceil(parent * here, above)
            siblings = _ceil((parent + 1) * here, above) - first
            yield Part(level, number, number - first, siblings, end - tokens, end)
            number, end = parent, end - tokens


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
