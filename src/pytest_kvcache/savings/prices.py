"""What does a token cost? Prices of a model, exact, and what an amount of tokens comes to. Pure.

A price is that of a million tokens, as providers write it. One that is missing is None: not told, and never 0.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from decimal import Context, Decimal, localcontext
from fnmatch import fnmatchcase

MILLION = 6  # digits
_EXACT = Context(prec=200)  # more than any sum of these needs: nothing is rounded


@dataclass(frozen=True, slots=True)
class Billed:
    """Tokens as providers bill them; they add up.

    Attributes:
        prompt: all of it, cached and written tokens included.
        cached: of the prompt, read from the cache.
        written: of the prompt, written to the cache where that is told.
        output: generated.
    """

    prompt: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0

    def __add__(self, other: Billed) -> Billed:
        return Billed(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices of a million tokens; None: not told.

    Attributes:
        input: of a prompt, computed.
        cached_input: read from the cache.
        cache_write: written to the cache; None: like ``input``, as providers without a price of its own bill it.
        output: generated.
    """

    input: Decimal | None = None
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None
    output: Decimal | None = None

    def saved(self, tokens: Billed) -> Decimal | None:
        """Return what reading from a cache saved less what writing to it cost more; below 0 where that was more.

        hit tokens x (input - cached input) - written tokens x (cache write - input)
        """
        if self.input is None or (self.cached_input is None and tokens.cached):
            return None
        with localcontext(_EXACT):
            read = tokens.cached * (self.input - (self.cached_input or 0))
            more = tokens.written * (self.cache_write - self.input) if self.cache_write is not None else 0
            return _amount(read - more)

    def cost(self, tokens: Billed) -> Decimal | None:
        """Return what the tokens cost."""
        computed = tokens.prompt - tokens.cached - tokens.written
        parts = [
            (computed, self.input),
            (tokens.cached, self.cached_input),
            (tokens.written, self.input if self.cache_write is None else self.cache_write),
            (tokens.output, self.output),
        ]
        if computed < 0 or any(count and price is None for count, price in parts):
            return None
        with localcontext(_EXACT):
            return _amount(sum((count * (price or Decimal(0)) for count, price in parts), Decimal(0)))

    def over(self, base: Rates) -> Rates:
        """Return these prices, with those of ``base`` where none is told here."""
        told = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        return replace(base, **told)


def _amount(millionths: Decimal) -> Decimal:
    return millionths.scaleb(-MILLION) + 0  # no -0


def total(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum."""
    with localcontext(_EXACT):
        return sum(amounts, Decimal(0))


def plain(amount: Decimal) -> str:
    """Return an amount with all of its digits and no exponent."""
    with localcontext(_EXACT):
        return format(amount.normalize(), "f")


@dataclass(frozen=True, slots=True)
class Tier:
    """Prices of a request whose prompt is longer than ``above`` tokens: of all of its tokens."""

    above: int
    rates: Rates


@dataclass(frozen=True, slots=True)
class Prices:
    """What the tokens of a model cost.

    Attributes:
        rates: of every prompt, or of those that no tier is for.
        tiers: of longer prompts, the shortest first.
        currency: ISO 4217.
        origin: who says so, one phrase.
        problem: why there are none, though somebody told some; empty: there are.
    """

    rates: Rates = Rates()
    tiers: tuple[Tier, ...] = ()
    currency: str = "USD"
    origin: str = ""
    problem: str = ""

    def at(self, prompt: int) -> Rates:
        """Return what holds for a prompt of so many tokens."""
        reached = bisect_left(self.tiers, prompt, key=lambda tier: tier.above)
        return self.tiers[reached - 1].rates if reached else self.rates


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices by patterns of model names, in the order in which they are tried."""

    models: tuple[tuple[str, Prices], ...]

    def of(self, model: str) -> Prices | None:
        """Return the prices of the first pattern that fits a model; None without one."""
        return next((prices for pattern, prices in self.models if fnmatchcase(model, pattern)), None)
