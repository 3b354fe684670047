"""Markers as signatures: help text, validation and error messages all derive from one function."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

import pytest

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..model import Expectation, ResetMode, Scope, Source, Tier, Weight

T = TypeVar("T")
HIT_RATE = "hit_rate"


def hit_rate(
    target: float | Literal["simulated"] | None = None,
    tol: float = 0.02,
    *,
    min: float | None = None,
    max: float | None = None,
    weight: Weight = "token",
    tier: Tier = "total",
    source: Source = "auto",
    requests: Scope = "all",
    max_failed: int = 0,
    skip_turns: int = 0,
) -> Expectation:
    """Judge the prefix-cache hit rate of the test: `target` within ±`tol`, at least `min`, at most `max`; nothing: the
    rate predicted from the prompts and the server's block size; `target='simulated'`: that of an LRU cache of the
    server's size, which evicts what does not fit. Measured is what kv.run sent, or without the kv fixture
    the whole test. `tier` is local, external, host, storage, ... or total; `requests='warm'` leaves out the requests
    that had nothing to hit, `skip_turns=1` the first turn of every conversation; more than `max_failed` failed requests
    fail the test.
    """
    from ..model import Expectation, Scope, Source, Tier, Weight

    if isinstance(target, str) and target != "simulated":
        raise ConfigurationError(f"target={target!r} is no rate; expected a ratio such as 0.7, or 'simulated'")
    for name, value in {"target": None if target == "simulated" else target, "min": min, "max": max}.items():
        if value is not None:
            _check_ratio(name, value)
    _check_ratio("tol", tol)
    if min is not None and max is not None and min > max:
        raise ConfigurationError(f"min={min} is above max={max}")
    words = (
        ("weight", weight, Weight),
        ("tier", tier, Tier),
        ("source", source, Source),
        ("requests", requests, Scope),
    )
    for name, word, allowed in words:
        if word not in get_args(allowed):
            raise ConfigurationError(f"{name}={word!r} is none of {', '.join(get_args(allowed))}")
    for name, number, of in (("max_failed", max_failed, "requests"), ("skip_turns", skip_turns, "turns")):
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ConfigurationError(f"{name}={number!r} is no number of {of}")
    asked = Expectation(target, tol, min, max, weight, tier, source, requests, max_failed, skip_turns)
    _check_together(asked)
    return asked


def _check_together(asked: Expectation) -> None:
    if asked.skip_turns and asked.tier != "total":
        raise ConfigurationError("skip_turns needs tier='total': replies do not tell the tier of their cached tokens")
    if asked.target == "simulated" and asked.tier not in ("total", "local"):
        raise ConfigurationError(
            f"target='simulated' is the rate of the device cache: tier='total' or 'local', not {asked.tier!r}"
        )
    if asked.weight == "request" and asked.requests == "warm":
        raise ConfigurationError("requests='warm' is for token-weighted rates; weight='request' counts all requests")
    if asked.weight == "request" and asked.source == "counters":
        raise ConfigurationError("weight='request' comes from each reply's usage; source='counters' cannot tell it")


def kv_reset(mode: ResetMode = "require") -> ResetMode:
    """Empty the server's cache before each run of the test: `never`, `auto` (where that is possible) or `require` (it
    must be shown to be cold, or nothing is measured).
    """
    from ..model import ResetMode

    if mode not in get_args(ResetMode):
        raise ConfigurationError(f"mode={mode!r} is none of {', '.join(get_args(ResetMode))}")
    return mode


def help_lines() -> list[str]:
    """Return what ``pytest --markers`` shows, made from the signatures and the docstrings."""
    return [f"{_shown(marker)}: {' '.join((marker.__doc__ or '').split())}" for marker in (hit_rate, kv_reset)]


def expectation_of(item: pytest.Item) -> Expectation | None:
    """Return what the closest ``hit_rate`` marker of an item asks for, None without one.

    Raises:
        ConfigurationError: a wrong argument; names the test.
    """
    return _called(item, hit_rate)


def reset_of(item: pytest.Item) -> ResetMode | None:
    """Return what the closest ``kv_reset`` marker of an item asks for, None without one.

    Raises:
        ConfigurationError: a wrong argument; names the test.
    """
    return _called(item, kv_reset)


def _called(item: pytest.Item, signature: Callable[..., T]) -> T | None:
    marker = item.get_closest_marker(signature.__name__)
    if marker is None:
        return None
    try:
        return signature(*marker.args, **marker.kwargs)
    except (TypeError, ConfigurationError) as error:
        text = str(error).replace(f"{signature.__name__}() ", "")
        where = f"{item.nodeid}: @pytest.mark.{signature.__name__}"
        raise ConfigurationError(f"{where}: {text}; expected {_shown(signature)}") from None


def _shown(signature: Callable[..., object]) -> str:
    parameters = inspect.signature(signature).parameters.values()
    shown = ", ".join(p.name if p.default is None else f"{p.name}={p.default!r}" for p in parameters)
    return f"{signature.__name__}({shown})"


def _check_ratio(name: str, value: object) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or not 0 <= value <= 1
    ):
        raise ConfigurationError(f"{name}={value!r} is no rate; expected a ratio between 0 and 1, such as 0.7")
