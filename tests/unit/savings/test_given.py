"""A file of prices, and its mistakes."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from pytest_kvcache.errors import ConfigurationError
from pytest_kvcache.savings.given import given
from pytest_kvcache.savings.prices import Prices, Rates, Tier

D = Decimal
FILE = """
currency = "EUR"

[models."gemini-*"]
input = 1.25
cached_input = "0.125"
output = 10

[[models."gemini-*".tiers]]
above = 200_000
input = 2.50
cached_input = 0.25

[[models."gemini-*".tiers]]
above = 500_000
output = 20

[models."*"]
input = 0
currency = "CNY"
"""


def read(tmp_path: Path, text: str) -> dict[str, Prices]:
    path = tmp_path / "p.toml"
    path.write_text(text, encoding="utf-8")
    return dict(given(path, "--kv-prices").models)


def test_prices_are_exact_and_in_order(tmp_path: Path) -> None:
    longer = Rates(D("2.50"), D("0.25"), None, D(10))
    longest = Rates(D("2.50"), D("0.25"), None, D(20))
    assert list(read(tmp_path, FILE).items()) == [
        (
            "gemini-*",
            Prices(
                Rates(D("1.25"), D("0.125"), None, D(10)),
                (Tier(200_000, longer), Tier(500_000, longest)),
                "EUR",
                "p.toml (gemini-*)",
            ),
        ),
        ("*", Prices(Rates(D(0)), (), "CNY", "p.toml (*)")),
    ]


def test_the_guide_shows_a_file_that_can_be_read(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "cost.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    found = read(tmp_path, shown)
    assert {name: prices.at(200_001).input for name, prices in found.items()} == {
        "gpt-4o-mini*": D("0.15"),
        "claude-*": 3,
        "gemini-*": D("2.5"),
    }


def test_dollars_unless_said_otherwise(tmp_path: Path) -> None:
    assert read(tmp_path, "[models.a]\ninput = 0.1")["a"].currency == "USD"
    assert read(tmp_path, "[models.a]\ninput = 0.1")["a"].rates.input == D("0.1")  # not the nearest float


MODEL = "[models.a]\n"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", "models"),
        ("[models]", "models"),
        (MODEL, "models.a.input"),
        (MODEL + "input = -1", "models.a.input"),
        (MODEL + "input = nan", "models.a.input"),
        (MODEL + "input = inf", "models.a.input"),
        (MODEL + 'input = "$2"', "models.a.input"),
        (MODEL + "input = true", "models.a.input"),
        (MODEL + "input = [1]", "models.a.input"),
        (MODEL + "input = 1e-30", "models.a.input"),
        (MODEL + "input = 1\ncached = 1", "models.a.cached"),
        (MODEL + 'input = 1\ncurrency = "$"', "models.a.currency"),
        ('currency = "eur"\n' + MODEL + "input = 1", "currency"),
        (MODEL + "input = 1\ntiers = [{above = 0}]", "models.a.tiers.0.above"),
        (MODEL + "input = 1\ntiers = [{input = 2}]", "models.a.tiers.0.above"),
        (MODEL + "input = 1\ntiers = [{above = 1.5}]", "models.a.tiers.0.above"),
        (MODEL + "input = 1\ntiers = [{above = 9}, {above = 9}]", "models.a.tiers"),
        ("input = 1", "models"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read(tmp_path, text)
    assert f"--kv-prices: {tmp_path / 'p.toml'}: {key}: " in str(error.value)
    assert "input, cached_input, cache_write and output per million tokens" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"not TOML \("):
        read(tmp_path, "a = ")
    with pytest.raises(ConfigurationError, match=r"none\.toml cannot be read \(No such file or directory\)"):
        given(tmp_path / "none.toml", "--kv-prices")
    (tmp_path / "b.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="not TOML"):
        given(tmp_path / "b.toml", "--kv-prices")
