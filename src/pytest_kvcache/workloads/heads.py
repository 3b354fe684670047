"""Which tokens do prompts begin with, so that any two part exactly where they should?

Wherever prompts part, at the root, between two nodes of a tree, at the end of a prefix or inside it, each way on begins
with a number of its own, written in pieces. Its first digit alone tells as many ways apart as the vocabulary has
pieces; where there are more, a pair of them may share all digits but one.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .paths import Paths
from .vocabulary import Vocabulary

_KEPT = 1 << 19  # tokens of prefixes in memory; one that was dropped is drawn again
_BESIDE = 64  # what it costs to keep any, in tokens


def turn_of(seed: str) -> int:
    """Return a number from a seed, the same everywhere."""
    return zlib.crc32(seed.encode())


class Head(NamedTuple):
    """The shared part of a prompt in the three forms that prompts are made of.

    Attributes:
        numbers / ids / text: its pieces.
        then: number of the prefix's next piece, None at its end.
    """

    numbers: list[int]
    ids: array[int]
    text: str
    then: int | None


@dataclass(slots=True, eq=False)
class Heads:
    """The prefixes of a workload, drawn as they are needed.

    Attributes:
        vocabulary: pieces.
        paths: the tree of prefixes; its lengths are pieces.
        seed: decides every piece.
    """

    vocabulary: Vocabulary
    paths: Paths
    seed: str
    _kept: dict[tuple[int, int], Head] = field(default_factory=dict, repr=False)
    _size: int = 0

    def head(self, leaf: int, count: int) -> Head:
        """Return the first ``count`` pieces of a prefix."""
        found = self._kept.pop((leaf, count), None)
        if found is None:
            found = self._drawn(leaf, count)
            self._size += count + _BESIDE
        self._kept[leaf, count] = found  # what was used last is dropped last
        while self._size > _KEPT and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._size -= oldest[1] + _BESIDE
        return found

    def first(self, number: int, of: int, seed: str) -> list[int]:
        """Return how a prompt begins that shares nothing: unlike every prefix, and unlike others of its ``of``."""
        return self.mark(number, of, self.seed, turn_of(seed), taken=self.paths.roots if self.paths.length else 0)

    def after(self, head: Head, leaf: int, number: int, of: int, seed: str) -> list[int]:
        """Return how a prompt goes on behind a head: unlike its prefix, and unlike the ``of`` others of the leaf."""
        if head.then is None:
            return self.mark(number, of, f"{seed}/{leaf}", 0)
        return self.mark(number, of, head.then, turn_of(f"{seed}/{leaf}"), taken=1)

    def mark(self, number: int, of: int, start: str | int, turn: int, *, taken: int = 0) -> list[int]:
        """Return the pieces that tell way ``number`` from all other ways of the ``of`` that there are.

        Args:
            number: below ``of``.
            of: ways in all.
            start: piece of the first digit 0, or the seed of one.
            turn: rotates the numbers, so that another run has others.
            taken: first digits below this belong to prefixes.
        """
        free = len(self.vocabulary) - taken
        if free > 0:
            ways = max(of, free)
            number, last = (number + turn) % ways, ways - 1
            value, most = number + (number // free + 1) * taken, last + (last // free + 1) * taken
        else:  # there are more prefixes than pieces
            value, most = number + taken, of - 1 + taken
        return self.vocabulary.digits(value, most + 1, start if isinstance(start, int) else turn_of(start))

    def _drawn(self, leaf: int, count: int) -> Head:
        numbers = [number for part in self._parts(leaf, count) for number in part]
        then = numbers[count] if count < len(numbers) else None
        del numbers[count:]
        return Head(numbers, array("I", self.vocabulary.encode(numbers)), self.vocabulary.text(numbers), then)

    def _parts(self, leaf: int, count: int) -> Iterator[list[int]]:
        for part in self.paths.path(leaf):
            if part.start > count:
                return
            size = part.end - part.start
            first_of_parent = part.number - part.place
            start = f"{self.seed}/{part.level}/{first_of_parent}" if part.level else self.seed
            mark = self.mark(part.place, part.siblings, start, 0)[:size]
            drawn = self.vocabulary.draw(f"{self.seed}/prefix/{part.level}/{part.number}", size)
            yield [*mark, *drawn[len(mark) :]]
