"""Tokens of engines and tiers to plain records: each by itself, and of all summed engines together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..model import Measurement, Tokens
from .plain import Record
from .text import visible


def engines(several: Iterable[Mapping[str, Tokens]]) -> Record:
    """Return the tokens of each engine over several windows, by name."""
    return {visible(name): _tokens(tokens) for name, tokens in sorted(_added(several).items())}


def tiers(several: Iterable[Mapping[str, Tokens]]) -> Record:
    """Return the hits of each tier over all engines; they share one denominator."""
    summed = _added(several)
    if not summed:
        return {}
    query = sum(tokens.query for tokens in summed.values())
    named = dict.fromkeys(tier for tokens in summed.values() for tier in tokens.hits)
    found = {}
    for tier in dict.fromkeys(["local", *named, "external"]):
        hits = [hit for hit in (tokens.of(tier) for tokens in summed.values()) if hit is not None]
        hit = sum(hits) if hits else None
        found[visible(tier)] = {"hit_tokens": hit, "hit_rate": _share(hit, query)}
    return found


def simulated_cache(measurements: Sequence[Measurement]) -> Record | None:
    """Return the size of the simulated cache; None when it is not known, or not the same in all runs."""
    sizes = {(m.simulated.capacity, m.simulated.block_size) if m.simulated else None for m in measurements}
    size = sizes.pop() if len(sizes) == 1 else None
    return None if size is None else {"capacity_tokens": size[0], "block_size": size[1]}


def _added(several: Iterable[Mapping[str, Tokens]]) -> dict[str, Tokens]:
    sums: dict[str, Tokens] = {}
    for by_name in several:
        for name, tokens in by_name.items():
            sums[name] = sums[name] + tokens if name in sums else tokens
    return sums


def _tokens(tokens: Tokens) -> Record:
    return {
        "query_tokens": tokens.query,
        "hit_tokens": tokens.hit,
        "hit_rate": _share(tokens.hit, tokens.query),
        "local_hit_tokens": tokens.local_hit,
        "external_hit_tokens": tokens.external_hit,
        "tiers": {visible(tier): hit for tier, hit in tokens.hits.items()},
        "prompt_tokens": tokens.prompt,
    }


def _share(hit: int | None, query: int) -> float | None:
    return None if hit is None or query == 0 else hit / query
