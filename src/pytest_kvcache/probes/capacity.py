"""How many tokens stay in the cache until the oldest are lost?

One round: a fresh prompt, then so many tokens of others, then the first one again, read once. Its credit tells how much
of it survived. Where engines forget a prompt from its end, as vLLM does, a part of it that is left puts the capacity
between two neighbouring steps at once; where it is lost as a whole, the rounds halve the interval. Every round is of
fresh content, because reading a lost prompt brings it back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from ..endpoint import Endpoint
from ..errors import MeasurementError, WorkloadError
from ..model import Grain
from .granularity import granularity
from .prober import Prober, Terms, opened, plural

AT_MOST = 262_144
MOST = 4000  # requests; a round fills the cache once, in prompts of ``_LONG`` tokens
_ROUNDS = 40
_LONG = 4096

Survived = Callable[[int], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much a cache holds, all tiers of it together.

    Attributes:
        survived: so many tokens, the oldest included, were all still there.
        lost: with so many, some were lost; None when that was not reached.
        requests / tokens: that were sent to find out.
        told: tokens that the server says it holds; None when it does not.
    """

    survived: int
    lost: int | None
    requests: int
    tokens: int
    told: int | None = None

    def __str__(self) -> str:
        asked = f"({plural(self.requests, 'request')}, {self.tokens:,} tokens)"
        told = "" if self.told is None else f"; the server tells {self.told:,}"
        if self.lost is None:
            return f"capacity: at least {self.survived:,} tokens{told} {asked}"
        return f"capacity: {self.survived:,} tokens survive, {self.lost:,} do not{told} {asked}"


async def capacity(endpoint: Endpoint, terms: Terms, *, at_most: int = AT_MOST) -> Capacity:
    """Find how many tokens an endpoint's cache holds.

    It sends several times as many tokens as it finds, and whatever was cached before is lost.

    Args:
        endpoint: one engine; several behind one endpoint each hold something else.
        terms: how to ask; always by completions, because all chats share the head of their template. Without a known
            step :func:`granularity` is asked first.
        at_most: do not look further than so many tokens.

    Raises:
        MeasurementError: nothing is cached, or several engines share the requests.
        KVCacheError: the endpoint cannot be measured.
    """
    terms = replace(terms, api="completions")
    async with opened(endpoint, terms, "capacity", MOST) as prober:
        if prober.engines > 1:
            raise MeasurementError(
                f"capacity: {prober.engines} engines stand behind this endpoint, each with a cache of its own; probe"
                " one by its own URL"
            )
        grain = prober.grain or await _asked(endpoint, terms, prober)
        rounds = _Rounds(prober, grain, at_most)
        told = prober.facts.capacity
        survived, lost = await search(rounds.survived, rounds.length, grain, at_most, told)
        return Capacity(survived, lost, prober.requests, rounds.tokens, told)


async def search(
    survived: Survived, length: int, grain: Grain, at_most: int, told: int | None = None
) -> tuple[int, int | None]:
    """Return the most tokens that were seen to fit, and the fewest that were seen not to.

    Args:
        survived: how much of a prompt of ``length`` tokens is left after so many tokens of others.
        length: whole steps.
        grain: of the cache.
        at_most: tokens to look at.
        told: what the server says, where to look first; None: nothing.

    Raises:
        MeasurementError: nothing is left of a prompt when nothing else was sent.
    """
    low, high, behind = 0, None, 0
    for _ in range(_ROUNDS):
        left = await survived(behind)
        if not left and not behind:
            raise MeasurementError(f"capacity: nothing of a prompt of {length:,} tokens was cached when it came again")
        if left >= length:
            low = max(low, behind + length)
        elif left:
            return behind + left, behind + left + grain.block
        else:
            high = behind + length
        if low >= at_most or (high is not None and high - low <= grain.block):
            break
        behind = _next(low, high, length, grain.block, at_most)
        if told is not None and length < told <= at_most:
            behind, told = (told - length // 2) // grain.block * grain.block, None
    return low, high


def _next(low: int, high: int | None, length: int, block: int, at_most: int) -> int:
    """Return how much to send behind the next prompt, so that its answer narrows the interval."""
    if high is None:
        return min(2 * low, -(-max(at_most - length, 0) // block) * block)
    # a part that is left is told only of what lies behind the others; all that is left, or nothing, halves the interval
    ends = (low + high) // 2 + (length // 2 if high - low > length else 0)
    return max((ends - length) // block * block, 0)


@dataclass(slots=True)
class _Rounds:
    """Rounds of fresh content.

    Attributes:
        length: tokens of the prompt that is read again, whole steps.
        tokens: sent so far.
    """

    prober: Prober
    grain: Grain
    length: int
    tokens: int

    def __init__(self, prober: Prober, grain: Grain, at_most: int) -> None:
        around = len(prober.frame) + 1
        room = min(prober.longest - around if prober.longest is not None else _LONG, _LONG, max(at_most, 1))
        self.prober, self.grain, self.tokens = prober, grain, 0
        self.length = room // grain.block * grain.block
        if self.length < max(grain.block, grain.minimum) or self.length <= len(prober.frame):
            raise WorkloadError(
                f"capacity: prompts of {room:,} tokens are too short for a cache that gives credit {grain}"
            )

    async def survived(self, behind: int) -> int:
        """Return how much of a prompt is left after so many tokens of others."""
        first = await self._fill(self.length + len(self.prober.frame.trail))  # all that is read again is ``length``
        sent = 0
        while sent < behind:
            sent += len(await self._fill(min(self.length, behind - sent))) + len(self.prober.frame)
        self.tokens += self.length + len(self.prober.frame.trail) + 1
        return min(self.length, await self.prober.read_own(self.prober.longer(first)))

    async def _fill(self, tokens: int) -> list[int]:
        numbers = self.prober.fresh(tokens)
        await self.prober.write(numbers)
        self.tokens += tokens
        return numbers


async def _asked(endpoint: Endpoint, terms: Terms, prober: Prober) -> Grain:
    found = await granularity(endpoint, terms)
    prober.requests += found.requests
    grain = found.grain()
    if grain is None:
        raise MeasurementError(f"capacity: in which steps the cache gives credit is not known; {found}")
    return grain
