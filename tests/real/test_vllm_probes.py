"""Probes find out of a real vLLM from outside what it says of itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

import pytest

from pytest_kvcache import Endpoint, Runner, Settings

from .server import VllmServer


@pytest.fixture(scope="session", params=[128, 32], ids="block{}".format)
def block(request: pytest.FixtureRequest) -> int:
    """Tokens per block of the server under test."""
    size: int = request.param
    return size


@pytest.fixture(scope="session")
def kv_settings(kv_settings: Settings, vllm_server: Callable[[int], VllmServer], block: int) -> Settings:
    return dataclasses.replace(kv_settings, endpoint=vllm_server(block).url)


@pytest.fixture(scope="session")
def kv_endpoint(kv_settings: Settings) -> Endpoint:
    """Of this module: the plugin's own is made once a session, from whichever settings were asked for first."""
    return kv_settings.connect(kv_settings.endpoint or "")


only_once = pytest.mark.parametrize("block", [32], indirect=True, ids="block{}".format, scope="session")
Api = Literal["completions", "chat"]


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_granularity_is_the_block(kv: Runner, block: int, api: Api) -> None:
    found = kv.probe.granularity(up_to=1024, api=api)
    assert (found.step, found.minimum, found.full_hit, found.told) == (block, block, "L-1", block)
    assert found.agrees
    assert all(cached == shared // block * block for shared, cached in found.points)


@only_once
@pytest.mark.parametrize("api", ["completions", "chat"])
def test_salts_are_apart(kv: Runner, block: int, api: Api) -> None:
    found = kv.probe.isolation(by="cache_salt", api=api)
    assert (found.leaked_tokens, found.refused) == (0, ())
    assert found.own > 0


@only_once
def test_field_that_separates_nothing_is_a_leak(kv: Runner) -> None:
    with pytest.raises(pytest.fail.Exception, match="KV205"):
        kv.probe.isolation(by="user", a="one", b="other")


@only_once
def test_warm_answers_are_the_cold_ones(kv: Runner) -> None:
    found = kv.probe.equivalence(prompts=4, output=8, tol=0.001)  # another context moves them by 0.008 and more
    assert found.tokens
    assert found.logprobs is not None
    assert found.wrong == ()
    assert found.cached > 0


@only_once
def test_blocks_live_as_long_as_was_waited(kv: Runner) -> None:
    found = kv.probe.lifetime(at_most=0.5, first=0.2)
    assert found.gone is None
    assert found.there >= 0.5
