"""How many requests get what, and in which order? Exact shares instead of random draws. Pure."""

from __future__ import annotations

import math
import random
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from ..checks import is_number

T = TypeVar("T", int, float)

Weights: TypeAlias = Literal["uniform", "zipf"] | tuple[Literal["zipf"], float] | Sequence[float]
"""``uniform``; ``zipf``, the k-th weighs 1/k; ``("zipf", s)``, it weighs 1/k**s; or a weight for each."""

Mix: TypeAlias = T | Sequence[T] | Mapping[T, float]
"""One value for all requests, several in equal shares, or several with the share of each."""


class Slot(NamedTuple):
    """What a request was dealt.

    Attributes:
        which: number of the share.
        position: of the request in that share, from 0.
    """

    which: int
    position: int


@dataclass(frozen=True)
class Deal:
    """Requests dealt out in shares of exact size.

    Attributes:
        counts: requests of each share.
        order: seeds the order in which the shares come; None: in turn, for counts that differ by one at most, the
            greater ones first.
    """

    counts: tuple[int, ...] = field(repr=False)
    order: str | None = None

    def __len__(self) -> int:
        return sum(self.counts)

    def __getitem__(self, index: int) -> Slot:
        if self.order is None:
            position, which = divmod(index, len(self.counts))
            return Slot(which, position)
        slot = self._shuffled[index]
        which = bisect_right(self._ends, slot)
        return Slot(which, slot - (self._ends[which - 1] if which else 0))

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(self.counts))

    @cached_property
    def _shuffled(self) -> array[int]:
        slots = array("L", range(len(self)))  # a few bytes for each request, whatever its length
        random.Random(self.order).shuffle(slots)
        return slots

    @classmethod
    def in_turn(cls, total: int, ways: int) -> Deal:
        """Deal one after the other."""
        least, more = divmod(total, ways)
        return cls((least + 1,) * more + (least,) * (ways - more))

    @classmethod
    def weighted(cls, total: int, weights: Sequence[float], order: str) -> Deal:
        """Deal in shares that are as near to the weights as whole requests allow, in a seeded order."""
        return cls((total,)) if len(weights) == 1 else cls(apportion(total, weights), order)

    @classmethod
    def drawn(cls, total: int, ways: int, order: str) -> Deal:
        """Deal each to any of the ways, all equally likely: sizes as independent seeded draws make them."""
        found = Counter(random.Random(f"{order}/sizes").choices(range(ways), k=total))
        return cls(tuple(found[way] for way in range(ways)), order)


def apportion(total: int, weights: Sequence[float]) -> tuple[int, ...]:
    """Divide whole things by weights: largest remainders (Hamilton's method), the first of equal remainders first.

    The sum is ``total``, and each part differs from its exact share by less than one.
    """
    exact = [Fraction(str(float(weight))) for weight in weights]  # 0.1 means a tenth, as it was written
    whole = sum(exact)
    quotas = [total * weight / whole for weight in exact]
    parts = [math.floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(parts)), key=lambda at: parts[at] - quotas[at])
    for at in by_remainder[: total - sum(parts)]:
        parts[at] += 1
    return tuple(parts)


def deal_of(weights: Weights, total: int, ways: int, order: str) -> Deal:
    """Return how requests are dealt by weights that :func:`weights_problem` has passed."""
    if isinstance(weights, str):
        return Deal.in_turn(total, ways) if weights == "uniform" else Deal.weighted(total, zipf(ways, 1.0), order)
    if weights[0] == "zipf":
        return Deal.weighted(total, zipf(ways, float(weights[1])), order)
    return Deal.weighted(total, [float(weight) for weight in weights], order)


def zipf(count: int, exponent: float) -> list[float]:
    """Return ``1 / k**exponent`` for k from 1 on."""
    return [float(rank) ** -exponent for rank in range(1, count + 1)]


def weights_problem(weights: object, ways: int) -> str | None:
    """Tell what is wrong with :data:`Weights` of so many ways, None when nothing is."""
    if weights in ("uniform", "zipf"):
        return None
    if isinstance(weights, (list, tuple)):
        if weights[:1] == ("zipf",):
            return None if len(weights) == 2 and is_number(weights[1]) else 'must be ("zipf", exponent of at least 0)'
        if len(weights) == ways and all(map(is_number, weights)) and sum(weights) > 0:
            return None
    return f'must be "uniform", "zipf", ("zipf", exponent), or {ways} weights of at least 0, one for each prefix'


def values_of(mix: Mix[T]) -> tuple[tuple[T, ...], tuple[float, ...]]:
    """Return the values of a mix and the share of each, relative to one another."""
    if isinstance(mix, Mapping):
        return tuple(mix), tuple(float(share) for share in mix.values())
    if isinstance(mix, Sequence) and not isinstance(mix, str):
        return tuple(mix), (1.0,) * len(mix)
    return (mix,), (1.0,)


def shares_problem(mix: object) -> str | None:
    """Tell what is wrong with the shares of a :data:`Mix`, whatever its values; None when nothing is."""
    if isinstance(mix, (Mapping, Sequence)) and not isinstance(mix, str) and not mix:
        return "must hold at least one value"
    if isinstance(mix, Mapping) and not (all(map(is_number, mix.values())) and sum(mix.values()) > 0):
        return "must give every value a share of at least 0, and one of them more"
    return None
