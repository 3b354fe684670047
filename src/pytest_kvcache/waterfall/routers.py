"""How a router may have chosen among engines that fit a request: guesses, the simplest first."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

from .visits import Visit

Row = tuple[int, int]
"""Query and hit tokens of an engine."""

Router = Callable[[Visit, int, Sequence[int]], int]
"""Of a visit, its hit and the engines that fit, return one."""

_MOST_STARTS = 8
_MOST_DRAWS = 50
_WORK = 60_000  # visits x engines, for all draws together


def routers(rows: Sequence[Row], visits: int) -> Iterator[Iterator[Router]]:
    """Return groups of routers for engines of these rows, each router to be used for one replay.

    In turn, as routers that do not look at caches do; then where there is most room, with the prefill in turn from each
    engine; then drawn by room, with fixed seeds, as often as the time allows.
    """
    engines = max(1, len(rows))
    yield iter([Turns(engines)])
    if engines > 1:
        yield (Rooms(rows, start) for start in range(min(engines, _MOST_STARTS)))
        draws = min(_MOST_DRAWS, _WORK // (visits * engines))
        yield (Rooms(rows, draw=random.Random(seed)) for seed in range(draws))


class Turns:
    """The next engine in turn, or the next one after it that fits."""

    def __init__(self, engines: int, start: int = 0) -> None:
        self._engines, self._next = engines, start

    def __call__(self, _visit: Visit, _hit: int, fitting: Sequence[int]) -> int:
        """Choose."""
        chosen = min(fitting, key=lambda engine: (engine - self._next) % self._engines)
        self._next = (chosen + 1) % self._engines
        return chosen


class Rooms:
    """The engine whose row has room for most requests like this one.

    Args:
        rows: what each engine has to look up and to find.
        start: before the rows begin, engines are taken in turn from this one.
        draw: draws instead, the rows' engines in proportion to their room.
    """

    def __init__(self, rows: Sequence[Row], start: int = 0, draw: random.Random | None = None) -> None:
        self._turns = Turns(len(rows), start)
        self._draw = draw
        self._hit = [hit for _, hit in rows]
        self._computed = [query - hit for query, hit in rows]

    def __call__(self, visit: Visit, hit: int, fitting: Sequence[int]) -> int:
        """Choose, and take the request off the engine's row."""
        if visit.at is None:
            return self._draw.choice(fitting) if self._draw else self._turns(visit, hit, fitting)
        length = visit.looked_up
        rooms = [self._room(engine, length, hit) for engine in fitting]
        if self._draw and max(rooms) > 0:
            (chosen,) = self._draw.choices(fitting, [max(0.0, room) for room in rooms])
        else:
            chosen = fitting[rooms.index(max(rooms))]
        self._hit[chosen] -= hit
        self._computed[chosen] -= length - hit
        return chosen

    def _room(self, engine: int, length: int, hit: int) -> float:
        by_hit = self._hit[engine] / hit if hit else math.inf
        return min(by_hit, self._computed[engine] / (length - hit) if length > hit else math.inf)
