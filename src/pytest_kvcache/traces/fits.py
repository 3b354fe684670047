"""Which block sizes fit a row's ids and its length?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..rows import Row

_ENDLESS = 2**62


class Range(NamedTuple):
    """Block sizes from one to another; none when the first is larger."""

    least: int
    most: int

    def both(self, other: Range) -> Range:
        """Return what lies in both."""
        return Range(max(self.least, other.least), min(self.most, other.most))

    def __bool__(self) -> bool:
        return self.least <= self.most

    def __str__(self) -> str:
        if self.most >= _ENDLESS:
            return f"{self.least} and more"
        return f"{self.least}..{self.most}" if self.least < self.most else f"{self.least}"


class Fits(NamedTuple):
    """Block sizes that fit.

    Attributes:
        listed: when the last, partial block has an id.
        unlisted: when it has none.
    """

    listed: Range
    unlisted: Range

    def __bool__(self) -> bool:
        return bool(self.listed or self.unlisted)

    def __str__(self) -> str:
        """Say which, as what follows "block sizes"."""
        if not self.unlisted or self.listed == self.unlisted:
            return str(self.listed)
        if not self.listed:
            return f"{self.unlisted} without an id for the last, partial block"
        return f"{self.listed}, or {self.unlisted} without an id for the last, partial block"


_ALL = Fits(Range(1, _ENDLESS), Range(1, _ENDLESS))


def fits(row: Row) -> Fits:
    """Return the block sizes that fit a row with ids: ``n`` ids of ``B`` tokens end in the last block of its length.

    With ``weights`` no block holds more than the size.
    """
    count, length = len(row.ids), row.input_length
    if row.weights is not None:
        size = Range(max(row.weights, default=1), _ENDLESS)
        return Fits(size, size)
    most = (length - 1) // (count - 1) if count > 1 else _ENDLESS
    return Fits(Range(-(-length // count), most), Range(-(-length // (count + 1)), length // count))


def fit_all(rows: Iterable[Row]) -> Fits:
    """Return the block sizes that fit every row that has ids."""
    found = _ALL
    for row in rows:
        if row.ids:
            own = fits(row)
            found = Fits(found.listed.both(own.listed), found.unlisted.both(own.unlisted))
    return found
