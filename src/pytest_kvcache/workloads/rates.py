"""Which hit rates does a sweep go through? Pure."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from ..checks import is_ratio
from ..errors import ConfigurationError

_MOST = 1001


def rates(low: float = 0.0, high: float = 1.0, step: float = 0.05) -> list[float]:
    """Return evenly spaced hit rates from ``low`` to ``high``, both included, for ``pytest.mark.parametrize``.

    Each is the float nearest to the decimal number that is meant: 0.3 and never 0.30000000000000004, so that the ids of
    tests can be read and stay the same.

    Args:
        low / high: 0..1. No prompt hits to its last token, so a workload takes 1.0 only where its ``tol`` allows.
        step: between two; it has to lead from one end to the other.

    Raises:
        ConfigurationError: no rates, or a step that misses the end.
    """
    for name, value in (("low", low), ("high", high), ("step", step)):
        if not is_ratio(value):
            raise ConfigurationError(f"rates({name}={value!r}): expected a ratio between 0 and 1")
    if low > high:
        raise ConfigurationError(f"rates(low={low!r}, high={high!r}): low is above high")
    if step == 0:
        raise ConfigurationError("rates(step=0): expected a ratio above 0")
    first, span, each = _exact(low), _exact(high) - _exact(low), _exact(step)
    count = round(span / each)
    if abs(count * each - span) > Fraction(1, 10**9):  # a third cannot be written down, and may be meant
        raise ConfigurationError(
            f"rates({low!r}, {high!r}, step={step!r}): {step!r} does not lead from {low!r} to {high!r}"
        )
    if count >= _MOST:
        raise ConfigurationError(f"rates(step={step!r}): {count + 1:,} rates, expected at most {_MOST:,}")
    return [float(first + span * number / count) for number in range(count + 1)] if count else [float(first)]


def _exact(value: float) -> Fraction:
    """Return the decimal number that is meant by a float, which is the shortest one that is read as it."""
    return Fraction(Decimal(str(value)))
