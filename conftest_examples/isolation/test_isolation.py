"""What must separate caches does, and a cached answer is the answer."""

from __future__ import annotations

from typing import Any


def test_a_salt_separates_tenants(kv: Any) -> None:
    kv.probe.isolation(by="cache_salt")


def test_a_warm_answer_is_the_cold_one(kv: Any) -> None:
    kv.probe.equivalence()


def test_the_cache_gives_credit_by_the_block_that_it_tells(kv: Any) -> None:
    grain = kv.probe.granularity()
    assert grain.step == grain.told
