"""Several engines behind one port, each with a cache of its own, and the router that spreads requests over them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal, get_args

from .blocks import block_keys
from .counts import Counts
from .engine import Engine, EngineConfig
from .policies import PrefixCache

Routing = Literal["round-robin", "prefix"]
ROUTINGS: tuple[Routing, ...] = get_args(Routing)


class Fleet:
    """Engines of one kind.

    A router of kind ``round-robin`` does not look at caches, as vLLM's own balancer (0.32, data parallel 2: the same
    prompt six times is two misses); one of kind ``prefix`` sends a prompt to the engine that it sent the longest part
    of it before, and a new prompt to the next engine in turn.

    Args:
        config: of each engine.
        words: token ids to generate from.
        size: number of engines.
        routing: kind of router.
        shared_external: one external store for all engines instead of one for each.

    Attributes:
        engines: by number, as in the label ``engine`` of the metrics page.
    """

    def __init__(
        self,
        config: EngineConfig,
        words: Sequence[int],
        size: int = 1,
        routing: Routing = "round-robin",
        *,
        shared_external: bool = False,
    ) -> None:
        shared = PrefixCache(config.external_blocks) if shared_external and config.external_blocks else None
        self.config = config
        self.engines = [Engine(config, words, shared) for _ in range(size)]
        self._routing = routing
        self._begin_routing()

    @property
    def counts(self) -> list[Counts]:
        """What each engine has counted."""
        return [engine.counts for engine in self.engines]

    @property
    def started(self) -> float:
        """Seconds since the epoch."""
        return self.engines[0].started

    def route(self, ids: Sequence[int], salt: str | None = None) -> Engine:
        """Return the engine for a prompt."""
        if self._routing == "round-robin" or len(self.engines) == 1:
            return self.engines[next(self._turn)]
        keys = block_keys(ids, self.config.block_size, salt)
        depths = [sent.match(keys) for sent in self._sent]
        chosen = depths.index(max(depths)) if max(depths) else next(self._turn)
        self._sent[chosen].insert(keys)
        return self.engines[chosen]

    def reset(self, *, external: bool = False) -> bool:
        """Empty all device caches, and the stores too if ``external``; refused while anything runs or waits."""
        if not all(engine.idle for engine in self.engines):
            return False
        cleared = [engine.reset() for engine in self.engines]
        if external:
            self._clear_stores()
        return all(cleared)

    def restart(self) -> None:
        """Begin anew: counters at zero, caches and stores empty, running requests unharmed."""
        for engine in self.engines:
            engine.restart()
        self._begin_routing()

    def reset_counters(self) -> None:
        """Set all counters to zero and leave everything else, the start time included."""
        for engine in self.engines:
            engine.counts = Counts()

    def _clear_stores(self) -> None:
        for engine in self.engines:
            if engine.external is not None:
                engine.external.clear()

    def _begin_routing(self) -> None:
        self._turn = itertools.cycle(range(len(self.engines)))
        self._sent = [PrefixCache(self.config.capacity) for _ in self.engines]
