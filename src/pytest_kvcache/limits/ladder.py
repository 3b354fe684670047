"""Which levels may be tried? Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ..checks import is_whole
from ..errors import ConfigurationError
from ..model import Level

MOST = 100_000  # rungs; more is a step in the wrong unit


@dataclass(frozen=True, slots=True)
class Ladder:
    """Levels in ascending order, the allowed maximum last.

    Attributes:
        levels: the rungs.
    """

    levels: Sequence[Level]

    @classmethod
    def of_concurrency(cls, start: int, step: int, limit: int) -> Ladder:
        """Return ``start``, ``start + step``, ... and ``limit``.

        Raises:
            ConfigurationError: these are no levels.
        """
        if not all(map(is_whole, (start, step, limit))):
            raise ConfigurationError(
                f"kv.sustain(start={start!r}, step={step!r}, limit={limit!r}): expected whole numbers of sessions"
            )
        if start < 1 or step < 1:
            raise ConfigurationError(
                f"kv.sustain(start={start}, step={step}): expected at least 1 session at a time and steps of 1 or more"
            )
        _check_limit("sustain", start, limit)
        _check_number("sustain", (limit - start) / step)
        return cls([*(Level(concurrency=count) for count in range(start, limit, step)), Level(concurrency=limit)])

    @classmethod
    def of_rate(cls, start: float, step: float, limit: float) -> Ladder:
        """Return ``start``, each rate ``1 + step`` times the one below, and ``limit``, sessions per second.

        Raises:
            ConfigurationError: these are no levels.
        """
        if not all(isinstance(rate, (int, float)) and not isinstance(rate, bool) for rate in (start, step, limit)):
            raise ConfigurationError(
                f"kv.sustain_rate(start={start!r}, step={step!r}, limit={limit!r}): expected numbers"
            )
        if not 0 < start < float("inf") or not 0 < step < float("inf"):
            raise ConfigurationError(
                f"kv.sustain_rate(start={start}, step={step}): expected sessions per second, above 0, and the share by "
                f"which each level is above the one before, such as 0.1"
            )
        _check_limit("sustain_rate", start, limit)
        rates = [start]
        while (rate := start * (1 + step) ** len(rates)) < limit:
            rates.append(rate)
            _check_number("sustain_rate", len(rates))
        return cls([Level(rate=rate) for rate in (rates if rates[-1] == limit else [*rates, limit])])

    def below(self, value: float) -> int:
        """Return the highest rung that is not above a value; the lowest when all are."""
        return max(0, bisect_right(self.levels, value, key=_value) - 1)

    @property
    def top(self) -> int:
        """The highest rung."""
        return len(self.levels) - 1

    def __getitem__(self, rung: int) -> Level:
        return self.levels[rung]


def _value(level: Level) -> float:
    return level.value


def _check_limit(what: str, start: float, limit: float) -> None:
    if not start <= limit < float("inf"):
        raise ConfigurationError(
            f"kv.{what}(start={start}, limit={limit}): expected a limit that is not below the start"
        )


def _check_number(what: str, rungs: float) -> None:
    if rungs > MOST:
        raise ConfigurationError(f"kv.{what}: more than {MOST:,} levels from start to limit; take a larger step")
