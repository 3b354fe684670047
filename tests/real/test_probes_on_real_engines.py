"""Probes against real engines: what they find from outside is what the engines were started with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pytest_kvcache.endpoint import Endpoint
from pytest_kvcache.model import Grain
from pytest_kvcache.probes import Terms, capacity, equivalence, granularity, isolation

from .llamacpp import LlamaServer
from .server import VllmServer


def ask(probe: Callable[..., Any], url: str, nonce: str, api: Any = None, **arguments: Any) -> Any:
    return asyncio.run(probe(Endpoint(url), Terms(f"{probe.__name__} {nonce}", api=api), **arguments))


@pytest.mark.parametrize("block", [128, 32])
@pytest.mark.parametrize("api", ["completions", "chat"])
def test_vllm(vllm_server: Callable[[int], VllmServer], block: int, api: str) -> None:
    url, nonce = vllm_server(block).url, f"{api} {block}"
    found = ask(granularity, url, nonce, api)
    assert (found.grain(), found.full_hit, found.agrees, found.requests) == (Grain(block, block), "L-1", True, 8)
    assert ask(isolation, url, nonce, api).leaked_tokens == 0
    assert ask(isolation, url, f"{nonce} tenant", api, by="header:X-Tenant").leaked_tokens == 1024 - block
    same = ask(equivalence, url, nonce, api, prompts=2, output=8).check()
    assert same.logprobs == 0.0  # a CPU in bf16


@pytest.mark.parametrize("api", ["completions", "chat"])
@pytest.mark.parametrize("options", [("-np", "1"), ("-np", "2", "--cache-ram", "0")], ids=["one slot", "two slots"])
def test_llama(llama: Callable[..., LlamaServer], options: tuple[str, ...], api: str) -> None:
    url = llama(*options).url
    found = ask(granularity, url, api, api, up_to=1000)
    assert (found.grain(), found.full_hit, found.agrees, found.requests) == (Grain(1, 1), "L-1", True, 8)
    assert ask(isolation, url, api, api).leaked_tokens == 1023  # it knows no salt
    assert ask(equivalence, url, api, api, prompts=2, output=8, tokens=300).check().logprobs < 0.01
    assert ask(capacity, url, api, at_most=4000).lost is None
