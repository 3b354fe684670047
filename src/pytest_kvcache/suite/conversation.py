"""Does every turn of a conversation find the turns before it?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ..endpoint import Endpoint
from ..plugin.runner import Runner
from ..plugin.settings import Settings
from .asked import Conversation
from .running import given, target_at

if TYPE_CHECKING:
    from ..turns import Turn
    from ..workloads import WorkloadBuilder

_SENTENCE = "You repair bicycles and answer in one short sentence. "
_SENTENCES = 120  # some 1,300 tokens: hosted caches begin at 1,024
_AROUND = 100  # tokens of a turn beside its answer, at most: what the user says, and the template


@pytest.fixture
def asked(kv_settings: Settings) -> Conversation:
    """What ``--kv-set`` asks."""
    return given(kv_settings, Conversation)


def marks(asked: Conversation, _test: str) -> Iterator[pytest.MarkDecorator]:
    """How a test of this file is judged."""
    yield pytest.mark.hit_rate(min=asked.min_rate, skip_turns=1)


def test_conversation(kv: Runner, kv_workload: WorkloadBuilder, kv_endpoint: Endpoint, asked: Conversation) -> None:
    """From the second turn on, enough of every prompt is read from the cache, and never less than the turn before."""
    workload = kv_workload.conversation(
        asked.system_file or asked.system or _system(target_at(kv_endpoint).facts.max_model_len, asked),
        asked.tools,
        turns=asked.turns,
        sessions=asked.sessions,
        max_tokens=asked.max_tokens,
        think_time=asked.settle,
    )
    result = kv.run(workload, concurrency=asked.concurrency, reset=asked.reset)
    if result.verdict.status != "pass":
        return  # the mark says why, and better
    turns = result.turns
    for check in (turns.cached_tokens_never_drop(), turns.never_zero()):
        if not check:
            pytest.fail(check.sentence, pytrace=False)
    for turn in turns.skip(1):
        if _rate(turn) < asked.min_rate:
            pytest.fail(
                f"{turn.place}: {turn.cached or 0:,} of {turn.prompt or 0:,} tokens cached ({_rate(turn):.3f}), wanted"
                f" at least {asked.min_rate:.3f}",
                pytrace=False,
            )
    if turns.missing:
        pytest.fail(f"{turns.missing:,} turns never came, because their conversation ended early", pytrace=False)


def _system(longest: int | None, asked: Conversation) -> str:
    """Return a system prompt that leaves room for the turns, even where each character is a token."""
    if longest is None:
        return _SENTENCE * _SENTENCES
    room = longest - asked.turns * (asked.max_tokens + _AROUND)
    return _SENTENCE * max(1, min(_SENTENCES, room // len(_SENTENCE)))


def _rate(turn: Turn) -> float:
    return turn.hit_rate if turn.hit_rate is not None else 0.0
