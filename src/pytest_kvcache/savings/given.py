"""What do tokens cost, as a file of the user's says? ``--kv-prices=FILE``, TOML."""

from __future__ import annotations

import sys
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from ..errors import ConfigurationError
from .prices import PriceList, Prices, Rates, Tier

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def _price(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (str, int, Decimal)):
        raise ValueError("expected the price of a million tokens, such as 2.50")  # noqa: TRY004 - what pydantic takes
    return value


_Price = Annotated[Decimal, BeforeValidator(_price), Field(ge=0, max_digits=24, decimal_places=18, allow_inf_nan=False)]
_Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Tier(_Table):
    above: Annotated[int, Field(strict=True, ge=1)]
    input: _Price | None = None
    cached_input: _Price | None = None
    cache_write: _Price | None = None
    output: _Price | None = None

    @property
    def rates(self) -> Rates:
        return Rates(self.input, self.cached_input, self.cache_write, self.output)


class _Model(_Table):
    input: _Price
    cached_input: _Price | None = None
    cache_write: _Price | None = None
    output: _Price | None = None
    currency: _Currency | None = None
    tiers: list[_Tier] = []

    @field_validator("tiers")
    @classmethod
    def _ascending(cls, tiers: list[_Tier]) -> list[_Tier]:
        if any(longer.above <= shorter.above for shorter, longer in pairwise(tiers)):
            raise ValueError("expected each `above` to be more than the one before it")
        return tiers

    def prices(self, currency: str, origin: str) -> Prices:
        """Return them as they are used: a tier has the prices before it where it tells none."""
        rates = Rates(self.input, self.cached_input, self.cache_write, self.output)
        tiers: list[Tier] = []
        for tier in self.tiers:
            tiers.append(Tier(tier.above, tier.rates.over(tiers[-1].rates if tiers else rates)))
        return Prices(rates, tuple(tiers), self.currency or currency, origin)


class _File(_Table):
    currency: _Currency = "USD"
    models: Annotated[dict[str, _Model], Field(min_length=1)]


def given(path: Path, origin: str) -> PriceList:
    """Return the prices of a file.

    Args:
        path: of the file.
        origin: who named it, for errors.

    Raises:
        ConfigurationError: it cannot be read; names the key.
    """
    where = f"{origin}: {path}"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
        file = _File.model_validate(table)
    except OSError as error:
        raise ConfigurationError(f"{where} cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{where}: not TOML ({error})") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ConfigurationError(
            f'{where}: {key}: {first["msg"].removeprefix("Value error, ")}; expected [models."PATTERN"] tables with'
            " input, cached_input, cache_write and output per million tokens, currency and tiers"
        ) from None
    return PriceList(
        tuple(
            (pattern, model.prices(file.currency, f"{path.name} ({pattern})")) for pattern, model in file.models.items()
        )
    )
