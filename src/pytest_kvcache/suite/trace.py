"""How much cache does recorded traffic need, and does the server make of it what a cache of its size can?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ..plugin.runner import Runner
from ..plugin.settings import Settings
from .asked import Trace
from .running import explained, given

if TYPE_CHECKING:
    from ..capacity.curve import Curve
    from ..plugin.replaying import TraceOpener
    from ..traces import Trace as Opened

NO_FILE = "no trace to look at: give --kv-set trace.file=FILE"


@pytest.fixture
def asked(kv_settings: Settings) -> Trace:
    """What ``--kv-set`` asks."""
    return given(kv_settings, Trace)


@pytest.fixture
def opened(asked: Trace, kv_trace: TraceOpener) -> Opened:
    """The trace; without a file the tests are skipped."""
    if asked.file is None:
        pytest.skip(NO_FILE)
    with explained():
        return kv_trace(
            asked.file,
            block_size=asked.block_size,
            time_unit=asked.time_unit,
            strict=asked.strict,
            format=asked.format,
            tokenizer=asked.tokenizer,
            model=asked.model,
        )


@pytest.fixture
def sent(asked: Trace, opened: Opened) -> Opened:
    """The part of it that is replayed."""
    if not asked.replay:
        pytest.skip("trace.replay=false")
    with explained():
        part = opened.first(asked.requests)
        return part if asked.scale is None else part.scaled(asked.scale)


def marks(asked: Trace, test: str) -> Iterator[pytest.MarkDecorator]:
    """How a test of this file is judged; only one of them sends anything."""
    if test == test_replay.__name__:
        yield pytest.mark.hit_rate(target="simulated" if asked.target == "simulated" else None, tol=asked.tol)


def test_budgets(opened: Opened, asked: Trace, request: pytest.FixtureRequest) -> None:
    """Say what a cache of each size hits (``-rP`` shows it), and hold it against ``min_rate``."""
    with explained():
        curve, rates = _simulated(opened, asked)
        knee = curve.knee().tokens
    request.node.add_report_section("call", "hit rate by size of the cache", str(curve))
    told = request.node.user_properties
    told += [("trace_ceiling", curve.ceiling), ("trace_knee_tokens", knee)]
    for tokens, rate in rates.items():
        told.append((f"trace_hit_rate_{tokens}", rate))
        if asked.min_rate is not None and rate < asked.min_rate:
            pytest.fail(
                f"a cache of {tokens:,} tokens hits {rate:.4f} of {opened.name}, wanted at least {asked.min_rate:.4f};"
                f" {_enough(curve, asked.min_rate)}",
                pytrace=False,
            )


def test_replay(sent: Opened, kv: Runner, asked: Trace) -> None:
    """The server hits of the same requests what a cache of its size would."""
    users = asked.users or 4 if asked.speed is None else None
    kv.replay(sent, users=users, speed=asked.speed or 1.0, output_len=asked.output_len, reset=asked.reset)


def _simulated(opened: Opened, asked: Trace) -> tuple[Curve, dict[int, float]]:
    """Return the curve and the hit rate at each budget."""
    blocks = {tokens: max(1, tokens // (opened.block_size or 1)) for tokens in asked.budgets}
    at = None if asked.policy == "lru" else sorted(set(blocks.values())) or None
    curve = opened.sweep(policy=asked.policy, budgets=at)
    return curve, {tokens: curve.hit_rate(blocks=count) for tokens, count in blocks.items()}


def _enough(curve: Curve, rate: float) -> str:
    if curve.ceiling is None or curve.ceiling < rate:
        return f"no cache does: the ceiling is {curve.ceiling or 0.0:.4f}"
    return f"{curve.budget_for(hit_rate=rate).tokens:,} tokens would do"
