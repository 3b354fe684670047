"""Does the cache work at all? Six questions, each of which fails, or is skipped, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ..counts import total
from ..endpoint import Endpoint
from ..errors import MeasurementError
from ..plugin.runner import Runner
from ..plugin.settings import SIM, Settings
from ..reset import VERIFIED
from .asked import Smoke
from .running import fitting, given, target_at

if TYPE_CHECKING:
    from ..protocols import Workload
    from ..target import Target
    from ..workloads import WorkloadBuilder

_WORDS = 1200  # hosted caches begin at 1,024 tokens


@pytest.fixture
def asked(kv_settings: Settings) -> Smoke:
    """What ``--kv-set`` asks."""
    return given(kv_settings, Smoke)


@pytest.fixture
def target(kv_endpoint: Endpoint) -> Target:
    """What the server tells of itself."""
    return target_at(kv_endpoint)


def marks(asked: Smoke, test: str) -> Iterator[pytest.MarkDecorator]:
    """How a test of this file is judged; what an identical prompt hits is predicted only where tokens are told."""
    if test == test_identical_prompt_hits.__name__:
        yield pytest.mark.hit_rate(min=asked.min_rate)


def test_cache_is_on(target: Target) -> None:
    """The server says that its prefix cache is on."""
    facts = target.facts
    if facts.caching is None:
        pytest.skip(f"{target.profile.title} does not tell; test_identical_prompt_hits shows it")
    if not facts.caching:
        how = f"; switch it on ({facts.caching_flag})" if facts.caching_flag else ""
        pytest.fail(f"the server says that its prefix cache is off{how}", pytrace=False)


def test_identical_prompt_hits(kv: Runner, kv_workload: WorkloadBuilder, target: Target, asked: Smoke) -> None:
    """A prompt that was sent just before is read from the cache, as far as the block size lets it."""
    longest = target.facts.max_model_len
    # a tokenizer of single bytes makes four tokens of a word and its space
    words = _WORDS if longest is None else max(1, min(_WORDS, (longest - 16) // 5))
    text = "red " * words
    if target.profile.variants:
        body, api = {"prompt": text, "max_tokens": 1, "temperature": 0}, "completions"
    else:
        body, api = {"messages": [{"role": "user", "content": text}], "max_tokens": 1}, "chat"
    kv.run(kv_workload.requests([body] * 3, api=api, warm=1), concurrency=1, settle=asked.settle)


def test_block_size(kv: Runner, asked: Smoke) -> None:
    """Credit is given in steps of the block size that the server tells."""
    found = kv.probe.granularity(up_to=asked.up_to, settle=asked.settle)
    if found.minimum is None:
        raise MeasurementError(str(found))
    if found.agrees is False:
        pytest.fail(str(found), pytrace=False)
    if found.agrees is None:
        pytest.skip(f"the server tells no block size to compare with; {found}")


def test_reset_empties_the_cache(
    kv: Runner, kv_workload: WorkloadBuilder, kv_settings: Settings, target: Target
) -> None:
    """The route that empties the cache does: a prompt sent before it is cold behind it."""
    if target.profile.reset is None:
        pytest.skip(f"{target.profile.title} has no route that empties its cache")
    if kv_settings.reset == "never" and kv_settings.endpoint != SIM:
        pytest.skip("would empty the cache of a server that others may use; allow it with --kv-reset=auto")
    result = kv.run(_workload(kv_workload, target), concurrency=1, reset="auto")
    state = result.measurement.cache_state
    if state.startswith("reset: unavailable") and kv_settings.reset != "require":
        pytest.skip(state)
    if not state.startswith(VERIFIED):
        pytest.fail(state, pytrace=False)
    if not result.hit_tokens:  # raises where the cache is off, which looks as cold as one that was emptied
        pytest.fail("behind the reset nothing is cached any more", pytrace=False)


def test_salts_are_isolated(kv: Runner, target: Target, asked: Smoke) -> None:
    """What is cached under one salt is not read under another, nor without one."""
    if "cache_salt" not in target.facts.isolation:
        pytest.skip(f"{target.profile.title} has no cache_salt")
    kv.probe.isolation(by="cache_salt", settle=asked.settle)


def test_counters_and_usage_agree(kv: Runner, kv_workload: WorkloadBuilder, target: Target) -> None:
    """The server's counters and the usage of its replies tell the same number of hit tokens."""
    if not target.readers:
        pytest.skip(f"{target.profile.title} has no counters to compare usage with")
    result = kv.run(_workload(kv_workload, target), concurrency=1)
    counted, told = result.hit_tokens, total(exchange.cached_tokens for exchange in result.exchanges)
    if told is None:
        flag = target.facts.usage_flag
        pytest.skip(f"replies do not tell their cached tokens{f'; the server needs {flag}' if flag else ''}")
    if counted != told:
        pytest.fail(f"the counters tell {counted:,} hit tokens and usage {told:,}", pytrace=False)


def _workload(kv_workload: WorkloadBuilder, target: Target) -> Workload:
    length = fitting(target.facts.max_model_len, 512, 2)
    return kv_workload.shared_prefix(requests=4, input_len=length, prefix_len=length // 2, output_len=2)
