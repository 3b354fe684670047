"""When were tokens generated? In bins of 10 ms, so that memory grows with time and not with tokens. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Exchange

BIN = 0.01  # seconds; of a period of 30 s that is 1 part in 3,000 at each of its edges


class Production:
    """Generated tokens over time: those of requests in flight at the edge of a period belong to where they came out.

    A chunk carries as many tokens as its request generated on average in one chunk; a request whose answer came at
    once, or whose tokens nobody told, is counted as its chunks, or where it has none at its end.
    """

    __slots__ = ("_bins",)

    def __init__(self) -> None:
        self._bins: defaultdict[int, float] = defaultdict(float)

    def add(self, exchange: Exchange, arrived: Mapping[float, int]) -> None:
        """Take the tokens of one request, whole or broken off.

        Args:
            exchange: the request.
            arrived: how many of its chunks came at each moment.
        """
        told, chunks = exchange.completion_tokens, len(exchange.chunks)
        if not chunks:
            if told:
                self._bins[int(exchange.end / BIN)] += told
            return
        weight = 1.0 if told is None or exchange.failure is not None else told / chunks
        for moment, count in arrived.items():
            self._bins[int(moment / BIN)] += weight * count

    def between(self, start: float, end: float) -> float:
        """Return the tokens that came out from ``start`` to ``end``, monotonic seconds; a bin counts by the part of it
        that lies between them.
        """
        first, last = start / BIN, end / BIN
        if last <= first:
            return 0.0
        bins = self._bins
        keys: Iterable[int] = range(int(first), int(last) + 1)
        if len(bins) < last - first:
            keys = (key for key in bins if int(first) <= key <= last)
        return sum(bins[key] * (min(last, key + 1) - max(first, key)) for key in keys if key in bins)

    def __bool__(self) -> bool:
        return bool(self._bins)
