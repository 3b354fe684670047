"""Markers as signatures: help text, validation and error messages all derive from one function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

import pytest

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..model import Expectation, ResetMode, Scope, ServiceLevel, Source, Tier, Weight
    from ..regression.asked import Asked as RegressionAsked
    from ..report.record import Record
    from ..slo.asked import SpeedUpAsked, SpeedUpOf, SpeedUpStatistic
    from .sweeps import SweepAsked

T = TypeVar("T")
JUDGED = ("hit_rate", "kv_slo", "kv_speedup", "kv_regression")  # markers that ask something of what a test measures


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


def kv_slo(**limits: float | None) -> ServiceLevel:
    """Judge the latency and throughput of what the test sends, each kv.run and each level of kv.steps on its own. At
    most, in seconds: `ttft`, `itl`, `tpot`, `e2e`, each with `_p50`, `_p95`, `_p99`, `_mean` or `_max` (ttft_p95=2.0),
    and `error_rate` (share of requests; 0 when it is not given). At least: `tokens_per_s_avg`, `_p5`, `_p10` of a
    request, `output_tok_s` and `input_tok_s` of all together, and `goodput` (requests per second) and `attainment`
    (share) of the requests that meet `ttft`, `tpot` and `e2e`. Too few samples for a percentile are inconclusive, and
    so is a miss that the load generator itself may have caused.
    """
    from ..slo.asked import service_level

    return service_level(limits)


def kv_speedup(*, min: float, of: SpeedUpOf = "ttft", statistic: SpeedUpStatistic = "p50") -> SpeedUpAsked:
    """Judge what the cache gains: `statistic` (p50, p95, p99, mean) of `of` (ttft, e2e) in the cold run of kv.speedup
    over that in its warm run, at least `min`.
    """
    from ..slo.asked import speed_up

    return speed_up(min, of, statistic)


def kv_regression(*, allow: str | Sequence[str] = (), **limits: float | str | None) -> RegressionAsked:
    """Compare what the test measures with the baseline (--kv-baseline): `hit_rate=-0.02` may fall by two points,
    `ttft_p95='+10%'` may rise by a tenth of what it was, `ttft_p95=0.05` by 50 ms, `output_tok_s='-5%'` may fall;
    nothing: the hit rate must not fall at all. Names are those of kv_slo, hit_rate and hit_tokens. Times are noisy: a
    test over repeated runs tells a change from chance, and 5 runs on each side are the least that it needs. What
    answered and what was sent must be the same, except for what `allow` names ('engine_version', 'model', ...).
    """
    from ..regression.asked import asked

    return asked(limits, allow)


def kv_sweep(
    name: str | None = None, axes: Sequence[str] | Mapping[str, str | float | bool] | None = None
) -> SweepAsked:
    """Put tests together in one result set, which is shown as a grid when all have run: those of one `name`, else those
    of one function. `axes` are the parameters that matter (all of them when left out), or the values of the test
    itself, {'rate': 0.5}. Without this marker the parameter sets of one function are a sweep when they differ in a
    number.
    """
    from .sweeps import sweep_asked

    return sweep_asked(name, axes)


def help_lines() -> list[str]:
    """Return what ``pytest --markers`` shows, made from the signatures and the docstrings."""
    markers: tuple[Callable[..., object], ...] = (hit_rate, kv_slo, kv_speedup, kv_regression, kv_reset, kv_sweep)
    return [f"{_shown(marker)}: {' '.join((marker.__doc__ or '').split())}" for marker in markers]


def expectation_of(item: pytest.Item) -> Expectation | None:
    """Return what the closest ``hit_rate`` marker of an item asks for, None without one.

    Raises:
        ConfigurationError: a wrong argument; names the test.
    """
    return _called(item, hit_rate)


def service_level_of(item: pytest.Item) -> ServiceLevel | None:
    """Return what the closest ``kv_slo`` marker of an item asks for, None without one.

    Raises:
        ConfigurationError: a wrong argument; names the test.
    """
    return _called(item, kv_slo)


def speed_up_of(item: pytest.Item) -> SpeedUpAsked | None:
    """Return what the closest ``kv_speedup`` marker of an item asks for, None without one.

    Raises:
        ConfigurationError: a wrong argument; names the test.
    """
    return _called(item, kv_speedup)


def regression_of(item: pytest.Item) -> RegressionAsked | None:
    """Return what the closest ``kv_regression`` marker of an item asks for, None without one.

    Raises:
        ConfigurationError: a wrong argument; names the test.
    """
    return _called(item, kv_regression)


def reset_of(item: pytest.Item) -> ResetMode | None:
    """Return what the closest ``kv_reset`` marker of an item asks for, None without one.

    Raises:
        ConfigurationError: a wrong argument; names the test.
    """
    return _called(item, kv_reset)


def check_sweep(item: pytest.Item) -> None:
    """Make sure that the ``kv_sweep`` marker of an item, if it has one, can be used.

    Raises:
        ConfigurationError: it cannot; names the test.
    """
    if item.get_closest_marker(kv_sweep.__name__) is not None:
        sweep_of(item)


def sweep_of(item: pytest.Item) -> Record | None:
    """Return which place an item has in a sweep, None when it is in none.

    Raises:
        ConfigurationError: a wrong argument; names the test.
    """
    from .sweeps import place_of

    asked = _called(item, kv_sweep)
    try:
        return place_of(item, asked)
    except ConfigurationError as error:
        raise ConfigurationError(f"{item.nodeid}: @pytest.mark.{kv_sweep.__name__}: {error}") from None


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
    return f"{signature.__name__}({', '.join(map(_parameter, parameters))})"


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
        return f"{parameter.name}="
    return parameter.name if parameter.default in (None, parameter.empty) else f"{parameter.name}={parameter.default!r}"


def _check_ratio(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ConfigurationError(f"{name}={value!r} is no rate; expected a ratio between 0 and 1, such as 0.7")
