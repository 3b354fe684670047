"""Which request takes which prefix, which length, and how much of the prefix? Exact, and pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from .paths import Paths
from .shares import Deal


class Place(NamedTuple):
    """What one measured request is made of.

    Attributes:
        leaf: number of its prefix.
        position: among the requests of that prefix, from 0.
        input_len: tokens of the prompt.
        prefix_len: first tokens that it shares with its prefix.
        column: number of the wanted rate.
        row: among the requests of that rate, from 0.
    """

    leaf: int
    position: int
    input_len: int
    prefix_len: int
    column: int
    row: int


@dataclass(frozen=True)
class Plan:
    """The measured requests in their order. Prefixes, lengths and rates are dealt apart, each in exact shares.

    Attributes:
        paths: the prefixes.
        by_leaf: deals the requests to the prefixes.
        lengths / by_length: tokens of prompts, and which request has which.
        by_rate: which request has which of the wanted rates.
        shared: tokens that a prompt shares, by length and rate.
        warm: the prefixes are sent before the measured requests.
    """

    paths: Paths
    by_leaf: Deal
    lengths: tuple[int, ...]
    by_length: Deal
    by_rate: Deal
    shared: tuple[tuple[int, ...], ...] = field(repr=False)
    warm: bool = True

    def __len__(self) -> int:
        return len(self.by_leaf)

    def __getitem__(self, index: int) -> Place:
        leaf, position = self.by_leaf[index]
        row, column = self.by_length[index].which, self.by_rate[index]
        return Place(leaf, position, self.lengths[row], self.shared[row][column.which], column.which, column.position)

    def __iter__(self) -> Iterator[Place]:
        return (self[index] for index in range(len(self)))

    @property
    def used(self) -> Iterator[int]:
        """The prefixes that any request takes."""
        return (leaf for leaf, count in enumerate(self.by_leaf.counts) if count)

    @cached_property
    def query_tokens(self) -> int:
        """Tokens of all measured prompts."""
        return sum(length * count for length, count in zip(self.lengths, self.by_length.counts, strict=True))

    @cached_property
    def shared_tokens(self) -> int:
        """Tokens that the measured prompts share with their prefixes."""
        if len(self.lengths) == 1:
            return sum(tokens * count for tokens, count in zip(self.shared[0], self.by_rate.counts, strict=True))
        return sum(place.prefix_len for place in self)

    @cached_property
    def prefix_lens(self) -> tuple[int, int]:
        """The least and the most tokens that a prompt shares with its prefix."""
        found = [tokens for row in self.shared for tokens in row]
        return min(found), max(found)
