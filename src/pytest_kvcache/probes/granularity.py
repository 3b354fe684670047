"""In which steps, from where on and how far does the cache give credit?

The credit of a prompt is a function of what it shares with an earlier one: ``floor(shared / step) * step`` from the
minimum on. The largest credit in reach stands on a boundary, so one token less than it shows the boundary before;
the difference is the step. The minimum is found by halving between a credit and none. Every question is a pair of
requests of fresh content, because what one pair leaves in the cache must not answer the next.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..endpoint import Endpoint
from ..errors import MeasurementError, WorkloadError
from ..model import Grain
from .prober import Prober, Terms, opened, plural

UP_TO = 4096
MOST = 60  # a pair for each halving of 4,096 and of a chat's frame, and some to spare
_TAIL = 3  # tokens behind the shared part: llama.cpp takes another slot when less than a tenth is shared

Ask = Callable[[int], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Granularity:
    """In which steps a cache gives credit.

    Attributes:
        step: tokens; None when nothing was cached, or when the next step lies beyond ``up_to``.
        minimum: fewest tokens that are credited; None when nothing was cached.
        full_hit: what an identical prompt of L tokens is credited: ``L-1`` (its last token is computed, so whole steps
            of the rest) or ``L``; another number is told as it was seen.
        up_to: longest shared prefix that was tried.
        requests: that were sent.
        told: block size that the server tells; None when it does not.
        points: every (shared tokens, cached tokens) that was seen.
        engines: that stand behind the endpoint, as far as its counters tell.
    """

    step: int | None
    minimum: int | None
    full_hit: str | None
    up_to: int
    requests: int
    told: int | None = None
    points: tuple[tuple[int, int], ...] = ()
    engines: int = 1

    def grain(self) -> Grain | None:
        """Return it as predictions use it; None when the step was not found."""
        if self.step is None or self.minimum is None:
            return None
        return Grain(self.step, self.minimum, whole=self.full_hit == "L")

    @property
    def agrees(self) -> bool | None:
        """Whether the server tells the same step; None when one of the two is not known."""
        return None if self.told is None or self.step is None else self.told == self.step

    def __str__(self) -> str:
        asked = plural(self.requests, "request")
        if self.minimum is None:
            several = f"; {self.engines} engines share the requests" if self.engines > 1 else ""
            head = max((credit for _, credit in self.points), default=0)
            nothing = f"nothing but the {head:,} tokens that every prompt begins with" if head else "nothing"
            return f"granularity: {nothing} was cached up to {self.up_to:,} tokens{several} ({asked})"
        if self.step is None:
            return f"granularity: credits {self.minimum:,} tokens, and nothing else up to {self.up_to:,} ({asked})"
        other = "" if self.agrees is not False else f", while the server tells blocks of {self.told:,}"
        return f"granularity: credits {self.grain()}, a full hit is {self.full_hit}{other} ({asked})"


async def granularity(endpoint: Endpoint, terms: Terms, *, up_to: int = UP_TO) -> Granularity:
    """Find the credit step of an endpoint's cache, its shortest credited prefix and its full-hit rule.

    Args:
        endpoint: where.
        terms: how to ask; a cache that needs time until it can be read needs ``settle``.
        up_to: longest shared prefix to try, in tokens; less where the server takes less. At least two steps of the
            cache, and two above its minimum.

    Raises:
        KVCacheError: the endpoint cannot be measured, or what was seen contradicts itself.
    """
    async with opened(endpoint, terms, "granularity", MOST) as prober:
        reach = _reach(prober, up_to)
        if reach < 2:
            raise WorkloadError(f"granularity: up_to={up_to} leaves {reach} tokens to share; expected at least 2")
        pairs = _Pairs(prober)
        step = minimum = None
        if await pairs.ask(reach) > len(prober.frame.lead) + prober.frame.open:  # more than every prompt shares
            step, minimum = await search(pairs.ask, reach, prober.frame.open)
        full_hit = None
        if minimum is not None:
            pairs.check(Grain(step or minimum, minimum))  # one credit alone: all that share as much must have it
        if step is not None and minimum is not None:
            full_hit = await _full_hit(prober, step, minimum)
        return Granularity(
            step,
            minimum,
            full_hit,
            up_to=reach,
            requests=prober.requests,
            told=prober.facts.block_size,
            points=tuple(sorted(pairs.seen.items())),
            engines=prober.engines,
        )


def _reach(prober: Prober, up_to: int) -> int:
    """Return the longest shared prefix that the server takes and its cache holds beside another prompt."""
    longest, holds = prober.longest, prober.facts.capacity
    reach = up_to if longest is None else min(up_to, longest - _TAIL - len(prober.frame))
    return reach if holds is None else min(reach, holds // 2)


async def search(ask: Ask, reach: int, slack: int = 0) -> tuple[int | None, int | None]:
    """Return step and minimum of a credit function; None for what it does not show.

    Args:
        ask: the credit of a prompt that shares so many tokens, and at most ``slack`` more.
        reach: most tokens to share.
        slack: how far a shared length is open.

    Raises:
        MeasurementError: it does not grow.
    """
    top = await ask(reach)
    if not top:
        return None, None
    # no prompt that shares fewer than ``top`` tokens is credited ``top``, and one that shares ``top`` should be
    low, high = max(0, top - 1 - slack), reach
    below = await ask(low) if low else 0
    if below >= top:
        raise MeasurementError(
            f"granularity: a prompt that shares {low:,} tokens was credited {below:,}, no less than one that shares"
            f" {reach:,}: is another client using the server, or does the cache hold less than up_to?"
        )
    while high - low > 1:
        middle = top if low < top < high else (low + high) // 2
        credit = await ask(middle)
        low, high, below = (low, middle, below) if credit >= top else (middle, high, credit)
    if not below:
        return _only_step(top, reach + slack), top
    return top - below, await _minimum(ask, low, below, top - below)


def _only_step(top: int, reach: int) -> int | None:
    """Return the step when the smallest credit is also the largest in reach, if only one step fits both."""
    fitting = [size for size in range(max(1, reach - top + 1), top + 1) if top % size == 0]
    return fitting[0] if len(fitting) == 1 else None


async def _minimum(ask: Ask, high: int, least: int, step: int) -> int:
    """Return the smallest credit, given that ``high`` shared tokens are credited ``least``."""
    if high <= step or await ask(step):
        return step
    low = step
    while high - low > step:
        middle = max(low + step, (low + high) // 2 // step * step)
        credit = await ask(middle)
        low, high, least = (low, middle, credit) if credit else (middle, high, least)
    return least


@dataclass(slots=True)
class _Pairs:
    """Pairs of prompts that share a prefix, each asked once."""

    prober: Prober
    seen: dict[int, int]

    def __init__(self, prober: Prober) -> None:
        self.prober = prober
        self.seen = {}

    async def ask(self, shared: int) -> int:
        """Return the cached tokens of a prompt that shares so many with one sent just before."""
        lead = len(self.prober.frame.lead)
        shared = max(shared, lead)  # what stands in front of every prompt is always shared
        if shared not in self.seen:
            first = self.prober.fresh(shared - lead + len(self.prober.frame) + _TAIL)
            await self.prober.write(first)
            self.seen[shared] = await self.prober.read(self.prober.branch(first, shared, _TAIL))
        return self.seen[shared]

    def check(self, grain: Grain) -> None:
        """Hold every answer against what they are said to follow.

        Raises:
            MeasurementError: one contradicts it.
        """
        room, beside = self.prober.frame.open, len(self.prober.frame.trail) + _TAIL
        for shared, credit in self.seen.items():
            length = shared + beside
            if not grain.credit(shared, length) <= credit <= grain.credit(shared + room, length):
                raise MeasurementError(
                    f"granularity: credits look like {grain}, and {shared:,} shared tokens were credited {credit:,}:"
                    " do several caches share the requests, is another client using the server, does the cache need"
                    " time until it can be read (settle=), or hold less than up_to?"
                )


async def _full_hit(prober: Prober, step: int, minimum: int) -> str:
    """Return what is credited of an identical prompt of whole steps."""
    least = max(minimum + step, len(prober.frame) + 2)
    length = -(-least // step) * step
    if prober.longest is not None and length > prober.longest:
        return "not known"
    numbers = prober.fresh(length)
    await prober.write(numbers)
    credit = await prober.read(numbers)
    if credit == length:
        return "L"
    return "L-1" if credit == Grain(step, minimum).credit(length, length) else f"{credit:,} of {length:,}"
