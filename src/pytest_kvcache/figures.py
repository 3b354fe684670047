"""How are figures written for people? Units beside every number, as many digits as say something. Pure."""

from __future__ import annotations

from decimal import Decimal


def duration(seconds: float) -> str:
    """Return seconds in the unit that suits them."""
    if 0 < seconds < 0.0001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 10:
        return f"{seconds * 1000:.{1 if seconds < 0.1 else 0}f} ms"
    return f"{seconds:.1f} s"


def percent(share: float) -> str:
    """Return a share of 0..1; what is there and rounds to nothing is said to be less than 1 %."""
    return "< 1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def tok_s(rate: float) -> str:
    """Return tokens per second."""
    return f"{rate:,.{1 if rate < 10 else 0}f} tok/s"


def money(amount: Decimal, currency: str) -> str:
    """Return an amount of money: cents, and as many more digits as a small one needs to say two."""
    size = abs(amount)
    digits = 2 if size >= 1 or not size else max(4, 1 - size.adjusted())
    sign = "-" if amount < 0 else ""
    shown = f"{size:,.{digits}f}"
    return f"{sign}${shown}" if currency == "USD" else f"{currency} {sign}{shown}"
