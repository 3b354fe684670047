"""A recorded trace through a running server: what it reuses is what the trace's blocks say, to the token.

Eight coding agents: 163 requests, up to 130,000 tokens each, most of them the next turn of their session. Every row has
tokens without a block at its end. Blocks of 64 tokens are sent as 4, so that it takes a moment.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.experiment import Plan, run
from pytest_kvcache.model import Measurement, Row, Waterfall
from pytest_kvcache.pace import Pace
from pytest_kvcache.traces import Trace, open_trace
from pytest_kvcache.workloads.trace_replay import TraceReplay

Start = Callable[..., str]
DATA = Path(__file__).parents[1] / "data/traces"
AGENTS, CHATS = "agentic_8_sessions_block64.jsonl.gz", "mooncake_conversation_first1000.jsonl"


@cache
def trace(name: str = AGENTS, block: int = 4, rows: int = 1000) -> Trace:
    return open_trace(DATA / name, block_size=512 if name == CHATS else None).first(rows).scaled(block)


def replay(url: str, given: Trace, concurrency: int | None = 1, nonce: str = "replay", **how: Any) -> Measurement:
    plan = Plan(nonce=nonce, pace=Pace(concurrency))
    return asyncio.run(run(Endpoint(url), TraceReplay(given, **how), plan))


def reused(rows: Iterable[Row], trace_block: int, block: int) -> list[int]:
    """What an unlimited cache reuses of each row in turn, from the trace's ids alone."""
    seen: set[tuple[int, int]] = set()
    found = []
    for row in rows:
        chain = list(accumulate(row.ids, lambda before, one: hash((before, one)), initial=0))
        steps = list(zip(chain, row.ids, strict=False))
        shared = trace_block * sum(step in seen for step in steps)
        found.append(min(shared, row.input_length - 1) // block * block)
        seen.update(steps)
    return found


def reused_as_sent(rows: Sequence[Row], block: int, lead: int, trail: int) -> list[int]:
    """The same where the first and last tokens are not the trace's, by comparing each row with all before it."""
    found = []
    for number, row in enumerate(rows):
        shared = [lead]
        for other in rows[:number]:
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(row.ids, other.ids, strict=False)))
            shared.append(min(same * block, row.input_length - trail, other.input_length - trail))
        found.append(min(max(shared), row.input_length - 1) // 16 * 16)
    return found


def told(measured: Measurement) -> Waterfall:
    found = measured.waterfall
    assert found is not None
    assert found.ceiling - sum(loss.tokens for loss in found.losses) == found.measured
    assert found.measured == sum(e.cached_tokens or 0 for e in measured.exchanges)
    return found


def predicted(measured: Measurement) -> tuple[int, ...]:
    assert measured.prediction is not None
    assert measured.prediction.exact
    assert measured.prediction.slack == 0
    assert measured.counters is not None
    assert measured.counters.hit == sum(e.cached_tokens or 0 for e in measured.exchanges)
    assert measured.counters.query == measured.prediction.query_tokens
    return measured.prediction.per_request


@pytest.mark.parametrize("block", [16, 64, 128])
def test_one_after_the_other(start_sim: Start, block: int) -> None:
    measured = replay(start_sim(f"--block-size={block}"), trace(), clock=False, users=1)
    expected = reused(trace(), 4, block)
    assert [e.cached_tokens for e in measured.exchanges] == expected
    assert list(predicted(measured)) == expected
    assert [e.prompt_tokens for e in measured.exchanges] == [row.input_length for row in trace()]
    assert 500_000 < sum(expected) < 560_000 < trace().input_tokens
    assert {loss.cause for loss in told(measured).losses} == {"cold", "rounding"}


@pytest.mark.parametrize("block", [16, 64, 128])
def test_all_sessions_at_once(start_sim: Start, block: int) -> None:
    measured = replay(start_sim(f"--block-size={block}"), trace(), 8, clock=False, users=8)
    expected = reused(trace(), 4, block)  # sessions have nothing in common, and the file holds one after the other
    assert [e.cached_tokens for e in measured.exchanges] == expected
    assert list(predicted(measured)) == expected
    assert {loss.cause for loss in told(measured).losses} == {"cold", "rounding"}


def test_prompts_that_many_share_at_once(start_sim: Start) -> None:
    """Rows without sessions, of which all begin with the same block and some go on together: whoever comes first."""
    given = trace(CHATS, 16, 300)
    measured = replay(start_sim(), given, 8, clock=False, users=8)
    hits = [e.cached_tokens or 0 for e in measured.exchanges]
    assert sum(hits) == sum(reused(given, 16, 16)) == sum(predicted(measured))
    assert {loss.cause for loss in told(measured).losses} == {"cold", "rounding"}
    assert {e.turn for e in measured.exchanges} == {None}


@pytest.mark.parametrize("send", ["text", "chat"])
def test_as_text_and_as_chat(sim: str, send: str) -> None:
    given = trace(block=16, rows=40)
    measured = replay(sim, given, nonce=f"as {send}", clock=False, users=1, send=send)
    around = [int(re.findall(r"\d+", note)[0]) for note in measured.notes if "chat template's" in note]
    assert (len(around), min(around, default=1) > 0) == (2 if send == "chat" else 0, True)
    lead, trail = around or (0, 0)
    expected = reused_as_sent(list(given), 16, lead, trail)
    assert list(predicted(measured)) == expected
    assert [e.cached_tokens for e in measured.exchanges] == expected
    assert [e.prompt_tokens for e in measured.exchanges] == [row.input_length for row in given]
    told(measured)


def test_a_cache_that_is_too_small_evicts(start_sim: Start) -> None:
    """The longest session needs 509 blocks of 16; 400 hold most turns and not all."""
    measured = replay(start_sim("--capacity-blocks=400"), trace(), clock=False, users=1)
    assert list(predicted(measured)) == reused(trace(), 4, 16)
    waterfall = told(measured)
    assert waterfall.measured < sum(predicted(measured))
    assert {loss.cause for loss in waterfall.losses} == {"cold", "rounding", "eviction"}


def test_another_run_finds_nothing_of_it(start_sim: Start) -> None:
    url, given = start_sim(), trace(rows=30)
    one, other = (replay(url, given, nonce=nonce, clock=False, users=1) for nonce in ("one", "other"))
    assert [e.cached_tokens for e in one.exchanges] == [e.cached_tokens for e in other.exchanges]
    assert not other.findings


@pytest.mark.parametrize("prefill", ["1e9", "100000"])
def test_the_clock_is_kept(start_sim: Start, prefill: str) -> None:
    """An hour and a half in half a second; a slow server makes later turns wait for answers, and nothing else."""
    speed = 10_000.0
    measured = replay(start_sim(f"--prefill-rate={prefill}"), trace(), None, speed=speed)
    sessions: dict[str | None, list[float]] = {}
    for row in trace():
        sessions.setdefault(row.session, []).append((row.time or 0.0) / speed)
    due = [moment for moments in sessions.values() for moment in moments]
    exchanges = measured.exchanges
    origin = exchanges[0].scheduled
    assert origin is not None
    answered = origin
    for exchange, moment in zip(exchanges, due, strict=True):
        wanted = origin + moment
        if exchange.turn:
            wanted = max(wanted, answered)
        assert exchange.scheduled == pytest.approx(wanted, abs=1e-6)
        assert exchange.sent is not None
        assert exchange.sent >= exchange.scheduled
        answered = exchange.end
    assert len({e.session for e in exchanges if e.scheduled == origin}) == 8  # all begin at the trace's zero
    assert list(predicted(measured)) == reused(trace(), 4, 16)
    assert any("behind the clock" in note for note in measured.notes)
