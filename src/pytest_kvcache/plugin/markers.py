"""Markers as signatures: help text, validation and error messages all derive from one function."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, get_args

import pytest

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..model import Expectation, Source, Tier, Weight

HIT_RATE = "hit_rate"


def hit_rate(
    target: float | None = None,
    tol: float = 0.02,
    *,
    min: float | None = None,
    max: float | None = None,
    weight: Weight = "token",
    tier: Tier = "total",
    source: Source = "auto",
) -> Expectation:
    """Judge the prefix-cache hit rate of the test: `target` within ±`tol`, at least `min`, at most `max`; nothing: the
    rate predicted from the prompts and the server's block size. Measured is what kv.run sent, or without the kv fixture
    the whole test.
    """
    from ..model import Expectation, Source, Tier, Weight

    for name, value in {"target": target, "min": min, "max": max, "tol": tol}.items():
        _check_ratio(name, value)
    if min is not None and max is not None and min > max:
        raise ConfigurationError(f"min={min} is above max={max}")
    for name, word, allowed in (("weight", weight, Weight), ("tier", tier, Tier), ("source", source, Source)):
        if word not in get_args(allowed):
            raise ConfigurationError(f"{name}={word!r} is none of {', '.join(get_args(allowed))}")
    if weight == "request" and source == "counters":
        raise ConfigurationError("weight='request' comes from each reply's usage; source='counters' cannot tell it")
    return Expectation(target, tol, min, max, weight, tier, source)


def help_line() -> str:
    """Return what ``pytest --markers`` shows, made from the signature and the docstring."""
    parameters = inspect.signature(hit_rate).parameters.values()
    shown = ", ".join(p.name if p.default is None else f"{p.name}={p.default!r}" for p in parameters)
    return f"{HIT_RATE}({shown}): {' '.join((hit_rate.__doc__ or '').split())}"


def expectation_of(item: pytest.Item) -> Expectation | None:
    """Return what the closest ``hit_rate`` marker of an item asks for, None without one.

    Raises:
        ConfigurationError: a wrong argument; names the test.
    """
    marker = item.get_closest_marker(HIT_RATE)
    if marker is None:
        return None
    try:
        return hit_rate(*marker.args, **marker.kwargs)
    except (TypeError, ConfigurationError) as error:
        text = str(error).replace("hit_rate() ", "")
        raise ConfigurationError(
            f"{item.nodeid}: @pytest.mark.hit_rate: {text}; expected {help_line().split(':')[0]}"
        ) from None


def _check_ratio(name: str, value: object) -> None:
    if value is None:
        return
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or not 0 <= value <= 1
    ):
        raise ConfigurationError(f"{name}={value!r} is no rate; expected a ratio between 0 and 1, such as 0.7")
