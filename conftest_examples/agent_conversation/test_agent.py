"""The agent's prompts stay cacheable turn by turn, one conversation after the other and all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def chat(kv_workload: Any) -> Any:
    return kv_workload.conversation(
        system=HERE / "system_prompt.txt", tools=HERE / "tools.json", turns=6, sessions=3, max_tokens=48
    )


@pytest.mark.hit_rate(min=0.9, skip_turns=1)  # the first turn of a conversation has nothing to hit yet
def test_every_turn_reuses_the_one_before(kv: Any, chat: Any) -> None:
    turns = kv.run(chat, concurrency=1).turns
    assert turns.cached_tokens_never_drop()
    assert turns.skip(1).grows()


@pytest.mark.hit_rate(min=0.9, skip_turns=1)
def test_conversations_at_once_do_not_push_each_other_out(kv: Any, chat: Any) -> None:
    one_by_one = kv.run(chat, concurrency=1)
    at_once = kv.run(chat, concurrency=3)
    assert at_once.turns.cached_tokens_never_drop()
    assert at_once.turns.skip(1).hit_rate == pytest.approx(one_by_one.turns.skip(1).hit_rate, abs=0.02)


def test_the_prompts_themselves_are_stable(kv_workload: Any) -> None:
    """Without any endpoint: nothing in the system prompt changes from request to request."""
    system = (HERE / "system_prompt.txt").read_text(encoding="utf-8")
    assert not kv_workload.lint([{"role": "system", "content": system}, {"role": "user", "content": "Hello"}])
