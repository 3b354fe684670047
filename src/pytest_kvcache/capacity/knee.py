"""Where do returns flatten, and is it the ceiling that they flatten at?

A hit rate that more budget does not raise looks the same at the ceiling and far below it. There the cache is turned
over again and again before anything comes back, and the reuse that is missing lies at distances far above the budget:
doubling it brings nothing, having enough brings all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..errors import TraceError
from .budget import GIB, Budget, digits, in_blocks, is_number

if TYPE_CHECKING:
    from fractions import Fraction

    from .curve import Curve

MILLION = 1_000_000


class Gain(NamedTuple):
    """What more cache brings.

    Attributes:
        hit_tokens: more of them.
        hit_rate: so much higher.
        per: what is added: ``GiB``, or ``M tokens`` where the bytes of a token are not known.
    """

    hit_tokens: float
    hit_rate: float
    per: Literal["GiB", "M tokens"]


@dataclass(frozen=True, slots=True)
class Regime:
    """How a cache of some budget fares on a trace.

    Attributes:
        name: ``plateau``: at the ceiling, as good as; ``thrashing``: below it, and a little more does not help, because
            what is missing comes back long after it had to go; ``growing``: more budget brings more.
        budget / hit_rate / ceiling: what is judged, and what it could be.
        twice / gain: a budget of twice the size (or the next that was simulated), and what it brings.
        evictions: blocks that had to go.
        distance: the budget that would give half of the reuse that is missing; None when none is.
    """

    name: Literal["plateau", "thrashing", "growing"]
    budget: Budget
    hit_rate: float
    ceiling: float
    twice: Budget
    gain: float
    evictions: int
    distance: Budget | None

    @property
    def sentence(self) -> str:
        """The regime with its figures, for people."""
        at = f"{self.name}: hit rate {self.hit_rate:.3f} of {self.ceiling:.3f} at {self.budget}"
        if self.name == "plateau" or self.distance is None:
            return f"{at}; more cache adds no more than {self.ceiling - self.hit_rate:.3f}"
        grows = f"{at}; {in_blocks(self.twice.blocks)} would add {self.gain:.3f}"
        if self.name == "growing":
            return grows
        why = "requests do not fit into it"
        if self.evictions:
            why = f"{self.evictions:,} evictions turn it over {digits(self.evictions / self.budget.blocks)} times"
        return (
            f"{grows}. No plateau: {why}, and half of the missing reuse lies at a distance of {self.distance} or more"
        )

    def __str__(self) -> str:
        return self.sentence


def find_knee(curve: Curve, within: float) -> Budget:
    """Return the smallest budget whose hit rate is at most ``within`` below the ceiling."""
    return curve.reaching(math.ceil(curve.ceiling_tokens - _tokens(curve, within)))


def gain_at(curve: Curve, blocks: int) -> Gain:
    """Return what more cache brings at a budget, measured over as much as is asked for (or the next simulated one)."""
    size, known = curve.sizes, curve.known
    unit = MILLION if size.bytes_per_token is None else GIB / size.bytes_per_token
    step = unit / size.block_size
    more = known.nearest(blocks + max(1, round(step)))
    brings = (known.hit_tokens(more) - known.hit_tokens(blocks)) * step / max(1, more - blocks)
    curve.rate(0)
    return Gain(brings, brings / curve.input_tokens, "M tokens" if size.bytes_per_token is None else "GiB")


def regime_at(curve: Curve, blocks: int, within: float) -> Regime:
    """Return how a cache of a budget fares."""
    allowed, known, most = _tokens(curve, within), curve.known, curve.ceiling_tokens
    has = known.hit_tokens(blocks)
    twice = known.nearest(max(1, 2 * blocks))
    gains = known.hit_tokens(twice) - has
    evictions = known.evictions(blocks)
    half = known.reaches(has + (most - has + 1) // 2) if has < most else None
    name: Literal["plateau", "thrashing", "growing"] = "growing"
    if most - has <= allowed:
        name = "plateau"
    elif gains <= allowed and half is not None and half > twice:
        name = "thrashing"
    return Regime(
        name=name,
        budget=curve.sizes.budget(blocks),
        hit_rate=curve.rate(has),
        ceiling=curve.rate(most),
        twice=curve.sizes.budget(twice),
        gain=curve.rate(gains),
        evictions=evictions,
        distance=None if half is None else curve.sizes.budget(half),
    )


def _tokens(curve: Curve, within: float) -> Fraction:
    """Return a difference of rates in tokens, exactly as it is written: 0.01 is a hundredth."""
    if not is_number(within, 1):
        raise TraceError(f"within={within!r}: expected a difference of hit rates, 0..1")
    curve.rate(0)
    from fractions import Fraction

    return Fraction(str(within)) * curve.input_tokens
