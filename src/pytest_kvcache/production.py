"""When were tokens generated? In bins of 20 ms, so that memory grows with time and not with tokens. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from math import floor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Exchange

PER_SECOND = 50
BIN = 1 / PER_SECOND  # seconds: at most 1 part in 1,500 of a period of 30 s is on the wrong side of its edge


class Production:
    """Generated tokens over time: those of requests in flight at the edge of a period belong to where they came out.

    A chunk carries as many tokens as its request generated on average in one chunk. An answer that came at once is
    counted at its end; where nobody told its tokens, a chunk is one.
    """

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds: dict[int, array[float]] = {}

    def add(self, exchange: Exchange, arrived: Mapping[float, int]) -> None:
        """Take the tokens of one request, whole or broken off.

        Args:
            exchange: the request.
            arrived: how many of its chunks came at each moment.
        """
        told, chunks = exchange.completion_tokens, len(exchange.chunks)
        if not chunks:
            if told:
                self._put(exchange.end, told)
            return
        weight = 1.0 if told is None or exchange.failure is not None else told / chunks
        for moment, count in arrived.items():
            self._put(moment, weight * count)

    def _put(self, moment: float, tokens: float) -> None:
        second, part = divmod(floor(moment * PER_SECOND), PER_SECOND)
        bins = self._seconds.get(second)
        if bins is None:
            bins = self._seconds[second] = array("d", bytes(8 * PER_SECOND))
        bins[part] += tokens

    def between(self, start: float, end: float) -> float:
        """Return the tokens that came out from ``start`` to ``end``, monotonic seconds; a bin counts by the part of it
        that lies between them.
        """
        if end <= start:
            return 0.0
        first, last = floor(start), floor(end)
        seconds: Iterable[int] = range(first, last + 1)
        if len(self._seconds) < last - first:
            seconds = [second for second in self._seconds if first <= second <= last]
        return sum(self._within(second, start, end) for second in seconds if second in self._seconds)

    def _within(self, second: int, start: float, end: float) -> float:
        bins = self._seconds[second]
        if start <= second and second + 1 <= end:
            return sum(bins)
        low, high = max(0.0, start - second) * PER_SECOND, min(1.0, end - second) * PER_SECOND
        return sum(bins[at] * max(0.0, min(high, at + 1) - max(low, at)) for at in range(PER_SECOND))

    def __bool__(self) -> bool:
        return bool(self._seconds)
