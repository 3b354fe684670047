"""What do all periods at one level say together? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ..counts import total
from ..distribution import merged
from ..model import Level, Limit, Period, Stretch
from .asked import Asked
from .breach import Stalled, judge

Verdict = Literal["held", "breached", "open", "passed"]
ENOUGH = 2  # periods in which a level must have held before it is reported as confirmed
MOST = 3  # periods at one level: the third decides


@dataclass(slots=True)
class Tried:
    """The periods at one level that count.

    Its verdict is that of all samples together, so that one period by chance decides nothing. A level that broke once
    and then held is ``open``: it does not bound the search, since what is above it may hold, and is not reported
    either before a third period has decided.

    One that was only passed on the way up, with ample headroom, has no period and is not reported either.

    Attributes:
        asked: what is to be held.
        passing: what came out while it was passed; None: it was not.
        periods: in order.
        oldest: seconds that the oldest stalled request of any of them had been without an answer.
    """

    asked: Asked
    passing: Stretch | None = None
    periods: list[Period] = field(default_factory=list)
    oldest: float = 0.0

    def add(self, stretch: Stretch, stalled: Stalled, best: float | None) -> Period:
        """Take one more period, and return it judged."""
        why = judge(self.asked, stretch, stalled, best)
        period = Period(stretch, "breached" if why else "held", why, stalled.requests)
        self.periods.append(period)
        self.oldest = max(self.oldest, stalled.seconds)
        return period

    @property
    def held(self) -> int:
        """How many periods were held."""
        return sum(period.held == "held" for period in self.periods)

    @property
    def breached(self) -> int:
        """How many were not."""
        return len(self.periods) - self.held

    def why(self, best: float | None) -> str:
        """Return what all samples together break; empty: nothing."""
        stalled = Stalled(sum(period.stalled for period in self.periods), self.oldest)
        return judge(self.asked, self.pooled, stalled, best)

    def verdict(self, best: float | None) -> Verdict:
        """Return what the periods say together; ``best`` as for :func:`judge`."""
        if not self.periods:
            return "passed"
        if self.held < self.breached:
            return "breached"
        if not self.why(best):
            return "held"
        doubted = self.periods[-1].held == "held" and self.breached > 0 and len(self.periods) < MOST
        return "open" if doubted else "breached"

    def confirmed(self, best: float | None) -> bool:
        """Tell whether it held over at least two whole periods, and all samples together hold it."""
        return self.held >= ENOUGH and self.verdict(best) == "held"

    @property
    def pooled(self) -> Stretch:
        """All periods as one; without any, what came out while it was passed."""
        if not self.periods and self.passing is not None:
            return self.passing
        return pooled([period.stretch for period in self.periods])


def pooled_at(limit: Limit, level: Level | None) -> Stretch | None:
    """Return all periods of a search that count at a level as one; None: there is none."""
    stretches = [p.stretch for p in limit.periods if p.held != "transition" and p.stretch.level == level]
    return pooled(stretches) if stretches else None


def pooled(stretches: Sequence[Stretch]) -> Stretch:
    """Return several stretches of one level as one: it begins with the first and is as long as all of them together.

    Raises:
        ValueError: there is none.
    """
    if len(stretches) == 1:
        return stretches[0]
    if not stretches:
        raise ValueError("there is no stretch to pool")
    first = stretches[0]
    itl = [one.itl for one in stretches if one.itl is not None]
    return replace(
        first,
        end=first.start + sum(one.seconds for one in stretches),
        requests=sum(one.requests for one in stretches),
        failed=sum(one.failed for one in stretches),
        output_tokens=sum(one.output_tokens for one in stretches),
        input_tokens=total(one.input_tokens for one in stretches),
        hit_tokens=total(one.hit_tokens for one in stretches),
        ttft=merged(one.ttft for one in stretches),
        tpot=merged(one.tpot for one in stretches),
        e2e=merged(one.e2e for one in stretches),
        tokens_per_s=merged(one.tokens_per_s for one in stretches),
        itl=merged(itl) if len(itl) == len(stretches) else None,
        good=total(one.good for one in stretches),
    )
