"""Run it with ``pytest conftest_examples/first_test --kv-endpoint=sim``: one check passes, one fails on purpose."""

from __future__ import annotations

import pytest


@pytest.mark.hit_rate(target=0.7, tol=0.02)
def test_prompts_stay_cacheable(kv, good_agent):
    kv.run(good_agent, concurrency=8)


@pytest.mark.hit_rate(target=0.7, tol=0.02)
def test_a_clock_at_the_start_is_caught(kv, clock_first_agent):
    kv.run(clock_first_agent, concurrency=8)  # fails on purpose: this is what a regression looks like
