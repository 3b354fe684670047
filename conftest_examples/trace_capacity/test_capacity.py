"""How much KV cache does our traffic need, and does the server make of it what the simulation says?

Without an endpoint the first three tests answer; with one, or with ``--kv-endpoint=sim``, the traffic is sent as well.
"""

from __future__ import annotations

from typing import Any

import pytest

CACHE_GIB = 3.0  # what the engine has left for KV: vLLM logs it at its start
WANTED = 0.75


def test_the_cache_is_large_enough(curve: Any) -> None:
    assert curve.hit_rate(gib=CACHE_GIB) >= WANTED


def test_what_we_promise_fits_with_room_to_spare(curve: Any) -> None:
    needed = curve.budget_for(hit_rate=WANTED)
    assert needed.gib is not None
    assert needed.gib <= 0.8 * CACHE_GIB, f"{WANTED} needs {needed}"


def test_a_larger_cache_would_not_pay(curve: Any) -> None:
    assert curve.knee(within=0.01).gib <= CACHE_GIB, curve
    assert curve.gain_per_gib(gib=CACHE_GIB) <= 0.01


@pytest.mark.hit_rate(target="simulated", tol=0.03)
def test_the_server_reuses_what_a_cache_of_its_size_would(kv: Any, traffic: Any) -> None:
    """Blocks of 16 tokens for 256, and 300 seconds of the traffic in one; leave both out to load a real server."""
    result = kv.replay(traffic.scaled(16), speed=300)
    assert result.arrival.p95 < 1.0  # seconds behind the schedule: the server, or this machine, kept up with it
