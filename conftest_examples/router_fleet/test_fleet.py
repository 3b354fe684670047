"""What does the router make of the engines' caches? A prompt hits only on an engine that was sent its prefix."""

from __future__ import annotations

from typing import Any

import pytest


def traffic(kv_workload: Any) -> Any:
    """Thirteen prefixes in turn, four times each: with no usual number of engines does turn meet turn by accident."""
    return kv_workload.shared_prefix(
        requests=52, input_len=1040, prefix_len=1024, prefixes=13, output_len=4, prefill=False
    )


@pytest.mark.hit_rate
def test_a_prefix_stays_on_its_engine(kv: Any, kv_workload: Any) -> None:
    """The fleet reuses what one cache would: no prefix is computed twice. ``KV308`` tells what scattering costs."""
    kv.run(traffic(kv_workload), concurrency=1)


def test_no_engine_is_left_out(kv: Any, kv_workload: Any, engines: int) -> None:
    """Prefixes of equal weight come to engines of about equal load, by the engines' own counters."""
    result = kv.run(traffic(kv_workload), concurrency=1)
    shares = {name: tokens.query / result.query_tokens for name, tokens in result.engines.items()}
    assert len(shares) == engines
    assert max(shares.values()) <= 2 / engines, shares


@pytest.mark.hit_rate(min=0.5, skip_turns=1)
def test_a_conversation_finds_its_history(kv: Any, kv_workload: Any) -> None:
    """Every turn comes to the engine that has the turns before it."""
    chat = kv_workload.conversation("You repair bicycles and answer briefly. " * 40, turns=4, sessions=4, max_tokens=16)
    assert kv.run(chat, concurrency=1).turns.cached_tokens_never_drop()
