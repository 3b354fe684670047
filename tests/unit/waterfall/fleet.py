"""A small fleet of caches, written apart from the package, that knows for every missed token why it was missed.

A cached block is the tuple of all tokens up to its end. Each engine keeps a list of blocks, the one used last at the
end, and forgets from the front.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from pytest_kvcache.model import Exchange, Finding, Lookup, Measurement, Pressure, ServerFacts, Tokens

BLOCK = 16
START = 100.0
Block = tuple[int, ...]
_FRESH = count(1_000_000)


def fresh(tokens: int) -> list[int]:
    """Tokens that nobody else has."""
    return [next(_FRESH) for _ in range(tokens)]


def blocks_of(ids: Sequence[int]) -> list[Block]:
    return [tuple(ids[:end]) for end in range(BLOCK, len(ids) + 1, BLOCK)]


def leading(blocks: Sequence[Block], there: Collection[Block], most: int) -> int:
    """How many first tokens are there, at most so many."""
    return min(most, next((n for n, block in enumerate(blocks) if block not in there), len(blocks)) * BLOCK)


@dataclass
class Engine:
    """One cache. ``ever``: all it had at some time; ``cleared``: what it lost to a reset."""

    capacity: int | None = None
    blocks: list[Block] = field(default_factory=list)
    ever: set[Block] = field(default_factory=set)
    cleared: set[Block] = field(default_factory=set)
    query: int = 0
    hit: int = 0
    evictions: int = 0

    def use(self, blocks: Sequence[Block]) -> None:
        """Use blocks, the head last."""
        self.blocks = [*(block for block in self.blocks if block not in blocks), *reversed(blocks)]
        if self.capacity is not None and len(self.blocks) > self.capacity:
            self.evictions += len(self.blocks) - self.capacity
            del self.blocks[: len(self.blocks) - self.capacity]
        self.ever.update(blocks)
        self.cleared.difference_update(blocks)

    def clear(self) -> None:
        self.cleared.update(self.blocks)
        self.blocks.clear()


@dataclass
class Fleet:
    """Serves prompts one by one and writes down what was missed and why.

    Attributes:
        engines: with their caches.
        route: number of an engine by number of a request; in turn unless told otherwise.
        seconds: from sending a request to its answer.
        gap: seconds between two requests; less than ``seconds`` overlaps them.
        joins: a request finds what is still being computed, as in vLLM.
        lost: planted tokens by cause.
    """

    engines: list[Engine] = field(default_factory=lambda: [Engine()])
    route: Callable[[int], int] | None = None
    seconds: float = 1.0
    gap: float = 2.0
    joins: bool = True
    lost: Counter[str] = field(default_factory=Counter)
    exchanges: list[Exchange] = field(default_factory=list)
    prefilled: list[Exchange] = field(default_factory=list)
    load: list[Lookup] = field(default_factory=list)
    prefill: list[Lookup] = field(default_factory=list)
    now: float = START - 50
    served: int = 0
    running: list[tuple[float, Engine, list[Block]]] = field(default_factory=list)

    def warm(self, *prompts: Sequence[int]) -> None:
        """Send prompts before the window."""
        for prompt in prompts:
            self.prefill.append(Lookup(prompt))
            self.prefilled.append(self._serve(self.prefill[-1], measured=False))

    def send(self, *given: Sequence[int] | Lookup) -> None:
        """Send prompts in the window."""
        self.now = max(self.now, START)
        for one in given:
            self.load.append(one if isinstance(one, Lookup) else Lookup(one))
            self.exchanges.append(self._serve(self.load[-1], measured=True))

    def clear(self) -> None:
        """Forget everything, as a reset does."""
        self._finish(self.now)
        for engine in self.engines:
            engine.clear()

    def measured(self, *findings: Finding, told: bool = True, **facts: Any) -> Measurement:
        """Return what a run of this has to show; ``told``: the replies report cached tokens."""
        blocks = self.engines[0].capacity
        known = {"block_size": BLOCK, "capacity": None if blocks is None else blocks * BLOCK, **facts}
        show = _shown if told else _silent
        return Measurement(
            title="planted",
            facts=ServerFacts("fleet", "m", **known),
            engines={str(n): Tokens(e.query, {"local": e.hit}) for n, e in enumerate(self.engines)},
            pressure=Pressure(),
            exchanges=tuple(map(show, self.exchanges)),
            prefill=tuple(map(show, self.prefilled)),
            findings=findings,
            started=START,
        )

    def _serve(self, lookup: Lookup, *, measured: bool) -> Exchange:
        self._finish(self.now)
        ids = lookup.ids
        engine = self.engines[self.route(self.served) if self.route else self.served % len(self.engines)]
        hit, why = self._look_up(engine, ids)
        if measured:
            self.lost.update(why)
            engine.query += len(ids)
            engine.hit += hit
        if self.joins:
            engine.use(blocks_of(ids))
        sent, end = self.now, self.now + self.seconds
        self.running.append((end, engine, blocks_of([*ids, *lookup.output[:-1]])))
        self.now += self.gap
        self.served += 1
        length = len(ids)
        return Exchange(
            phase="load" if measured else "prefill",
            queued=sent,
            sent=sent,
            first_content=end,
            end=end,
            prompt_len=length,
            prompt_tokens=length,
            cached_tokens=hit,
            session=lookup.session,
        )

    def _look_up(self, engine: Engine, ids: Sequence[int]) -> tuple[int, dict[str, int]]:
        blocks, most = blocks_of(ids), len(ids) - 1
        most -= most % BLOCK
        ever = {block for any_engine in self.engines for block in any_engine.ever}
        flying = {block for _, _, coming in self.running for block in coming}
        anybody = leading(blocks, ever | flying, most)
        answered = leading(blocks, ever, most)
        here = leading(blocks, engine.ever, most)
        unless_cleared = leading(blocks, engine.cleared.union(engine.blocks), most)
        hit = leading(blocks, engine.blocks, most)
        return hit, {
            "duplicates": anybody - answered,
            "routing": answered - here,
            "eviction": here - unless_cleared,
            "reset": unless_cleared - hit,
        }

    def _finish(self, now: float) -> None:
        for entry in [entry for entry in self.running if entry[0] <= now]:
            entry[1].use(entry[2])
            self.running.remove(entry)


def _shown(exchange: Exchange) -> Exchange:
    return exchange


def _silent(exchange: Exchange) -> Exchange:
    return replace(exchange, cached_tokens=None)
