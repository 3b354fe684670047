"""Did a stretch of load hold what is asked, and if not, what broke it? Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..distribution import Latency
from ..model import Objective, Stretch
from ..model.objective import UNITS
from ..slo.figures import statistic
from ..slo.wording import title
from .asked import Asked

COLLAPSE = 0.8  # of the throughput that a lower level had; a closed loop loses less than that to chance


@dataclass(frozen=True, slots=True)
class Stalled:
    """Requests in flight for longer than any whole answer may explain.

    Attributes:
        requests: how many.
        seconds: how long the oldest has been without an answer.
    """

    requests: int = 0
    seconds: float = 0.0


NOBODY = Stalled()


def judge(asked: Asked, stretch: Stretch, stalled: Stalled = NOBODY, best: float | None = None) -> str:
    """Return what broke the service level, in one line; empty: it held.

    Args:
        asked: what is to be held.
        stretch: what came out.
        stalled: of the requests that were in flight at its end.
        best: output tok/s of the best lower level that held: a server that still copes is not slower when more is
            asked of it.
    """
    if stalled.requests:
        return f"{_requests(stalled.requests)} without an answer for {stalled.seconds:.0f} s"
    ended = stretch.requests + stretch.failed
    if not ended:
        return f"no request ended in {stretch.seconds:.0f} s"
    if stretch.failed > asked.max_failed * ended:
        return f"{stretch.failed} of {_requests(ended)} failed, more than {100 * asked.max_failed:.3g} %"
    broken = [_broken(objective, stretch) for objective in asked.objectives]
    return "; ".join(filter(None, broken)) or behind(stretch) or _collapsed(stretch, best)


def value_of(objective: Objective, stretch: Stretch) -> float | None:
    """Return what an objective is about; None: it is not known."""
    if objective.metric == "attainment":
        ended = stretch.requests + stretch.failed
        return None if stretch.good is None or not ended else stretch.good / ended
    return statistic(samples_of(objective, stretch), objective.statistic)


def samples_of(objective: Objective, stretch: Stretch) -> Latency:
    """Return the samples that an objective of single requests is about."""
    return stretch.ttft if objective.metric == "ttft" else stretch.tokens_per_s


def samples_for(objective: Objective, stretch: Stretch) -> int:
    """Return how many requests tell about an objective."""
    if objective.metric == "attainment":
        return 0 if stretch.good is None else stretch.requests
    return len(samples_of(objective, stretch))


def amount(objective: Objective, value: float, digits: int = 3) -> str:
    """Return a value with its unit; whole numbers have all their digits."""
    shown = f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"
    return f"{shown} {UNITS[objective.metric]}".rstrip()


def behind(stretch: Stretch) -> str:
    """Tell of an open loop whose requests end more slowly than they begin: it would hold no limit for long.

    How many begin is random: three standard deviations of a Poisson process are allowed for, and a twentieth.
    """
    if stretch.level.rate is None:
        return ""
    ended, due = stretch.requests + stretch.failed, stretch.level.rate * stretch.seconds
    if due - ended <= 3 * math.sqrt(due) + 0.05 * due:
        return ""
    return f"{ended / stretch.seconds:.3g} of {stretch.level.rate:.3g} req/s ended: the queue grows"


def _broken(objective: Objective, stretch: Stretch) -> str:
    """Return how an objective was not met; empty: it was."""
    value = value_of(objective, stretch)
    if value is None:
        return f"{title(objective)} is not known"
    if objective.met_by(value):
        return ""
    limit = f"{objective.limit:.6g} {UNITS[objective.metric]}".rstrip()
    shown = next((a for d in (3, 4, 6, 9) if (a := amount(objective, value, d)) != limit), amount(objective, value, 17))
    return f"{title(objective)} {shown} {'above' if objective.at_most else 'below'} {limit}"


def _collapsed(stretch: Stretch, best: float | None) -> str:
    """Tell of a throughput clearly below that of a lower level.

    What chance may take away is allowed for on top: in an open loop two standard deviations of the number of arrivals;
    in a closed one an answer of every user, because users that began together end together, just before or behind an
    edge of the stretch.
    """
    now, share = stretch.output_tok_s, COLLAPSE
    if best is None or now is None:
        return ""
    if stretch.level.rate is not None:
        share -= 2 * math.sqrt(2 / max(1.0, stretch.level.rate * stretch.seconds))
    waves = (stretch.level.concurrency or 0) / max(1, stretch.requests)
    if now * (1 + waves) >= share * best:
        return ""
    return f"throughput fell from {best:.0f} to {now:.0f} tok/s"


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"
