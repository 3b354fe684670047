"""Is an argument what it should be? Pure, and imports nothing of ours."""

from __future__ import annotations

import math
import sys


def is_whole(value: object, least: float = -math.inf) -> bool:
    """Tell whether a value is a whole number that is not below ``least``."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: object) -> bool:
    """Tell whether a value is a finite number of at least 0; what no float can hold is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def is_ratio(value: object) -> bool:
    """Tell whether a value is a number between 0 and 1."""
    return is_number(value) and 0 <= value <= 1  # type: ignore[operator] # a number, as just seen
