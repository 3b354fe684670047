"""A trace through several engines, each with a cache of its own: what hits, and what would have in one cache of all?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ..errors import TraceError
from ..rows import Note, Row
from .paths import Path, Paths
from .policies import Cache, Evicted
from .routing import Router, router_of
from .rules import REFERENCE, Rules, rules_of
from .simulate import Simulation, cache_of
from .simulated import Simulated

_UNEVEN = 1.5  # times an equal share of the prompt tokens


def fleet(
    rows: Iterable[Row],
    block_size: int,
    policy: str = "lru",
    *,
    engines: int,
    routing: str = "round_robin",
    slots: int | None,
    rules: Rules | str = REFERENCE,
    warm_rows: int = 0,
) -> Simulated:
    """Send a trace through several engines.

    Args:
        rows: requests, in the order in which they come.
        block_size: tokens of a block.
        policy: of each engine: ``lru``, ``fifo``, ``lfu`` or ``s3fifo``.
        engines: how many, at least 1.
        routing: ``round_robin``; ``least_loaded``: of the fewest prompt tokens so far; ``session``: by the hash of the
            session; ``prefix``: of the longest cached prefix, when that is half of the prompt or more, else as
            ``least_loaded``.
        slots: budget of each engine in blocks; None without limit.
        rules: what is cached and what can hit.
        warm_rows: so many first rows only fill the caches.

    Returns:
        What all engines did together, with the room of all of them as its budget: reuse that was realised where it was
        sent. Its ``engines`` are what each one did, and ``pooled`` what one cache of all their room would have: reuse
        that was possible.

    Raises:
        TraceError: fewer engines than one, an unknown routing, ``optimum``, or as
            :func:`~pytest_kvcache.capacity.simulate.simulate`.
    """
    if isinstance(engines, bool) or not isinstance(engines, int) or engines < 1:
        raise TraceError(f"engines={engines!r}: expected a whole number of engines, at least 1")
    if policy == "optimum":
        raise TraceError(
            "policy='optimum': of several engines it is not known what no routing exceeds; simulate one cache"
        )
    rules = rules_of(rules)
    paths = Paths(block_size, rules)
    caches = Caches([cache_of(policy, slots, paths) for _ in range(engines)], routing)
    room = None if slots is None else slots * engines
    together, pooled = Simulation(caches, rules), Simulation(cache_of(policy, room, paths), rules)
    alone = [Simulation(cache_of(policy, slots, paths), rules) for _ in range(engines)]  # who numbers its own requests
    for number, row in enumerate(rows):
        path, counted = paths.of(row), number >= warm_rows
        alone[caches.send(path)].serve(path, counted=counted)
        together.serve(path, counted=counted)
        pooled.serve(path, counted=counted)
    each = tuple(engine.result(policy, slots, block_size) for engine in alone)
    return replace(
        together.result(policy, room, block_size, (*caches.router.notes(), *_uneven(each))),
        engines=each,
        pooled=pooled.result(policy, room, block_size),
    )


def _uneven(engines: Sequence[Simulated]) -> Iterator[Note]:
    """Tell of an engine with far more than its share: where much begins alike, routing by it makes one of several."""
    tokens = [engine.input_tokens for engine in engines]
    total, most = sum(tokens), max(tokens)
    times = most * len(engines) / total if total else 0.0
    if times >= _UNEVEN:
        at = tokens.index(most)
        yield Note(
            "uneven_load",
            engines[at].requests,
            None,
            f"engine {at} was sent {most / total:.0%} of the prompt tokens, {times:.1f} times an equal share, so the"
            " room of the others was used the less",
        )


class Caches(Cache):
    """Several caches, of which a router says which one the next request is about.

    Args:
        caches: of the engines, all empty.
        routing: name of the router.

    Attributes:
        router: that chooses.
    """

    __slots__ = ("_chosen", "router")

    def __init__(self, caches: Sequence[Cache], routing: str) -> None:
        super().__init__(sum(cache.room for cache in caches), caches[0].costs)
        self.router: Router = router_of(routing, caches)
        self._chosen = caches[0]

    def send(self, path: Path) -> int:
        """Choose the cache that looks up and takes in the next request; return its number."""
        engine = self.router.route(path)
        self._chosen = self.router.caches[engine]
        return engine

    def leading(self, path: Sequence[int]) -> int:
        """Ask the chosen cache."""
        return self._chosen.leading(path)

    def anywhere(self, path: Sequence[int]) -> list[int]:
        """Ask the chosen cache."""
        return self._chosen.anywhere(path)

    def admit(self, path: Sequence[int], now: int) -> list[Evicted]:
        """Let the chosen cache take a request in."""
        return self._chosen.admit(path, now)
