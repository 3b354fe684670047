"""Levels of a load that are asked in odd ways are measured, or refused with a reason; never left out in silence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from pytest_kvcache.errors import ConfigurationError
from pytest_kvcache.model import Level
from pytest_kvcache.plugin.levels import check_times, check_traffic, levels_of
from pytest_kvcache.plugin.runs import check_sending
from pytest_kvcache.workloads import SharedPrefix
from pytest_kvcache.workloads.trace_replay import TraceReplay

from .conftest import Run


@pytest.mark.parametrize("levels", [[1, 3], (1, 3), range(1, 4, 2), iter([1, 3]), (n for n in (1, 3))])
def test_all_levels_of_whatever_holds_them(levels: Any) -> None:
    assert levels_of(levels, (), 1.0) == [Level(concurrency=1), Level(concurrency=3)]


def test_rates_may_be_made_once_too() -> None:
    assert levels_of((), (n / 2 for n in (1, 3)), 1.0) == [Level(rate=0.5), Level(rate=1.5)]


@pytest.mark.parametrize(
    ("concurrency", "rate", "duration", "message"),
    [
        ([], [], 1.0, r"kv.steps: give levels"),
        (None, None, 1.0, r"kv.steps: give levels"),
        (iter([]), (), 1.0, r"kv.steps: give levels"),
        ([1], [1.0], 1.0, r"kv.steps: give levels"),
        (5, (), 1.0, r"kv.steps\(concurrency=5\): expected several levels"),
        (True, (), 1.0, r"kv.steps\(concurrency=True\): expected several levels"),
        ((), 2.5, 1.0, r"kv.steps\(rate=2.5\): expected several levels"),
        ([2, 0], (), 1.0, r"kv.steps\(concurrency=\[... 0\]\): expected at least 1"),
        ([True], (), 1.0, r"concurrency=\[... True\]"),
        ([1.5], (), 1.0, r"concurrency=\[... 1.5\]"),
        ("12", (), 1.0, r"concurrency=\[... '1'\]"),
        ((), [0.0], 1.0, r"kv.steps\(rate=\[... 0.0\]\): expected sessions per second, above 0"),
        ((), [math.inf], 1.0, r"rate=\[... inf\]"),
        ((), [math.nan], 1.0, r"rate=\[... nan\]"),
        ([1], (), 0.0, r"kv.steps\(duration=0.0\): expected seconds, above 0"),
        ([1], (), math.inf, r"duration=inf"),
        ([1], (), "60", r"duration='60'"),
    ],
)
def test_no_levels(concurrency: Any, rate: Any, duration: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        levels_of(concurrency, rate, duration)


@pytest.mark.parametrize(
    ("duration", "assessment", "message"),
    [
        (math.inf, 1.0, r"kv.sustain\(duration=inf\): expected seconds, above 0"),
        (1.0, math.nan, r"assessment=nan"),
        (1.0, True, r"assessment=True"),
        (1.0, 2.0, r"kv.sustain\(duration=1, assessment=2\): expected time for one period at least"),
    ],
)
def test_no_times(duration: Any, assessment: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_times("sustain", duration, assessment)


@pytest.mark.parametrize(
    ("retries", "settle", "message"),
    [
        (-1, 0.0, r"kv.steps\(retries=-1\): expected 0 or more"),
        (1.5, 0.0, r"retries=1.5"),
        ("1", 0.0, r"retries='1'"),
        (None, 0.0, r"retries=None"),
        (True, 0.0, r"retries=True"),
        (0, "1", r"kv.steps\(settle='1'\): expected seconds, 0 or more"),
        (0, math.nan, r"settle=nan"),
    ],
)
def test_no_way_to_send(retries: Any, settle: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_sending("steps", retries, None, settle)


SHAPE = SharedPrefix(requests=4, input_len=64, prefix_len=32)


class Rows(list[Any]):
    """A trace that nobody reads."""

    name, block_size = "rows", 16


def test_a_trace_on_its_clock_keeps_no_level() -> None:
    with pytest.raises(ConfigurationError, match=r"kv.sustain: this trace keeps a clock of its own"):
        check_traffic("sustain", TraceReplay(Rows()), stream=True, timed={})
    check_traffic("sustain", TraceReplay(Rows(), clock=False), stream=True, timed={})


@pytest.mark.parametrize("name", ["max_ttft", "max_tpot"])
def test_what_only_a_stream_tells(name: str) -> None:
    check_traffic("steps", SHAPE, stream=False, timed={name: None})
    check_traffic("steps", SHAPE, stream=True, timed={name: 2.0})
    with pytest.raises(ConfigurationError, match=rf"kv.steps\(stream=False, {name}=2.0\): without a stream"):
        check_traffic("steps", SHAPE, stream=False, timed={"max_e2e": None, name: 2.0})


LOST = """
import pytest

SHAPE = dict(requests=4, input_len=64, hit_rate=0.5, prefixes=1, output_len=2)

def refused(call, *arguments, **more):
    from pytest_kvcache.errors import ConfigurationError
    with pytest.raises(ConfigurationError, match="without a stream|a clock of its own"):
        call(*arguments, **more)

def test_calls(kv, kv_workload, kv_trace):
    shape, trace = kv_workload.shared_prefix(**SHAPE), kv_workload.trace(kv_trace("t.jsonl", block_size=16))
    refused(kv.steps, shape, [1], stream=False, max_ttft=1.0)
    refused(kv.sustain, shape, stream=False)
    refused(kv.sustain_rate, shape, max_tpot=1.0, stream=False)
    refused(kv.steps, trace, [1])
    refused(kv.sustain, trace)
    refused(kv.sustain_rate, trace, 1.0)

def test_ended(kv, kv_workload):
    recorded = kv_workload.requests([{"prompt": f"number {n}", "max_tokens": 1} for n in range(9)])
    result = kv.sustain(recorded, 2.0, duration=60, assessment=30)
    assert result.verdict.status == "inconclusive"
    assert "the workload ended after" in result.verdict.sentence
    assert "and the search with it" in result.verdict.sentence
"""


def test_searches_that_cannot_be_made(pytester: pytest.Pytester, run: Run, sim: str) -> None:
    (pytester.path / "t.jsonl").write_text(
        '{"timestamp": 0, "input_length": 32, "output_length": 1, "hash_ids": [1, 2]}\n'
    )
    pytester.makepyfile(LOST)
    result = run(f"--kv-endpoint={sim}")
    result.assert_outcomes(passed=2)


def test_behind_a_level_that_could_not_begin_none_takes_its_time(
    pytester: pytest.Pytester, run: Run, start_sim: Callable[..., str]
) -> None:
    pytester.makepyfile(
        """
        def test_refused(kv, kv_workload):
            shape = kv_workload.shared_prefix(requests=4, input_len=64, hit_rate=0.5, prefixes=1, output_len=2)
            kv.steps(shape, [1, 2], duration=0.1, retries=1)
        """
    )
    result = run(f"--kv-endpoint={start_sim('--fault', 'status=500')}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["inconclusive: the level was not measured: prefill failed: 1 of 1 requests*"])
    result.stdout.no_fnmatch_line("*run 2*")
