"""Exporters spell the same samples differently: a recorded page in each spelling gives the same tokens."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from pytest_kvcache.engines import shipped
from pytest_kvcache.engines.counters import tokens_by_engine
from pytest_kvcache.model import Tokens
from pytest_kvcache.scrape import Snapshot
from pytest_kvcache.scrape.page import parse
from pytest_kvcache.scrape.snapshot import spellings

from .pages import DATA, reader, recognised, snapshot

SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda name: name,
    "without _total": lambda name: name.removesuffix("_total"),
    "_ for :": lambda name: name.replace(":", "_"),
    "_ for :, without _total": lambda name: name.replace(":", "_").removesuffix("_total"),
    "ray_": lambda name: f"ray_{name}".replace(":", "_"),
    "ray_, without _total": lambda name: f"ray_{name}".replace(":", "_").removesuffix("_total"),
}


def respelled(name: str, how: Callable[[str], str]) -> str:
    """A recorded page without its comments, every name of the engine's spelled otherwise."""
    lines = (DATA / f"{name}.prom").read_text().splitlines()
    spelled = re.compile(r"^(vllm|sglang|llamacpp):\w+")
    return "".join(f"{spelled.sub(lambda found: how(found[0]), line)}\n" for line in lines if not line.startswith("#"))


@pytest.mark.parametrize("how", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize(
    ("profile", "variant", "before", "after", "query", "hit"),
    [
        ("vllm", "v1-admission", "vllm-0.32.0/01_before", "vllm-0.32.0/03_after_identical", 1602, 768),
        ("sglang", "effective", "sglang-0.5.23/01_before", "sglang-0.5.23/09_after_all", 49308, 17490),
        ("llamacpp", "cached", "llamacpp-b11434/01_before", "llamacpp-b11434/13_after_all", 36070, 18601),
    ],
)
def test_spellings(
    profile: str, variant: str, before: str, after: str, query: int, hit: int, how: Callable[[str], str]
) -> None:
    first, last = (snapshot(respelled(name, how), name) for name in (before, after))
    assert recognised(last) == profile
    found = tokens_by_engine(reader(profile, variant), first, last)["0"]
    assert (found.query, found.hit) == (query, hit)


def test_a_created_sample_is_never_a_counter() -> None:
    page = snapshot('vllm:prefix_cache_hits_total{engine="0"} 5\nvllm:prefix_cache_hits_created{engine="0"} 1.7e+09\n')
    assert page.series("vllm:prefix_cache_hits_total") == {(("engine", "0"),): 5.0}


def test_a_renamed_prefix_is_named_by_the_source() -> None:
    vllm = shipped().get("vllm")
    names = spellings(vllm.samples(), renamed=("vllm:", "aibrix:"))

    def page(queries: int, hits: int) -> Snapshot:
        text = f"aibrix:prefix_cache_queries_total {queries}\naibrix:prefix_cache_hits_total {hits}\n"
        return Snapshot(0.0, parse(text + "aibrix:external_prefix_cache_hits_total 0\n", names)[0])

    assert tokens_by_engine(reader(vllm, "v1-admission"), page(0, 0), page(801, 768)) == {
        "0": Tokens(query=801, hits={"local": 768, "external": 0})
    }
