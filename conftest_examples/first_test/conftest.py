"""Two kinds of traffic, described once and used by the tests of this folder."""

from __future__ import annotations

import pytest


@pytest.fixture
def good_agent(kv_workload):
    """Forty prompts of 2,048 tokens in two tenants; each tenant's prompts begin with the same 1,434 or so tokens."""
    return kv_workload.shared_prefix(requests=40, input_len=2048, hit_rate=0.7, prefixes=2, output_len=32)


@pytest.fixture
def clock_first_agent(kv_workload):
    """The same prompts from an agent that writes the time at the very start: nothing after it can be reused."""
    return kv_workload.shared_prefix(requests=40, input_len=2048, prefix_len=0, output_len=32)
