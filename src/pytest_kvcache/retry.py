"""Is a failed request sent again, and when? Off by default: a retry warms the cache for itself.

What is tried again is what says "not now" before there is an answer:

- no connection, as long as no answer had begun;
- 429 (RFC 6585: too many requests), 503 (RFC 9110: unavailable for the moment) and 529 (Anthropic: overloaded);
- 502 and 504, the words of a gateway whose server is gone or late. The server may have computed the prompt: that is
  why a retry is marked.

All else stands: another 4xx says the same again, a 500 is a fault of the server that a test should see, and an answer
that came late, broke off or held an error is what was measured.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from .load import Send
from .model import Exchange, Failure, Request

NOT_NOW = frozenset({429, 502, 503, 504, 529})

_FIRST = 0.5  # seconds before the first retry where the server asks for none, doubled for each further one
_LONGEST = 30.0
_PATIENCE = 120.0  # a server that asks for more is not waited for


class Retrying:
    """Sends requests, and again those that failed for the moment.

    The exchange that is returned is that of the last attempt, with the failed ones before it in ``earlier``. Its stamps
    are its own: in a closed loop its latencies leave the waits out; in an open loop they count from the scheduled time,
    so the waits are part of them.

    Args:
        send: one attempt.
        retries: attempts at most after the first.
        seed: of the jitter, so that waits are the same in every run.
        sleep: waits so many seconds.
    """

    def __init__(
        self, send: Send, retries: int, *, seed: str = "", sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._send = send
        self._retries = retries
        self._random = random.Random(seed)
        self._sleep = sleep

    async def __call__(self, request: Request) -> Exchange:
        """Send a request until it has not failed for the moment, or no retry is left."""
        earlier: list[Exchange] = []
        while True:
            exchange = await self._send(request)
            failure = exchange.failure
            if failure is None or not for_the_moment(exchange) or len(earlier) >= self._retries:
                break
            wait = self._backoff(len(earlier)) if failure.retry_after is None else failure.retry_after
            if wait > _PATIENCE:
                exchange = replace(exchange, failure=_too_long(failure))
                break
            earlier.append(exchange)
            await self._sleep(wait)
        return replace(exchange, earlier=tuple(earlier))

    def _backoff(self, failed: int) -> float:
        """Return half to all of 0.5 s * 2**failed, at most 30 s: not all that was refused comes back at one moment."""
        longest = min(_LONGEST, _FIRST * 2.0 ** min(failed, 16))
        return longest * self._random.uniform(0.5, 1.0)


def for_the_moment(exchange: Exchange) -> bool:
    """Return whether a request failed in a way that may be over soon, before there was an answer."""
    if exchange.failure is None:
        return False
    if exchange.failure.kind == "connect":
        return exchange.status is None
    return exchange.failure.kind == "http" and exchange.status in NOT_NOW


def _too_long(failure: Failure) -> Failure:
    return replace(failure, message=f"{failure.message} (not tried again: a retry waits {_PATIENCE:g} s at most)")
