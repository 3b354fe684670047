"""Ids of any writing as 64-bit integers."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from hashlib import blake2b

_SIGNED = 2**63
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,19}")


def as_ids(values: Sequence[object]) -> array[int]:
    """Return ids: integers as they are, unsigned ones of 64 bits as the signed ones of the same bits, others by digest.

    A text of decimal digits is the integer that it writes, as long numbers are often kept. Other texts and longer
    integers become 63 bits of a digest, the same in every run: nothing has to be remembered, and among a million of
    them two are mixed up with a chance below 1e-7.

    Raises:
        ValueError: one is neither; says its place, from 1, and its kind.
    """
    try:
        if bool not in map(type, values):
            return array("q", values)  # type: ignore[arg-type] # checks every one
    except (TypeError, OverflowError):
        pass
    return array("q", [_id(place, value) for place, value in enumerate(values, 1)])


def _id(place: int, value: object) -> int:
    if type(value) is int:
        number = value
    elif type(value) is str:
        if _NUMBER.fullmatch(value) is None:
            return _digest(value)
        number = int(value)
    else:
        raise ValueError(f"id {place:,} is neither a whole number nor a text")
    if -_SIGNED <= number < _SIGNED:
        return number
    return number - 2 * _SIGNED if 0 < number < 2 * _SIGNED else _digest(str(number))


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1
