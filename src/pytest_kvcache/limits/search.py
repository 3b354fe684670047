"""What do the levels that were tried leave open? Pure."""

from __future__ import annotations

from ..model import Period, Stretch
from .asked import Asked
from .breach import NOBODY, Stalled
from .headroom import is_ample, used
from .ladder import Ladder
from .steering import aim, ramp
from .tried import Tried


class Search:
    """The levels that were tried, and which one is worth trying next.

    Args:
        ladder: the levels.
        asked: what is to be held.

    Attributes:
        ladder / asked: as given.
        tried: by rung.
    """

    def __init__(self, ladder: Ladder, asked: Asked) -> None:
        self.tried: dict[int, Tried] = {}
        self.ladder = ladder
        self.asked = asked
        self._halve = False

    def passes(self, rung: int, stretch: Stretch, assessment: float) -> bool:
        """Tell whether a rung need not be assessed for a whole period, because the limit lies far above it.

        Then it is noted: the search goes on above. It is assessed all the same when nothing higher holds.
        """
        ceiling = self.ladder.top + 1 if self.ceiling is None else self.ceiling
        if rung in self.tried or rung + 1 >= ceiling or not is_ample(self.asked, stretch, assessment):
            return False
        self.tried[rung] = Tried(self.asked, passing=stretch)
        return True

    def add(self, rung: int, stretch: Stretch, stalled: Stalled = NOBODY) -> Period:
        """Take one more period of a rung, and return it judged."""
        before = self._gap
        tried = self.tried.setdefault(rung, Tried(self.asked))
        period = tried.add(stretch, stalled, self._best_below(rung))
        if before is not None and rung in before and (after := self._gap) is not None:
            self._halve = 2 * len(after) > len(before)
        return period

    @property
    def ceiling(self) -> int | None:
        """The lowest rung that did not hold; None: none so far."""
        return min((rung for rung in self.tried if self.verdict(rung) == "breached"), default=None)

    @property
    def floor(self) -> int | None:
        """The highest rung below the ceiling that held, may hold or was passed; None: there is none."""
        return max(self._below_ceiling(), default=None)

    @property
    def found(self) -> int | None:
        """The highest rung below the ceiling that held, a confirmed one if there is any; None: there is none."""
        held = [rung for rung in self._below_ceiling() if self.verdict(rung) == "held"]
        return max([rung for rung in held if self.is_confirmed(rung)] or held, default=None)

    @property
    def broken(self) -> int | None:
        """The lowest rung above the one that was found that did not hold; None: there is none."""
        found = self.found
        above = (rung for rung in self.tried if found is None or rung > found)
        return min((rung for rung in above if self.verdict(rung) in ("breached", "open")), default=None)

    @property
    def converged(self) -> bool:
        """True when the level that was found is confirmed, and the next one did not hold or is not allowed."""
        floor, ceiling = self.floor, self.ceiling
        if floor is None:
            return ceiling is not None
        return self.is_confirmed(floor) and floor + 1 == (self.ladder.top + 1 if ceiling is None else ceiling)

    def verdict(self, rung: int) -> str:
        """Return what all periods of a rung say together."""
        return self.tried[rung].verdict(self._best_below(rung))

    def why(self, rung: int) -> str:
        """Return what all periods of a rung together break; empty: nothing."""
        return self.tried[rung].why(self._best_below(rung))

    def is_confirmed(self, rung: int) -> bool:
        """Tell whether a rung held over two whole periods."""
        return self.tried[rung].confirmed(self._best_below(rung))

    def wanted(self, now: int) -> int | None:
        """Return the rung to assess next; None: nothing is left open.

        Args:
            now: the rung that is assessed: where two are left to decide, it comes first, since staying costs nothing.
        """
        floor, ceiling = self.floor, self.ceiling
        if floor is None:
            return 0 if ceiling is None or self._is_new(ceiling) else None
        if ceiling is None and floor < self.ladder.top:
            return ramp(self.ladder, floor, self._used(floor))
        if ceiling is not None and ceiling - floor > 1:
            return aim(floor, ceiling, (self._used(floor), self._used(ceiling)), halve=self._halve)
        undecided = [] if self.is_confirmed(floor) else [floor]
        if ceiling is not None and self._is_new(ceiling):
            undecided.append(ceiling)
        return now if now in undecided else next(iter(undecided), None)

    @property
    def _gap(self) -> range | None:
        """The rungs between floor and ceiling."""
        floor, ceiling = self.floor, self.ceiling
        return None if floor is None or ceiling is None else range(floor + 1, ceiling)

    def _below_ceiling(self) -> list[int]:
        ceiling = self.ceiling
        return [rung for rung in self.tried if ceiling is None or rung < ceiling]

    def _best_below(self, rung: int) -> float | None:
        """Return the output tok/s of the best lower rung whose every period held."""
        held = (one.pooled.output_tok_s for below, one in self.tried.items() if below < rung and not one.breached)
        return max((speed for speed in held if speed is not None), default=None)

    def _used(self, rung: int) -> float | None:
        return used(self.asked, self.tried[rung].pooled)

    def _is_new(self, rung: int) -> bool:
        return len(self.tried[rung].periods) == 1
