"""Which level is kept next, and where does the limit lie? The search without its clock and traffic. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..model import Level, Limit, Period, Stretch
from .asked import Asked
from .breach import NOBODY, Stalled, samples_for
from .headroom import is_lost
from .ladder import Ladder
from .search import Search
from .wording import sentence_of

WHOLE = 0.98  # of the assessment: a period of that length is whole, because timers are not exact

Action = Literal["on", "again", "change", "done"]


@dataclass(frozen=True, slots=True)
class Move:
    """What to do now.

    Attributes:
        action: ``on``: the period goes on, and comes longer the next time; ``again``: it counts, and another one begins
            at this level at once; ``change``: to another level, whose period begins when every request that was in
            flight has ended; ``done``: finish.
        level: to be kept from here on.
        drain: let nobody begin before all in flight have ended: what an overload of an open loop has left behind, or
            a request without an answer, would be billed to the level below.
    """

    action: Action
    level: Level
    drain: bool = False


class Controller:
    """Searches the highest level that holds.

    It ramps while there is headroom, up to :data:`~pytest_kvcache.limits.steering.GROWTH` fold at once; a level that
    has ample of it is passed before its period is whole. Then it narrows the gap between the highest level that held
    and the lowest that did not. When these are neighbours, the one must hold for a second whole period and the other
    break once more. When the time gets short, what may be reported is assessed before anything higher is tried.

    Args:
        ladder: the levels.
        asked: what is to be held.
        assessment: seconds of a period.
        duration: seconds of the whole search.
        began: monotonic seconds at which it began; None: with the first stretch that is told.
    """

    def __init__(
        self, ladder: Ladder, asked: Asked, *, assessment: float, duration: float, began: float | None = None
    ) -> None:
        self._ladder = ladder
        self._asked = asked
        self._assessment = assessment
        self._duration = duration
        self._began = began
        self._search = Search(ladder, asked)
        self._rung = 0
        self._periods: list[Period] = []
        self._open: Stretch | None = None
        self._transition = 0.0

    @property
    def level(self) -> Level:
        """The level that is to be kept."""
        return self._ladder[self._rung]

    @property
    def periods(self) -> tuple[Period, ...]:
        """All so far, in order."""
        return tuple(self._periods)

    def passed(self, stretch: Stretch) -> None:
        """Note a stretch that counts for no level, because the load had just begun or the level changed."""
        self._begin(stretch)
        self._transition = stretch.seconds
        self._periods.append(Period(stretch, "transition"))

    def next(self, stretch: Stretch, stalled: Stalled = NOBODY) -> Move:
        """Return what to do after a period, or in the middle of one.

        Args:
            stretch: what has come out since the period began. Before the assessment is over, a period ends only when
                it is lost whatever is still to come.
            stalled: of the requests in flight, those that no whole answer explains.
        """
        self._begin(stretch)
        if not is_lost(self._asked, stretch, self._assessment, stalled):
            if self._search.passes(self._rung, stretch, self._assessment):
                self._periods.append(Period(stretch, "transition", "passed: the limit is far above"))
                return self._move(stretch.end)
            if self._is_too_little(stretch):
                self._open = stretch
                return Move("on", self.level)
        self._periods.append(self._search.add(self._rung, stretch, stalled))
        return self._move(stretch.end)

    def finish(self, over: str = "the time") -> Limit:
        """Return where the limit lies, as far as it was found.

        Args:
            over: what came to its end before the search did, if anything did.
        """
        search, found = self._search, self._search.found
        broken = None if search.broken is None else self._ladder[search.broken]
        return Limit(
            level=None if found is None else self._ladder[found],
            breached=broken,
            periods=self.periods,
            converged=search.converged,
            stretch=None if found is None else search.tried[found].pooled,
            sentence=sentence_of(search, self._rung, self._open, over),
            asked=search.asked.objectives,
            each=search.asked.each,
        )

    def _move(self, now: float) -> Move:
        """Return where to go when a period has ended."""
        self._open, before, wanted = None, self._rung, self._affordable(now)
        if wanted is None:
            return Move("done", self.level)
        if wanted == before:
            return Move("again", self.level)
        self._rung = wanted
        last = self._periods[-1]
        left_behind = last.held == "breached" and self.level.rate is not None
        return Move("change", self.level, drain=left_behind or last.stalled > 0)

    def _begin(self, stretch: Stretch) -> None:
        if self._began is None:
            self._began = stretch.start

    def _is_too_little(self, stretch: Stretch) -> bool:
        """Tell whether a period is too short for a verdict, or has too few requests; what is there for none of them is
        not waited for longer than twice the time.
        """
        assessments = stretch.seconds / (WHOLE * self._assessment)
        if assessments < 1:
            return True
        samples = min(samples_for(objective, stretch) for objective in self._asked.objectives)
        if samples >= self._asked.needed:
            return False
        return assessments < 2 or samples > 0 or _may_be_idle(stretch)

    def _affordable(self, now: float) -> int | None:
        """Return the rung to assess next for which the time suffices; None: there is none."""
        search, floor = self._search, self._search.floor
        left = (self._began or 0.0) + self._duration - now
        wanted = search.wanted(self._rung)
        if wanted is None:
            return None
        there_and_back = self._cost(wanted) + self._transition + self._assessment
        if floor not in (None, wanted) and not search.is_confirmed(floor) and left < there_and_back:
            wanted = floor
        return wanted if left >= self._cost(wanted) else None

    def _cost(self, rung: int) -> float:
        """Return the seconds that one period of a rung takes."""
        return WHOLE * self._assessment + (self._transition if rung != self._rung else 0.0)


def _may_be_idle(stretch: Stretch) -> bool:
    """Tell whether nothing ended because nothing was due: none is less than three deviations below so few arrivals."""
    ended, rate = stretch.requests + stretch.failed, stretch.level.rate
    return not ended and rate is not None and rate * stretch.seconds <= 9
