"""Prompts by token ids that nobody sent before, and what one engine counted of them."""

from __future__ import annotations

import random

from pytest_kvcache.model import Tokens

_seeds = iter(range(10**6))


def fresh(count: int) -> list[int]:
    """Return token ids that nobody sent before."""
    seed = next(_seeds)
    rest = random.Random(seed)
    return [300 + seed, *(rest.randrange(300, 4000) for _ in range(count - 1))]


def total(found: dict[str, Tokens]) -> Tokens:
    """Return the tokens of the only engine."""
    (tokens,) = found.values()
    return tokens
