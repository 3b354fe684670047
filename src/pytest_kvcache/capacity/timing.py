"""How long is it between one use of a block and the next? Distributions from a log of runs of blocks.

Blocks of one request that were last used by one other request are logged together, so a log grows with requests and
not with blocks; figures are exact all the same.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import NamedTuple

WINDOW_SECONDS = 60.0
WINDOW_REQUESTS = 1_000


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution in figures, None where nothing was seen.

    Attributes:
        count: blocks.
        mean: the arithmetic mean.
        median: the middle; between two, the mean of both.
        p95: the 95th percentile, interpolated linearly between the two nearest.
    """

    count: int
    mean: float | None
    median: float | None
    p95: float | None

    @classmethod
    def of(cls, counts: dict[float, int]) -> Spread:
        """Return the figures of values that were counted."""
        total = sum(counts.values())
        if not total:
            return cls(0, None, None, None)
        values = sorted(counts)
        mean = math.fsum(value * counts[value] for value in values) / total
        below = list(accumulate(counts[value] for value in values))  # or equal

        def percentile(q: int) -> float:
            rank = (total - 1) * q / 100
            low, high = values[bisect_right(below, math.floor(rank))], values[bisect_right(below, math.ceil(rank))]
            return low + (high - low) * (rank - math.floor(rank))

        return cls(total, mean, percentile(50), percentile(95))


class Gaps(NamedTuple):
    """How far apart two moments of a block were.

    Attributes:
        requests: in requests: 1 is the next one.
        seconds: None when a request has no time, or times run backwards.
    """

    requests: Spread
    seconds: Spread | None


class Clock:
    """When each request was, as far as the trace tells."""

    __slots__ = ("_last", "times")

    def __init__(self) -> None:
        self.times: array[float] | None = array("d")
        self._last = -math.inf

    def tick(self, time: float | None) -> None:
        """Take the time of the next request."""
        if self.times is None:
            return
        if time is None or not time >= self._last:
            self.times = None
            return
        self.times.append(time)
        self._last = time


class GapLog:
    """Gaps that end with a request, for so many blocks at once."""

    __slots__ = ("_blocks", "_now", "_then")

    def __init__(self) -> None:
        self._then, self._now, self._blocks = array("i"), array("i"), array("i")

    def add(self, then: int, now: int, blocks: int) -> None:
        """Log blocks for which something that began with request ``then`` ended with request ``now``."""
        self._then.append(then)
        self._now.append(now)
        self._blocks.append(blocks)

    def add_each(self, thens: Iterable[int], now: int) -> None:
        """Log one block for each beginning."""
        last, blocks = -1, 0
        for then in thens:
            if then != last:
                if blocks:
                    self.add(last, now, blocks)
                last, blocks = then, 0
            blocks += 1
        if blocks:
            self.add(last, now, blocks)

    def gaps(self, times: Sequence[float] | None) -> Gaps:
        """Return the distribution, with the times of all requests."""
        requests: dict[float, int] = defaultdict(int)
        seconds: dict[float, int] = defaultdict(int)
        for then, now, blocks in zip(self._then, self._now, self._blocks, strict=True):
            requests[now - then] += blocks
            if times is not None:
                seconds[times[now] - times[then]] += blocks
        return Gaps(Spread.of(requests), None if times is None else Spread.of(seconds))


class Window(NamedTuple):
    """What was touched in a stretch of a trace.

    Attributes:
        start: seconds since the first request, or number of the first request.
        blocks: distinct ones.
        tokens: in them.
    """

    start: float
    blocks: int
    tokens: int


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """How much a trace has in use at a time (Denning, The working set model for program behavior, 1968).

    Attributes:
        unit: ``seconds`` where each request has a time and these never run backwards, else ``requests``.
        width: of a window.
        windows: those in which blocks were touched, side by side from the first request on.
    """

    unit: str
    width: float
    windows: tuple[Window, ...]

    @property
    def peak_blocks(self) -> int:
        """The most distinct blocks of a window."""
        return max((window.blocks for window in self.windows), default=0)

    @property
    def peak_tokens(self) -> int:
        """The most distinct tokens of a window."""
        return max((window.tokens for window in self.windows), default=0)


class TouchLog:
    """Which blocks each request touched, by the request that had touched them last (-1: none)."""

    __slots__ = ("_blocks", "_now", "_then", "_tokens")

    def __init__(self) -> None:
        self._then, self._now, self._blocks, self._tokens = array("i"), array("i"), array("i"), array("q")

    def add(self, then: int, now: int, blocks: int, tokens: int) -> None:
        """Log blocks of request ``now``, and their tokens."""
        self._then.append(then)
        self._now.append(now)
        self._blocks.append(blocks)
        self._tokens.append(tokens)

    def working_set(self, times: Sequence[float] | None, requests: int) -> WorkingSet:
        """Return what was touched in each window."""
        if times is None:
            unit, width = "requests", float(WINDOW_REQUESTS)
            window_of = [request // WINDOW_REQUESTS for request in range(requests)]
        else:
            unit, width = "seconds", WINDOW_SECONDS
            window_of = [int((time - times[0]) // width) for time in times]
        windows = []
        for number, touches in groupby(self._touches(), lambda touch: window_of[touch[1]]):
            new = [touch[2:] for touch in touches if touch[0] < 0 or window_of[touch[0]] < number]
            windows.append(Window(number * width, sum(blocks for blocks, _ in new), sum(tokens for _, tokens in new)))
        return WorkingSet(unit, width, tuple(windows))

    def _touches(self) -> Iterator[tuple[int, int, int, int]]:
        return zip(self._then, self._now, self._blocks, self._tokens, strict=True)
