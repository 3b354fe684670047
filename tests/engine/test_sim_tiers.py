"""The external store behind the device cache: what it finds, how that is counted, and what a reset leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .wire import COUNTERS, Wire, cached

Start = Callable[..., str]
DATA = Path(__file__).parent.parent / "data/vllm-0.32.0"
STEPS = {step["step"]: step for step in json.loads((DATA / "30_external_example_connector.json").read_text())}


def ask(server: Wire, prompt: list[int], **more: Any) -> tuple[int | None, dict[str, float]]:
    """Return the cached tokens and what moved in the look-ups."""
    before = server.counters()
    status, reply = server.complete(prompt, **more)
    assert status == 200
    moved = server.moved(before)
    return cached(reply), {key: moved.get(key, 0.0) for key in ("q", "h", "xq", "xh")}


def looked_up(q: int, h: int, xq: int, xh: int) -> tuple[int, dict[str, float]]:
    return h + xh, {"q": q, "h": h, "xq": xq, "xh": xh}


def test_a_store_counts_as_a_recorded_connector(start_sim: Start) -> None:
    server = Wire(start_sim("--model=tiny", "--block-size=32", "--external-blocks=1000"))
    prompt = list(range(600))

    def same_as(name: str, sent: list[int]) -> None:
        before = server.counters()
        reply = server.complete(sent)[1]
        assert reply["usage"] == STEPS[name]["usage"]
        assert server.moved(before) == {key: value for key, value in STEPS[name]["delta"].items() if key in COUNTERS}

    same_as("first", prompt)
    same_as("same again (local hit)", prompt)
    assert server.post("/reset_prefix_cache", {})[1] == STEPS["reset local"]["answer"]
    same_as("same after local reset (external hit expected)", prompt)
    same_as("same again", prompt)
    same_as("shares 300 tokens", prompt[:300] + list(range(10_000, 10_300)))
    server.put("/faults", {"reset_keeps_external": True})
    assert server.post("/reset_prefix_cache?reset_external=true", {})[1] == STEPS["reset external"]["answer"]
    same_as("same after external reset", prompt)
    server.put("/faults", {})
    server.post("/reset_prefix_cache?reset_external=true", {})
    same_as("first", prompt)


def test_a_reset_leaves_a_warm_store_and_the_last_token_is_computed(start_sim: Start) -> None:
    server = Wire(start_sim("--external-blocks=1000"), model="sim")
    prompt = list(range(1024))
    assert ask(server, prompt) == looked_up(1024, 0, 1024, 0)
    assert ask(server, prompt) == looked_up(1024, 1008, 16, 0)
    assert server.post("/reset_prefix_cache", {}) == (200, {"success": True})
    assert ask(server, prompt) == looked_up(1024, 0, 1024, 1008)
    server.post("/reset_prefix_cache", {})
    assert ask(server, [*prompt[:300], *range(5000, 5100)]) == looked_up(400, 0, 400, 288)


def test_what_the_device_evicts_is_in_the_store(start_sim: Start) -> None:
    server = Wire(start_sim("--block-size=10", "--capacity-blocks=4", "--external-blocks=100"), model="sim")
    first, second = list(range(41)), list(range(1000, 1041))
    assert ask(server, first) == looked_up(41, 0, 41, 0)
    assert ask(server, second) == looked_up(41, 0, 41, 0)  # takes all four blocks
    assert ask(server, first) == looked_up(41, 0, 41, 40)
    assert ask(server, first) == looked_up(41, 40, 1, 0)  # and is back on the device


def test_the_store_goes_on_where_the_device_ends(start_sim: Start) -> None:
    server = Wire(start_sim("--block-size=10", "--capacity-blocks=3", "--external-blocks=100"), model="sim")
    prompt = list(range(100))
    assert ask(server, prompt) == looked_up(100, 0, 100, 0)  # the device keeps the first 30
    before = server.counters()
    assert ask(server, prompt) == looked_up(100, 30, 70, 60)
    moved = server.moved(before)
    assert (moved["pt"], moved["ptc"], moved["kvc_sum"]) == (100, 90, 10)
    assert (moved["src_compute"], moved["src_hit"], moved["src_ext"]) == (10, 30, 60)
    assert (moved["dev"], moved["xun"]) == (30, 60)


def test_the_store_has_a_capacity_of_its_own(start_sim: Start) -> None:
    server = Wire(start_sim("--block-size=10", "--external-blocks=6"), model="sim")
    first, second = list(range(41)), list(range(1000, 1041))
    for prompt in (first, second):  # the second takes the last two of the first's four blocks
        ask(server, prompt)
    server.post("/reset_prefix_cache", {})
    assert ask(server, first) == looked_up(41, 0, 41, 20)


def test_generated_tokens_are_stored(start_sim: Start) -> None:
    server = Wire(start_sim("--block-size=10", "--external-blocks=100"), model="sim")
    prompt = list(range(15))
    said = server.complete(prompt, 16, return_token_ids=True)[1]["choices"][0]["token_ids"]
    server.post("/reset_prefix_cache", {})
    assert ask(server, [*prompt, *said, 1]) == looked_up(32, 0, 32, 30)  # 15 + 16 tokens, the last one's KV missing


@pytest.mark.parametrize(("options", "found"), [((), 0), (("--external-shared",), 32)], ids=["each", "shared"])
def test_a_store_for_each_engine_or_one_for_all(start_sim: Start, options: tuple[str, ...], found: int) -> None:
    server = Wire(start_sim("--engines=2", "--external-blocks=100", *options), model="sim")
    prompt = list(range(40))
    assert ask(server, prompt) == looked_up(40, 0, 40, 0)
    assert ask(server, prompt) == looked_up(40, 0, 40, found)  # on the other engine
    assert ask(server, prompt) == looked_up(40, 32, 8, 0)
    server.post("/reset_prefix_cache?reset_external=true", {})
    assert ask(server, prompt) == looked_up(40, 0, 40, 0)


def test_who_bypasses_the_cache_is_asked_of_the_store_in_vain(start_sim: Start) -> None:
    server = Wire(start_sim("--external-blocks=100"), model="sim")
    prompt = list(range(40))
    ask(server, prompt)
    assert ask(server, prompt, prompt_logprobs=0) == looked_up(0, 0, 40, 0)


def test_without_a_store_or_a_cache_nothing_external_moves(start_sim: Start, sim: str) -> None:
    off = Wire(start_sim("--external-blocks=100", "--no-prefix-caching"), model="sim")
    for server, moved in ((Wire(sim, model="sim"), looked_up(40, 0, 0, 0)), (off, looked_up(0, 0, 0, 0))):
        assert ask(server, list(range(70_000, 70_040))) == moved
