"""Where the limit lies, in one line with the confidence. Pure."""

from __future__ import annotations

from ..model import Level, Objective, Stretch
from ..slo.wording import title
from .asked import Asked
from .breach import amount, value_of
from .confidence import interval_of
from .search import Search
from .tried import Tried


def sentence_of(search: Search, now: int, open_period: Stretch | None, over: str = "the time") -> str:
    """Return what held and for how long, what did not, and whether anything was left to try.

    Args:
        search: all that was tried.
        now: the rung that was assessed last.
        open_period: a last one without a verdict.
        over: what came to its end before the search did.
    """
    asked, ladder, found, broken = search.asked, search.ladder, search.found, search.broken
    parts = []
    if not search.tried:
        return "no level was assessed" + _why_not(asked, open_period)
    if not any(tried.periods for tried in search.tried.values()):
        parts.append("no level was assessed for a whole period")
    elif found is None:
        parts.append("no level held")
    else:
        parts.append(_held(asked, ladder[found], search.tried[found]))
    if broken is not None:
        parts.append(_broke(search, broken))
    parts += _left_open(search, now, open_period, over)
    return "; ".join(parts)


def _left_open(search: Search, now: int, open_period: Stretch | None, over: str) -> list[str]:
    """Return what the search did not get to, or that it ended at the top."""
    ladder, found, tried = search.ladder, search.found, search.tried
    wanted = search.wanted(now)
    if wanted is None or search.converged:
        return [f"the limit is higher than {ladder[found]}"] if found == ladder.top else []
    floor = search.floor
    parts = [_unsettled(search, floor)] if floor is not None and floor != found else []
    again = " once more" if wanted in tried and tried[wanted].periods else ""
    missed = f"not converged: {over} was over before {ladder[wanted]} was assessed{again}"
    return [*parts, missed + _why_not(search.asked, open_period)]


def _unsettled(search: Search, rung: int) -> str:
    """Return what is known of the highest rung that may hold, where a lower one was found."""
    tried, level = search.tried[rung], search.ladder[rung]
    if not tried.periods:
        return f"{level} was passed after {tried.pooled.seconds:.0f} s and not assessed for a whole period"
    return f"{level} held in {tried.held} of {len(tried.periods)} periods and was not confirmed"


def _why_not(asked: Asked, period: Stretch | None) -> str:
    """Return why a period that had begun has no verdict."""
    if period is None:
        return ""
    needed = f", and a verdict needs {asked.needed}" if period.requests < asked.needed else ""
    return f" (its period had {period.requests} requests in {period.seconds:.0f} s{needed})"


def _held(asked: Asked, level: Level, tried: Tried) -> str:
    all_of_it, count = tried.pooled, len(tried.periods)
    periods = f"{count} periods" if count > 1 else "1 period only"
    values = " and ".join(_value(objective, all_of_it) for objective in asked.objectives)
    goodput = "" if all_of_it.goodput is None else f", goodput {all_of_it.goodput:.3g} req/s"
    but = f", {tried.breached} of them did not alone: {_whys(tried)}" if tried.breached else ""
    extent = f"{periods} ({all_of_it.seconds:.0f} s, {all_of_it.requests} requests)"
    return f"{level} held over {extent}: {values}{goodput}{but}"


def _broke(search: Search, rung: int) -> str:
    tried, level = search.tried[rung], search.ladder[rung]
    count = len(tried.periods)
    if not tried.breached:
        return f"{level} did not hold over {count} periods together: {search.why(rung)}"
    how_often = f"{tried.breached} of {count} periods" if count > 1 else "1 period"
    return f"{level} did not hold in {how_often}: {_whys(tried)}"


def _whys(tried: Tried) -> str:
    return " / ".join(dict.fromkeys(period.why for period in tried.periods if period.why))


def _value(objective: Objective, stretch: Stretch) -> str:
    value, (low, high) = value_of(objective, stretch), interval_of(objective, stretch)
    shown = "not known" if value is None else amount(objective, value)
    asked = f"{'at most' if objective.at_most else 'at least'} {amount(objective, objective.limit)}"
    if low is None and high is None:
        return f"{title(objective)} {shown}, wanted {asked}"
    return f"{title(objective)} {shown}, wanted {asked} (95 % CI {_end(objective, low)} to {_end(objective, high)})"


def _end(objective: Objective, value: float | None) -> str:
    return "?" if value is None else amount(objective, value)
