"""What does an endpoint's list of models say about prices? Foreign data: whatever it is, it becomes prices or a note.

Three forms are in use, all in USD per token, as decimal strings or JSON numbers:

* ``pricing: {prompt, completion, input_cache_read, input_cache_write}`` of OpenRouter's models; what it asks of
  providers has the same names with an ``s`` at the end of the last two, and a ``$`` before some numbers. ``overrides``
  with ``min_prompt_tokens`` are other prices of longer prompts. ``-1`` is a price that varies.
* ``pricing: {input, output, input_cache_read, input_cache_write}`` of Vercel's AI Gateway, with ``input_tiers``, ...
* ``input_price``, ``output_price``, ``cached_price``, ``caching_price`` of Requesty, which stand in the entry itself;
  its ``pricing`` is a list of bands with ``prompt_tokens_threshold``.

Others list prices of a million tokens under the same names. A price that would be above 1,000 a million is therefore
not believed. Listings write 0 for what is not charged by itself: beside a price of input that says nothing of a cached
token, and of a written one that it is billed as input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError, model_validator

from .prices import MILLION, Prices, Rates, Tier

ORIGIN = "the endpoint's list of models"
_NUMBER = re.compile(r"\$?[0-9]{1,9}(\.[0-9]{1,30})?([eE]-?[0-9]{1,2})?")
_MOST = Decimal(1000)  # a million tokens
_LEAST_DIGIT = -24  # of a price of a million tokens


def _price(value: object) -> Decimal | None:
    """Return the price of a million tokens. The messages name nothing of the value, which may hold anything."""
    if value is None:
        return None
    text = str(value).strip() if isinstance(value, (str, int, float)) else ""
    if text.startswith("-") and _NUMBER.fullmatch(text[1:]):
        raise ValueError("is below 0, which stands for a price that varies")
    if not _NUMBER.fullmatch(text):
        raise ValueError("is no price")
    price = Decimal(text.removeprefix("$")).scaleb(MILLION)
    if price > _MOST:
        raise ValueError(f"would be more than {_MOST:,} a million tokens: is it the price of a token?")
    if price.normalize().as_tuple().exponent < _LEAST_DIGIT:  # type: ignore[operator] # it is finite
        raise ValueError("has too many digits")
    return price


_Price = Annotated[Decimal | None, BeforeValidator(_price)]
_Tokens = Annotated[int, Field(strict=True, ge=0, lt=1 << 53)]


def _named(*names: str) -> Any:
    return Field(default=None, validation_alias=AliasChoices(*names))


class _Rates(BaseModel):
    input: _Price = _named("prompt", "input", "input_price")
    cached_input: _Price = _named("input_cache_read", "input_cache_reads", "cached_price")
    cache_write: _Price = _named("input_cache_write", "input_cache_writes", "caching_price")
    output: _Price = _named("completion", "output", "output_price")

    @property
    def rates(self) -> Rates:
        read = None if self.input and not self.cached_input else self.cached_input
        write = None if self.input and not self.cache_write else self.cache_write
        return Rates(self.input, read, write, self.output)


class _Override(_Rates):
    min_prompt_tokens: _Tokens

    @model_validator(mode="before")
    @classmethod
    def _of_any_time(cls, table: Any) -> Any:
        if isinstance(table, dict) and any(str(name).startswith("utc_") for name in table):
            raise ValueError("changes with the time of day")
        return table


class _Band(_Rates):
    prompt_tokens_threshold: _Tokens = 0


class _Step(BaseModel):
    cost: _Price
    min: _Tokens = 0


class _Pricing(_Rates):
    overrides: list[_Override] = Field(default=[], max_length=100)
    bands: list[_Band] = Field(default=[], max_length=100)
    input_tiers: list[_Step] = Field(default=[], max_length=100)
    output_tiers: list[_Step] = Field(default=[], max_length=100)
    input_cache_read_tiers: list[_Step] = Field(default=[], max_length=100)
    input_cache_write_tiers: list[_Step] = Field(default=[], max_length=100)

    def tiers(self) -> Iterator[Tier]:
        """Yield what holds for longer prompts."""
        for override in self.overrides:
            yield Tier(max(0, override.min_prompt_tokens - 1), override.rates)
        for band in self.bands:
            yield Tier(band.prompt_tokens_threshold, band.rates)
        steps = {
            "input": self.input_tiers,
            "cached_input": self.input_cache_read_tiers,
            "cache_write": self.input_cache_write_tiers,
            "output": self.output_tiers,
        }
        for start in {step.min for several in steps.values() for step in several}:
            told = {
                name: max((s for s in several if s.min <= start), key=lambda s: s.min, default=None)
                for name, several in steps.items()
            }
            yield Tier(start, Rates(**{name: step.cost for name, step in told.items() if step is not None}))


def listed(entry: Mapping[str, Any]) -> Prices | None:
    """Return the prices that an entry of a list of models tells; None when it tells none."""
    table = entry.get("pricing")
    if entry.get("input_price") is not None:
        own = {name: entry.get(name) for name in ("input_price", "output_price", "cached_price", "caching_price")}
        table = own | {"bands": table or []}
    if not table:
        return None
    try:
        pricing = _Pricing.model_validate(table)
    except ValidationError as error:
        return Prices(origin=ORIGIN, problem=f"its pricing is not understood: {_why(error)}")
    tiers: list[Tier] = []
    rates = pricing.rates
    for tier in sorted(pricing.tiers(), key=lambda tier: tier.above):
        if tier.above == 0:
            rates = tier.rates.over(rates)
        else:
            tiers.append(Tier(tier.above, tier.rates.over(tiers[-1].rates if tiers else rates)))
    return Prices(rates, tuple(tiers), origin=ORIGIN)


def _why(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where} {first['msg'].removeprefix('Value error, ')}".strip()
