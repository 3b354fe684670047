"""A conversation of two files against a hosted API: every turn after the first finds the earlier ones cached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


@pytest.mark.hit_rate(min=0.7, source="usage", skip_turns=1)
def test_the_agent_stays_cached(kv: Any, kv_workload: Any) -> None:
    chat = kv_workload.conversation(
        system=HERE / "system_prompt.txt", tools=HERE / "tools.json", turns=6, max_tokens=32
    )
    result = kv.run(chat, retries=5)  # a rate limit is waited for as long as the provider asks, and told
    assert result.turns.cached_tokens_never_drop()
