"""Entries by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_kvcache.regression.values import Entry, Group

CONTEXT: Mapping[str, str | int | bool | None] = {
    "engine": "vllm",
    "variant": "v1",
    "engine_version": "0.31.0",
    "model": "m",
    "block_size": 16,
    "simulated": False,
    "counted": "tokens by counters",
    "workload": "shared_prefix: 8 x 256 tokens",
    "sent": "0123456789ab",
}


def group(where: str = "", **values: Any) -> Group:
    return Group(where, len(next(iter(values.values()))), values)


def rate(hit: int = 700, query: int = 1000, where: str = "") -> Group:
    return group(where, hit_rate=[hit / query], hit_tokens=[hit], query_tokens=[query])


def entry(*groups: Group, **context: Any) -> Entry:
    return Entry({**CONTEXT, **context}, groups)
