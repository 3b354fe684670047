"""What was sent, as a cache sees it: the prompts' tokens in order, composed or as the server told them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from .model import Composed, Exchange, Lookup, Request

SpaceOf = Callable[[Request], Hashable]
SpaceSeen = Callable[[Exchange], Hashable]
_NEVER_COMPUTED = ("http", "connect")  # kinds of failures that reached no engine's cache


def together(exchange: Exchange) -> None:
    """All requests share one cache."""


class Spaces:
    """What separated the caches of conversations, noted as their turns are sent: they are not made once more.

    Args:
        space: of a request.
    """

    def __init__(self, space: SpaceOf) -> None:
        self._space = space
        self._seen: dict[tuple[int | None, int | None], Hashable] = {}
        self._alike: dict[Hashable, Hashable] = {}

    def note(self, request: Request) -> None:
        """Take a request that is sent."""
        space = self._space(request)
        self._seen[request.session, request.turn] = self._alike.setdefault(space, space)

    def __call__(self, exchange: Exchange) -> Hashable:
        """Return the space of the request that an exchange is about."""
        return self._seen.get((exchange.session, exchange.turn))


def lookups_of(requests: Iterable[Request], space: SpaceOf) -> Iterator[Lookup]:
    """Return the look-ups of requests whose tokens are known before they are sent."""
    return (_lookup(request, space) for request in requests)


def _lookup(request: Request, space: SpaceOf, untold: int = 0) -> Lookup:
    prompt = request.prompt
    return Lookup(
        prompt.ids,
        untold=untold,
        space=space(request),
        session=request.session,
        open=prompt.open,
        alone=prompt.alone,
    )


def load_lookups(
    composed: Composed, exchanges: Sequence[Exchange], space: SpaceOf, seen: SpaceSeen = together
) -> Iterable[Lookup] | None:
    """Return the look-ups of the measured requests in the order of the exchanges; None when their tokens are not known.

    Args:
        composed: what was sent.
        exchanges: in its order.
        space: what separates the caches of requests.
        seen: what separated those of requests that depend on answers.
    """
    requests = composed.load()
    if requests is None:
        return _told(exchanges, seen)
    first = list(islice(requests, 1))
    if first and not first[0].prompt.ids:
        return None
    return answered((_lookup(r, space, r.max_tokens) for r in chain(first, requests)), exchanges)


def answered(lookups: Iterable[Lookup], exchanges: Sequence[Exchange]) -> Iterator[Lookup]:
    """Return look-ups with the length of their answers: the next turn may say what was generated.

    A whole answer whose length nobody told is as long as the look-up says: it was asked for so many tokens.
    """
    for number, lookup in enumerate(lookups):
        exchange = exchanges[number] if number < len(exchanges) else None
        told = 0 if exchange is None or not exchange.ok else lookup.untold
        if exchange is not None and exchange.completion_tokens is not None:
            told = exchange.completion_tokens
        yield replace(lookup, untold=told)


def may_be_cached(exchange: Exchange | None) -> bool:
    """Return whether a request may have left its prompt in the cache: failed ones do, unless they were refused.

    Args:
        exchange: None when an earlier run sent the request.
    """
    if exchange is None or exchange.failure is None:
        return True
    return exchange.sent is not None and exchange.failure.kind not in _NEVER_COMPUTED


def by_time(exchanges: Sequence[Exchange]) -> list[int]:
    """Return the positions of exchanges in the order in which they were sent; what was never sent comes last."""
    never = float("inf")
    return sorted(
        range(len(exchanges)), key=lambda at: (e.sent if (e := exchanges[at]).sent is not None else never, at)
    )


def _told(exchanges: Sequence[Exchange], seen: SpaceSeen) -> list[Lookup] | None:
    """Return the look-ups of exchanges whose tokens the server told; of a failed one that told none, an empty one."""
    found: list[Lookup] = []
    for exchange in exchanges:
        if exchange.ok and (exchange.prompt_ids is None or exchange.lookups != 1):
            return None  # several samples look their prompt up several times, and usage tells of one
        output = exchange.output_ids
        untold = 0 if output is not None else exchange.completion_tokens or 0
        prompt = exchange.prompt_ids or ()
        found.append(Lookup(prompt, output or (), untold, space=seen(exchange), session=exchange.session))
    return found
