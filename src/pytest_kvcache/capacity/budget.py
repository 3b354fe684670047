"""How large is a cache of so many blocks, tokens or GiB?"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..errors import TraceError

GIB = 2**30
_UNITS = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


class Budget(NamedTuple):
    """A size of the cache, always whole blocks.

    Attributes:
        blocks: it holds.
        tokens: in them.
        gib: GiB of KV that they take; None when the bytes of a token are not known.
    """

    blocks: int
    tokens: int
    gib: float | None

    def __str__(self) -> str:
        gib = "" if self.gib is None else f", {digits(self.gib)} GiB"
        return f"{in_blocks(self.blocks)} ({short(self.tokens)} tokens{gib})"


class Sizes(NamedTuple):
    """What a block is.

    Attributes:
        block_size: tokens of it.
        bytes_per_token: of KV, over all layers; None when not known.
    """

    block_size: int
    bytes_per_token: float | None = None

    def blocks(self, *, blocks: float | None = None, tokens: float | None = None, gib: float | None = None) -> int:
        """Return how many whole blocks a budget is; it is given in exactly one unit.

        Raises:
            TraceError: none or several are given, or no finite number from 0; GiB, and bytes of a token are not known.
        """
        given = {"blocks": blocks, "tokens": tokens, "gib": gib}
        told = {unit: value for unit, value in given.items() if value is not None}
        if len(told) != 1:
            seen = ", ".join(f"{unit}={value!r}" for unit, value in told.items()) or "none of them"
            raise TraceError(f"a budget is given as one of blocks=, tokens= or gib=; here: {seen}")
        [(unit, value)] = told.items()
        _check(unit, value)
        if unit == "blocks":
            return int(value)
        return math.floor(value if unit == "tokens" else value * GIB / self._bytes(value)) // self.block_size

    def budget(self, blocks: int) -> Budget:
        """Return a size in every unit; its GiB, given back, are the same number of blocks."""
        tokens = blocks * self.block_size
        if self.bytes_per_token is None:
            return Budget(blocks, tokens, None)
        gib = tokens * self.bytes_per_token / GIB
        while self.blocks(gib=gib) < blocks:  # what division has rounded down
            gib = math.nextafter(gib, math.inf)
        return Budget(blocks, tokens, gib)

    def _bytes(self, gib: float) -> float:
        if self.bytes_per_token is None:
            raise TraceError(
                f"gib={gib!r}: how many bytes the KV of a token takes is not known; "
                "give model= or kv_bytes_per_token= with the trace, or the budget as tokens= or blocks="
            )
        return self.bytes_per_token


def is_number(value: object, limit: float) -> bool:
    """Tell whether a value is a finite number from 0 to ``limit``; True and False are none."""
    number: Any = value  # the abstract type of numbers does not say that they can be compared
    return _is_real(value) and not isinstance(value, bool) and 0 <= number <= limit and number < math.inf


def _is_real(value: object) -> bool:
    if isinstance(value, (int, float)):
        return True
    from numbers import Real  # what others number with, say NumPy

    return isinstance(value, Real)


def _check(unit: str, value: float) -> None:
    if not is_number(value, math.inf):
        raise TraceError(f"{unit}={value!r}: expected a finite number, 0 or more")
    if unit == "blocks" and value != int(value):
        raise TraceError(f"blocks={value!r}: expected whole blocks")


def in_blocks(blocks: int) -> str:
    """Return a number of blocks: ``1 block``, ``53,083 blocks``."""
    return f"{blocks:,} block{'s' * (blocks != 1)}"


def digits(number: float) -> str:
    """Return a number of ordinary size with three digits: ``0.0625``, ``62.5``, ``1,324``."""
    return f"{number:,.3g}" if number < 999.5 else f"{number:,.0f}"


def short(number: float) -> str:
    """Return a number of any size with three digits and its unit: ``53.1 k``, ``10.9 M``."""
    for size, unit in _UNITS:
        if number >= size * 0.9995:
            return f"{digits(number / size)} {unit}"
    return f"{number:,.0f}"
