"""What is asked of each level of load? Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from ..checks import is_number
from ..errors import ConfigurationError
from ..model import Objective, PerRequest
from ..model.objective import Metric, Statistic

TtftMetric = Literal["p95", "avg", "max"]
TokensMetric = Literal["avg", "p5", "p10"]

_ANY = PerRequest()
MAX_FAILED = 0.01  # share of requests; a level at which more of them fail is not served
STATISTICS: dict[str, Statistic] = {"avg": "mean", "p95": "p95", "max": "max", "p5": "p5", "p10": "p10"}
NEEDED = {"p95": 20, "p5": 20, "max": 20, "p10": 10, "mean": 10}  # samples below which a statistic says little


@dataclass(frozen=True, slots=True)
class Asked:
    """The service level that a level of load has to hold.

    Attributes:
        objectives: every limit.
        each: what a request has to meet to be good, for ``attainment``.
        max_failed: share of requests that may fail.
    """

    objectives: tuple[Objective, ...]
    each: PerRequest = _ANY
    max_failed: float = MAX_FAILED

    @property
    def needed(self) -> int:
        """How many requests a period must have for a verdict."""
        return max(_needed(objective) for objective in self.objectives)


def of_concurrency(
    max_ttft: float | None = 2.0,
    ttft_metric: TtftMetric = "p95",
    min_tokens_per_req: float | None = None,
    tokens_per_req_metric: TokensMetric = "avg",
    max_failed: float = MAX_FAILED,
    *,
    what: str = "sustain",
) -> Asked:
    """Return what ``kv.sustain`` asks, and ``kv.steps`` where it has thresholds.

    Args:
        max_ttft: seconds until the first token; None: any.
        ttft_metric: of all requests of a period.
        min_tokens_per_req: tokens per second of a request, from sending to the end of its answer; None: any.
        tokens_per_req_metric: of all requests of a period.
        max_failed: share of requests that may fail.
        what: the method that asks, for errors.

    Raises:
        ConfigurationError: nothing, or something impossible, is asked.
    """
    _check_limit(what, "max_ttft", max_ttft, "seconds")
    _check_limit(what, "min_tokens_per_req", min_tokens_per_req, "tokens per second")
    _check_word(what, "ttft_metric", ttft_metric, get_args(TtftMetric))
    _check_word(what, "tokens_per_req_metric", tokens_per_req_metric, get_args(TokensMetric))
    _check_share(what, "max_failed", max_failed, is_number(max_failed) and max_failed < 1)
    objectives = []
    if max_ttft is not None:
        objectives.append(_objective("ttft", STATISTICS[ttft_metric], max_ttft, at_most=True))
    if min_tokens_per_req is not None:
        statistic = STATISTICS[tokens_per_req_metric]
        objectives.append(_objective("tokens_per_s", statistic, min_tokens_per_req, at_most=False))
    if not objectives:
        raise ConfigurationError(f"kv.{what}: nothing is asked that could be broken; give max_ttft= (seconds)")
    return Asked(tuple(objectives), max_failed=max_failed)


def of_rate(
    max_ttft: float | None = None,
    max_tpot: float | None = None,
    max_e2e: float | None = None,
    attainment: float = 0.95,
    max_failed: float = MAX_FAILED,
) -> Asked:
    """Return what ``kv.sustain_rate`` asks: this share of the requests meets every limit.

    Args:
        max_ttft / max_tpot / max_e2e: seconds; None: any.
        attainment: share of the requests, failed ones included, that must meet all of them.
        max_failed: share of requests that may fail.

    Raises:
        ConfigurationError: nothing, or something impossible, is asked.
    """
    what = "sustain_rate"
    for name, limit in (("max_ttft", max_ttft), ("max_tpot", max_tpot), ("max_e2e", max_e2e)):
        _check_limit(what, name, limit, "seconds")
    _check_share(what, "attainment", attainment, is_number(attainment) and 0 < attainment <= 1)
    _check_share(what, "max_failed", max_failed, is_number(max_failed) and max_failed < 1)
    each = PerRequest(max_ttft, max_tpot, max_e2e)
    if not each.asked:
        raise ConfigurationError(f"kv.{what}: nothing is asked that could be broken; give max_ttft= (seconds)")
    return Asked((_objective("attainment", "total", attainment, at_most=False),), each, max_failed)


def _objective(metric: Metric, statistic: Statistic, limit: float, *, at_most: bool) -> Objective:
    name = metric if statistic == "total" else f"{metric}_{statistic}"
    return Objective(metric, statistic, limit, at_most, name)


def _needed(objective: Objective) -> int:
    if objective.metric != "attainment":
        return NEEDED[objective.statistic]
    return 20 if objective.limit == 1 else min(100, math.ceil(round(1 / (1 - objective.limit), 6)))


def _check_limit(what: str, name: str, limit: float | None, unit: str) -> None:
    if limit is not None and not (is_number(limit) and limit > 0):
        raise ConfigurationError(f"kv.{what}({name}={limit!r}): expected {unit}, above 0")


def _check_word(what: str, name: str, word: str, words: tuple[str, ...]) -> None:
    if word not in words:
        expected = ", ".join(repr(one) for one in words)
        raise ConfigurationError(f"kv.{what}({name}={word!r}): expected one of {expected}")


def _check_share(what: str, name: str, share: float, is_one: bool) -> None:
    if not is_one:
        raise ConfigurationError(
            f"kv.{what}({name}={share!r}): expected a share of the requests, such as 0.95 for 95 %"
        )
