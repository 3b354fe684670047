"""When was it? Dates and numbers of a trace to seconds."""

from __future__ import annotations

import math
import re
from datetime import date

_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,12}))?)?\s*(?:([Zz]|UTC)|([+-])(\d\d):?(\d\d)?)?",
    re.ASCII,
)
_NANO = 10**9
_EPOCH = date(1970, 1, 1).toordinal()
_LEAST = 10**8  # a smaller number is no time of day since 1973 in any unit


def date_seconds(text: str) -> float | None:
    """Return the seconds since 1970 of an ISO date with a time, to the nanosecond; None when it is none.

    A date without a zone counts as UTC: only differences matter in a trace. ``datetime.fromisoformat`` reads neither
    seven decimals, as Azure writes them, nor ``Z`` before Python 3.11.
    """
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute = (int(part) for part in match.group(1, 2, 3, 4, 5))
    second = int(match[6] or 0)
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None
    if hour > 23 or minute > 59 or second > 60:  # 60: a leap second
        return None
    whole = ((days * 24 + hour) * 60 + minute) * 60 + second
    if match[9]:
        east = int(match[10]) * 3600 + int(match[11] or 0) * 60
        whole -= east if match[9] == "+" else -east
    nanos = int((match[7] or "").ljust(9, "0")[:9])
    return (whole * _NANO + nanos) / _NANO  # one rounding, as float has no room for the sum of both


def epoch_seconds(value: float) -> float | None:
    """Return the seconds since 1970 of a clock's number, whose unit shows by its size; None for a smaller one.

    Seconds up to the year 5138, milliseconds, microseconds and nanoseconds since 1973 do not overlap.
    """
    if not _LEAST <= value < _LEAST * 1000**4:
        return None
    power = next(power for power in range(4) if value < _LEAST * 1000 ** (power + 1))
    seconds: float = value / 1000**power
    return seconds


def number_of(text: str) -> float | None:
    """Return the finite number that a text is, None when it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    plain = text.isascii() and "_" not in text  # Python takes digits of all scripts, and 1_000
    return number if plain and math.isfinite(number) else None
