"""How long does a cached prompt stay?

Prompts are written together and each is read once, at its own time, because a reading would keep it alive. Where one
was not found, time need not be the reason: requests may reach another cache each time, or the prompts behind it have
pushed it out. So it is done once more with as many prompts, at an age at which one was there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..endpoint import Endpoint
from ..errors import ConfigurationError, MeasurementError
from .prober import Prober, Terms, opened, plural
from .sizes import prompt_length

_MOMENTS = 32
MOST = 3 * _MOMENTS + 2


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long cached prompts stay. Seconds from the end of a prompt's own request.

    Attributes:
        there: the longest after which one was still there.
        gone: the shortest after which one was not there any more; None: all were there.
        absent: the longest after which one was not there yet: the cache needs time until it can be read. None: none.
        requests: that were sent.
    """

    there: float
    gone: float | None
    absent: float | None
    requests: int

    def __str__(self) -> str:
        asked = f"({plural(self.requests, 'request')})"
        late = "" if self.absent is None else f", not readable yet after {_seconds(self.absent)} s"
        if self.gone is None:
            return f"lifetime: still there after {_seconds(self.there)} s{late} {asked}"
        return f"lifetime: gone between {_seconds(self.there)} and {_seconds(self.gone)} s{late} {asked}"


def _seconds(value: float) -> str:
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


async def lifetime(
    endpoint: Endpoint, terms: Terms, *, at_most: float = 8.0, first: float = 1.0, tokens: int | None = None
) -> Lifetime:
    """Find how long a prompt that nobody reads stays in the cache; takes about ``at_most`` seconds.

    Args:
        endpoint: where.
        terms: how to ask.
        at_most: seconds to look.
        first: seconds until the first reading; each further one is twice as late.
        tokens: length of the prompts; None: enough for the cache to credit them.

    Raises:
        MeasurementError: nothing was ever read from the cache, or what was found does not depend on time alone.
        KVCacheError: the endpoint cannot be measured.
    """
    moments = _moments(first, at_most)
    async with opened(endpoint, replace(terms, settle=0.0), "lifetime", MOST) as prober:
        length = prompt_length(prober, tokens)
        return await _watch(prober, moments, length)


def _moments(first: float, at_most: float) -> list[float]:
    if not 0 < first <= at_most < float("inf"):
        raise ConfigurationError(
            f"lifetime: first={first}, at_most={at_most}; expected seconds above 0, the first no later than the last"
        )
    moments = [first]
    while 2 * moments[-1] < at_most and len(moments) < _MOMENTS - 1:
        moments.append(2 * moments[-1])
    return [*moments, at_most] if at_most > moments[-1] else moments


async def _watch(prober: Prober, moments: Sequence[float], length: int) -> Lifetime:
    prompts = [prober.fresh(length) for _ in moments]
    written: list[tuple[float, float]] = []
    for prompt in reversed(prompts):  # what is read first is written last, so that it has not aged before
        exchange = await prober.write(prompt)
        written.insert(0, (exchange.sent or exchange.queued, exchange.end))
    early: float | None = None  # the first moment at which a prompt was there
    there = gone = absent = None
    behind = 0  # prompts that were written after the one that is gone
    for number, (prompt, moment, (begun, ended)) in enumerate(zip(prompts, moments, written, strict=True)):
        asked, found = await _read_at(prober, prompt, ended + moment)
        if found:
            early, there = early or moment, asked - ended
        elif there is None:
            absent = asked - ended
        else:
            gone, behind = time.monotonic() - begun, number
            break
    if early is None or there is None:
        raise MeasurementError(
            f"lifetime: of {len(prompts)} prompts of {length:,} tokens, read {moments[0]:g} to {moments[-1]:g} s after"
            " they were sent, none was found in the cache: look earlier (first=) or later (at_most=), or with longer"
            " prompts (tokens=); or do several caches share the requests?"
        )
    if gone is not None or absent is not None:
        await _check(prober, length, behind, early)
    return Lifetime(there, gone, absent, prober.requests)


async def _read_at(prober: Prober, prompt: Sequence[int], moment: float) -> tuple[float, int]:
    """Return when a prompt was asked for, not before ``moment``, and how much of it was found."""
    await asyncio.sleep(max(0.0, moment - time.monotonic()))
    return time.monotonic(), await prober.read_own(prompt)


async def _check(prober: Prober, length: int, behind: int, age: float) -> None:
    """Make sure that a prompt with so many others behind it is there at an age at which another one was.

    Raises:
        MeasurementError: it is not, or the last one is not.
    """
    prompts = [prober.fresh(length) for _ in range(behind + 1)]
    for prompt in prompts:
        written = await prober.write(prompt)
    for prompt in [prompts[-1], prompts[0]][: behind + 1]:
        _, found = await _read_at(prober, prompt, written.end + age)
        if not found:
            raise MeasurementError(
                f"lifetime: of two prompts that were {age:g} s old, one was found in the cache and one was not, so it"
                " is not time that decides: do several caches share the requests, does another client use the server,"
                f" or does the cache hold less than {length * (behind + 1):,} tokens?"
            )
