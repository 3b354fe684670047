"""Which limits does a marker ask for? Keywords to a service level, with errors that say what to write instead. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, get_args

from ..checks import is_number
from ..errors import ConfigurationError
from ..model import Objective, PerRequest, ServiceLevel
from ..model.objective import Metric, Statistic

SpeedUpOf = Literal["ttft", "e2e"]
SpeedUpStatistic = Literal["p50", "p95", "p99", "mean"]

_EACH = ("ttft", "tpot", "e2e")  # limits of each request
_LATENCIES: tuple[Metric, ...] = ("ttft", "itl", "tpot", "e2e")
_OF_LATENCY: tuple[Statistic, ...] = ("p50", "p95", "p99", "mean", "max")
_OF_SPEED: dict[str, Statistic] = {"avg": "mean", "p5": "p5", "p10": "p10"}
_TOTALS: tuple[Metric, ...] = ("output_tok_s", "input_tok_s", "goodput", "attainment", "error_rate")


def _objectives() -> Iterator[tuple[str, Metric, Statistic, bool]]:
    for metric in _LATENCIES:
        yield from ((f"{metric}_{statistic}", metric, statistic, True) for statistic in _OF_LATENCY)
    yield from ((f"tokens_per_s_{word}", "tokens_per_s", statistic, False) for word, statistic in _OF_SPEED.items())
    yield from ((metric, metric, "total", metric == "error_rate") for metric in _TOTALS)


KNOWN: dict[str, tuple[Metric, Statistic, bool]] = {name: (m, s, most) for name, m, s, most in _objectives()}
"""Metric, statistic and whether the limit is one from above, by the names that limits have."""


@dataclass(frozen=True, slots=True)
class SpeedUpAsked:
    """What a ``kv_speedup`` marker asks.

    Attributes:
        objective: the least that cold over warm may be.
        of: the latency.
        statistic: of it, in both runs.
    """

    objective: Objective
    of: SpeedUpOf
    statistic: SpeedUpStatistic


def service_level(limits: Mapping[str, object]) -> ServiceLevel:
    """Return what keywords ask for; None stands for one that is not given.

    Args:
        limits: by name: ``ttft_p95`` and the like, seconds; ``tokens_per_s_p5``, ``output_tok_s``, ...; ``ttft``,
            ``tpot``, ``e2e`` alone: what each request has to meet for ``goodput`` and ``attainment``.

    Raises:
        ConfigurationError: an unknown name, a value that is no limit, or limits that ask for nothing.
    """
    given = {name: value for name, value in limits.items() if value is not None}
    for name, value in given.items():
        if name not in KNOWN and name not in _EACH:
            raise ConfigurationError(_unknown(name))
        _check(name, value)
    each = PerRequest(**{name: _number(given[name]) for name in _EACH if name in given})
    asked = tuple(
        Objective(metric, statistic, _number(given[name]), at_most, name)
        for name, (metric, statistic, at_most) in KNOWN.items()
        if name in given
    )
    _check_together(asked, each)
    return ServiceLevel(asked, each)


def speed_up(minimum: object, of: SpeedUpOf = "ttft", statistic: SpeedUpStatistic = "p50") -> SpeedUpAsked:
    """Return what a speed-up has to reach.

    Raises:
        ConfigurationError: a value that is none.
    """
    if not is_number(minimum) or _number(minimum) <= 0:
        raise ConfigurationError(f"min={minimum!r} is no speed-up; expected cold over warm, such as 2.0")
    for name, word, allowed in (("of", of, SpeedUpOf), ("statistic", statistic, SpeedUpStatistic)):
        if word not in get_args(allowed):
            raise ConfigurationError(f"{name}={word!r} is none of {', '.join(get_args(allowed))}")
    objective = Objective("speedup", statistic, _number(minimum), at_most=False, name=f"speedup_{of}_{statistic}")
    return SpeedUpAsked(objective, of, statistic)


def _check_together(asked: tuple[Objective, ...], each: PerRequest) -> None:
    of_share = [o.name for o in asked if o.metric in ("goodput", "attainment")]
    if of_share and not each.asked:
        raise ConfigurationError(
            f"{of_share[0]}= counts the requests that meet limits of their own, and none is given: add ttft=, tpot= or"
            " e2e= (seconds)"
        )
    if each.asked and not of_share:
        name = next(name for name in _EACH if getattr(each, name) is not None)
        raise ConfigurationError(
            f"{name}= is what each request has to meet; say how many must: attainment=0.95 (share) or goodput="
            f" (requests per second), or give a statistic of all requests, such as {name}_p95= or {name}_max="
        )
    if not asked:
        raise ConfigurationError("no limit is given; say for example ttft_p95=2.0 (seconds)")


def _check(name: str, value: object) -> None:
    metric = KNOWN[name][0] if name in KNOWN else name
    number = _number(value) if is_number(value) else math.nan
    if metric == "error_rate":
        wrong, expected = not 0 <= number <= 1, "a share between 0 and 1, such as 0.01"
    elif metric == "attainment":
        wrong, expected = not 0 < number <= 1, "a share above 0, at most 1, such as 0.95"
    elif metric == "goodput":
        wrong, expected = not number > 0, "requests per second, above 0"
    elif metric in ("tokens_per_s", "output_tok_s", "input_tok_s"):
        wrong, expected = not number > 0, "tokens per second, above 0"
    else:
        wrong, expected = not number > 0, "seconds, above 0, such as 2.0"
    if wrong:
        raise ConfigurationError(f"{name}={value!r} is no limit; expected {expected}")


def _unknown(name: str) -> str:
    close = get_close_matches(name, [*KNOWN, *_EACH], 1)
    hint = f", did you mean {close[0]}=" if close else ""
    return (
        f"{name}= is no limit of a service level{hint}; there are {', '.join(_LATENCIES)}, each with"
        f" _{', _'.join(_OF_LATENCY)}, tokens_per_s with _{', _'.join(_OF_SPEED)}, {', '.join(_TOTALS)}, and"
        f" {', '.join(_EACH)} of each request"
    )


def _number(value: object) -> float:
    assert isinstance(value, (int, float))
    return float(value)
