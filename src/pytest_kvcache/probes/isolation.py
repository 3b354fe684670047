"""Does what is said to separate caches really separate them?

A prompt is cached under one value and asked for again under the same one, which must hit, or nothing is shown; then
under another and under none, which must not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from ..endpoint import Endpoint, is_header
from ..errors import ConfigurationError, EndpointError, MeasurementError, ProbeFailed
from .prober import Prober, Terms, opened, plural, refuse_own
from .sizes import prompt_length

LEAK = "KV205"
MOST = 12
_HEADER = "header:"
_MODEL = "model"
_ANOTHER, _TO_NONE, _FROM_NONE = "another", "to none", "from none"
_LEAKED = {
    _ANOTHER: "{} cached under another {} were reused",
    _TO_NONE: "{} cached under a {} were reused without one",
    _FROM_NONE: "{} cached without a {} were reused under one",
}


@dataclass(frozen=True, slots=True)
class Isolation:
    """What was reused across a border between caches.

    Attributes:
        by: what separates them, as it was asked for.
        tokens: length of the prompts.
        own: tokens reused under the value that a prompt was cached under.
        leaked: tokens reused, by the way across: to ``another`` value, ``to none``, or ``from none``.
        refused: ways that the server refused to go.
        requests: that were sent.
        engines: that stand behind the endpoint, as far as its counters tell: a router may separate what no border does.
    """

    by: str
    tokens: int
    own: int
    leaked: Mapping[str, int]
    refused: tuple[str, ...]
    requests: int
    engines: int = 1

    @property
    def leaked_tokens(self) -> int:
        """The most tokens that were reused across the border; 0: it holds."""
        return max(self.leaked.values(), default=0)

    def __str__(self) -> str:
        asked = f"({plural(self.requests, 'request')})"
        name = self.by.removeprefix(_HEADER)
        leaks = {way: leak for way, leak in self.leaked.items() if leak}
        if leaks:
            (first, leak), *others = leaks.items()
            more = "".join(f", {way} {other:,}" for way, other in others)
            told = _LEAKED[first].format(f"{leak:,} of {self.tokens:,} tokens", name)
            return f"isolation: {told}{more} [{LEAK}] {asked}"
        refused = f"; refused by the server: {', '.join(self.refused)}" if self.refused else ""
        several = f"; {self.engines} engines share the requests" if self.engines > 1 else ""
        return f"isolation: {name} separates: {self.own:,} tokens under its own, 0 across{refused}{several} {asked}"

    def check(self) -> Isolation:
        """Return itself when the border holds.

        Raises:
            ProbeFailed: something leaked.
        """
        if self.leaked_tokens:
            raise ProbeFailed(str(self), LEAK, self)
        return self


async def isolation(
    endpoint: Endpoint,
    terms: Terms,
    *,
    by: str = "cache_salt",
    a: Any = None,
    b: Any = None,
    tokens: int | None = None,
) -> Isolation:
    """Look for tokens that are reused across a border; :meth:`Isolation.check` fails when there are any.

    Args:
        endpoint: where.
        terms: how to ask.
        by: what separates: a field of the request body, such as ``cache_salt``; ``model`` (two models or adapters that
            share one cache); or ``header:X-Tenant``.
        a / b: two values of it, never shown; None: made up, except models, where ``a`` is the endpoint's own and ``b``
            must be given.
        tokens: length of the prompts; None: enough for the cache to credit them.

    Raises:
        ConfigurationError: values that cannot be compared.
        MeasurementError: nothing is reused even under the same value, so the probe proves nothing.
        KVCacheError: the endpoint cannot be measured.
    """
    async with AsyncExitStack() as stack:
        plain = await stack.enter_async_context(opened(endpoint, terms, "isolation", MOST))
        first, second = _values(by, a, b, plain)
        refuse_own([by], "isolation")
        length = prompt_length(plain, tokens)
        if by.startswith(_HEADER):
            sides = [
                await stack.enter_async_context(
                    opened(_with_header(endpoint, by, value), terms, "isolation", MOST, plain)
                )
                for value in (first, second)
            ]
            ways = _Ways(plain, sides[0], sides[1], {}, {}, by)
        else:
            ways = _Ways(plain, plain, plain, {by: first}, {by: second}, by)
        return await ways.walk(length)


def _values(by: str, a: Any, b: Any, prober: Prober) -> tuple[Any, Any]:
    if by == _MODEL:
        if b is None:
            raise ConfigurationError("isolation(by='model'): give b=, another model or adapter that the server serves")
        a = prober.facts.model if a is None else a
    first = _made_up(prober, "a") if a is None else a
    second = _made_up(prober, "b") if b is None else b
    if first == second or not by.removeprefix(_HEADER):
        raise ConfigurationError(f"isolation(by={by!r}): a and b must be two different values of a named field")
    return first, second


def _made_up(prober: Prober, side: str) -> str:
    # letters and digits: vLLM 0.32 takes a salt of at most 128 characters, without slashes
    return hashlib.sha256(f"{prober.terms.nonce}/{side}".encode()).hexdigest()[:32]


def _with_header(endpoint: Endpoint, by: str, value: Any) -> Endpoint:
    name, text = by.removeprefix(_HEADER), str(value)
    if not is_header(name, text):
        raise ConfigurationError(
            f"isolation(by={by!r}): expected a header's name, and values of one printable line (not shown here)"
        )
    return replace(endpoint, headers=(*endpoint.headers, (name, text)))


@dataclass(frozen=True, slots=True)
class _Ways:
    """The ways across a border: who asks under the first value, under the second and under none."""

    plain: Prober
    first: Prober
    second: Prober
    under_first: Mapping[str, Any]
    under_second: Mapping[str, Any]
    by: str

    async def walk(self, length: int) -> Isolation:
        numbers = self.plain.fresh(length)
        await self.first.write(numbers, self.under_first)
        own = await self.first.read_own(numbers, self.under_first)
        if not own:
            raise MeasurementError(
                f"isolation: of {length:,} tokens nothing is cached even under the same {self.by}; the probe proves"
                " nothing (is the cache on, are the prompts long enough, does one engine answer all requests?)"
            )
        leaked = {_ANOTHER: await self.second.read_own(numbers, self.under_second)}
        refused: list[str] = []
        if self.by != _MODEL:  # a request without a model asks for the endpoint's own
            await self._without(numbers, self.plain.fresh(length), leaked, refused)
        asked = sum({id(p): p.requests for p in (self.plain, self.first, self.second)}.values())
        return Isolation(self.by, length, own, leaked, tuple(refused), asked, self.plain.engines)

    async def _without(self, numbers: list[int], other: list[int], leaked: dict[str, int], refused: list[str]) -> None:
        """Ask for what is cached under a value without one, and the other way round."""
        try:
            leaked[_TO_NONE] = await self.plain.read_own(numbers)
            await self.plain.write(other)
        except EndpointError:  # a border may insist on a value
            refused.append(f"a request without {self.by}")
            return
        leaked[_FROM_NONE] = await self.first.read_own(other, self.under_first)
