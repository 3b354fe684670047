"""A real vLLM in other shapes: odd requests, two engines, a KV connector behind the cache.

One server at a time: each shape is a value of the session's fixture ``served``, which pytest ends before the next. The
ordinary one is the server that other files measure too.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from pytest_kvcache import Endpoint, Runner, Settings, WorkloadBuilder
from pytest_kvcache.errors import MeasurementError
from pytest_kvcache.model import Expectation
from pytest_kvcache.plugin.state import TestState

from ..engine.wire import Wire, cached
from .prompts import fresh, total
from .server import VllmServer

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Counters

BLOCK = 32

SMALL = ("--max-model-len=4096", "--max-num-seqs=8")
SHAPES = {
    "two engines": (*SMALL, "--data-parallel-size=2"),
    "connector": SMALL,
}


def shaped(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("served", [name], indirect=True, scope="session")


@pytest.fixture(scope="session")
def served(
    request: pytest.FixtureRequest,
    vllm_server: Callable[[int], VllmServer],
    vllm_venv: Path,
    tiny_model: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[VllmServer]:
    if request.param == "ordinary":
        yield vllm_server(BLOCK)
        return
    folder = tmp_path_factory.mktemp("vllm")
    arguments = SHAPES[request.param]
    if request.param == "connector":
        arguments = (*arguments, f"--kv-transfer-config={json.dumps(connector(folder / 'store'))}")
    log = folder / "vllm.log"
    with VllmServer(tiny_model, log, venv=vllm_venv, block_size=BLOCK, arguments=arguments) as server:
        yield server


def connector(store: Path) -> dict[str, Any]:
    """The connector that vLLM ships as an example: it keeps the KV of whole prompts as files in a folder."""
    extra = {"shared_storage_path": str(store)}
    return {"kv_connector": "ExampleConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}


@pytest.fixture(scope="session")
def kv_settings(kv_settings: Settings, served: VllmServer) -> Settings:
    return dataclasses.replace(kv_settings, endpoint=served.url)


@pytest.fixture(scope="session")
def kv_endpoint(kv_settings: Settings) -> Endpoint:
    """Of this module: the plugin's own is made once a session, from whichever settings were asked for first."""
    return kv_settings.connect(kv_settings.endpoint or "")


@pytest.fixture
def wire(served: VllmServer) -> Wire:
    return Wire(served.url, "vllm:")


@pytest.fixture
def page(served: VllmServer, counters: Callable[[str, str], Counters]) -> Counters:
    return counters(served.url, "vllm")


def reusable(length: int) -> int:
    """Tokens that an identical repeat hits."""
    return (length - 1) // BLOCK * BLOCK


# --- odd requests ----------------------------------------------------------------------------------------------------


Leaves = Callable[[http.client.HTTPConnection], None]


def leave(url: str, prompt: list[int], *, max_tokens: int, after: Leaves) -> None:
    """Send a streamed completion and close the connection once ``after`` has returned."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    body = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "stream": True, "ignore_eos": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    try:
        after(connection)
    finally:
        connection.close()


def leave_when_looked_up(wire: Wire, prompt: list[int]) -> None:
    """Leave as soon as the prompt is admitted, when most of it is still to be computed."""
    before = wire.sample("prefix_cache_queries_total")

    def admitted(_: http.client.HTTPConnection) -> None:
        wire.wait_until(lambda: wire.sample("prefix_cache_queries_total") > before)

    leave(wire.url, prompt, max_tokens=1, after=admitted)


def hear_three_chunks(connection: http.client.HTTPConnection) -> None:
    reply = connection.getresponse()
    for _ in range(6):  # each chunk is a line and an empty one
        assert reply.readline()


@shaped("ordinary")
def test_client_that_leaves_during_generation(wire: Wire, page: Counters) -> None:
    prompt = fresh(600)
    with page.window() as found:
        leave(wire.url, prompt, max_tokens=4000, after=hear_three_chunks)
    assert (total(found).query, total(found).hit, total(found).prompt) == (600, 0, 600)
    with page.window() as found:
        assert cached(wire.complete(prompt)[1]) == reusable(600)  # what it computed serves the next
    assert (total(found).query, total(found).hit) == (600, reusable(600))


@shaped("ordinary")
def test_client_that_leaves_during_prefill(wire: Wire, page: Counters) -> None:
    for _ in range(8):  # on a fast machine the prefill may be over before the connection is
        with page.window() as found:
            leave_when_looked_up(wire, fresh(16000))
        if total(found).prompt == 0:
            break
    assert (total(found).query, total(found).hit, total(found).prompt) == (16000, 0, 0)


@shaped("ordinary")
def test_each_of_several_samples_is_looked_up(wire: Wire, page: Counters) -> None:
    prompt = fresh(600)
    for hits in (2, 3):  # the first sample of the first request finds nothing
        with page.window() as found:
            status, reply = wire.complete(prompt, n=3, temperature=1.0)
        assert status == 200
        assert (total(found).query, total(found).hit) == (1800, hits * reusable(600))
        assert (reply["usage"]["prompt_tokens"], cached(reply)) == (600, reusable(600))  # of one of them


@shaped("ordinary")
def test_usage_of_a_list_of_prompts_tells_what_the_last_one_hit(wire: Wire, page: Counters) -> None:
    prompt, other = fresh(500), fresh(500)
    with page.window() as found:
        _, reply = wire.complete([prompt, prompt, prompt, other])
    assert (total(found).query, total(found).hit) == (2000, 2 * reusable(500))
    assert (reply["usage"]["prompt_tokens"], cached(reply)) == (2000, 0)


ODD: dict[str, tuple[dict[str, Any], int, int]] = {  # more fields, prompts and samples of one request
    "samples": ({"n": 3, "temperature": 1.0}, 1, 3),
    "list": ({}, 4, 1),
}


def odd_body(kind: str) -> dict[str, Any]:
    more, prompts, _ = ODD[kind]
    sent = [fresh(600) for _ in range(prompts)]
    return {"prompt": sent if prompts > 1 else sent[0], "max_tokens": 1, **more}


@shaped("ordinary")
@pytest.mark.parametrize("kind", ODD)
def test_run_with_odd_requests_counts_every_lookup(kv: Runner, kv_workload: WorkloadBuilder, kind: str) -> None:
    _, prompts, samples = ODD[kind]
    result = kv.run(kv_workload.requests([odd_body(kind)] * 2, api="completions"), concurrency=1, stream=False)
    lookups = 2 * prompts * samples
    assert result.query_tokens == lookups * 600
    assert result.hit_tokens == (lookups - prompts) * reusable(600)  # all but the first of each prompt
    assert result.engines["0"].query == result.query_tokens


@shaped("ordinary")
@pytest.mark.parametrize("kind", ODD)
def test_usage_of_odd_requests_is_refused(
    kv_endpoint: Endpoint,
    kv_settings: Settings,
    kv_workload: WorkloadBuilder,
    request: pytest.FixtureRequest,
    kind: str,
) -> None:
    state = TestState("usage", Expectation(min=0.0, source="usage"), kind, 1)
    kv = Runner(kv_endpoint, kv_settings, state, request.node)
    result = kv.run(kv_workload.requests([odd_body(kind)] * 2, api="completions"), concurrency=1, stream=False)
    assert result.verdict.status == "inconclusive"
    with pytest.raises(MeasurementError, match="cached_tokens"):
        _ = result.hit_rate


@shaped("ordinary")
def test_run_sees_the_client_that_left(kv: Runner, wire: Wire) -> None:
    prompt = fresh(600)
    with kv.measure() as left:
        leave(wire.url, prompt, max_tokens=4000, after=hear_three_chunks)
    assert (left.result.query_tokens, left.result.hit_tokens) == (600, 0)


# --- two engines -----------------------------------------------------------------------------------------------------


def pinned(wire: Wire, rank: int) -> Wire:
    wire.more = {"X-data-parallel-rank": str(rank)}
    return wire


@shaped("two engines")
def test_rows_of_two_engines_add_up(wire: Wire, page: Counters) -> None:
    prompt = fresh(600)
    with page.window() as found:
        assert [cached(pinned(wire, rank).complete(prompt)[1]) for rank in (0, 0, 1)] == [0, reusable(600), 0]
    assert {name: (tokens.query, tokens.hit) for name, tokens in found.items()} == {
        "0": (1200, reusable(600)),
        "1": (600, 0),
    }


@shaped("two engines")
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("rate", [0, 0.3, 0.7])
@pytest.mark.parametrize("length", [1024, 1001])
def test_pinned_to_one_engine_all_agree_to_the_token(
    kv_settings: Settings,
    kv_workload: WorkloadBuilder,
    request: pytest.FixtureRequest,
    length: int,
    rate: float,
    rank: int,
) -> None:
    settings = dataclasses.replace(kv_settings, headers=(("X-data-parallel-rank", str(rank)),))
    state = TestState(f"{length} {rate} {rank}", Expectation(tol=0.0), "pinned", 1)
    kv = Runner(settings.connect(settings.endpoint or ""), settings, state, request.node)
    result = kv.run(kv_workload.shared_prefix(8, length, rate, prefixes=2, output_len=2, align=None), concurrency=8)
    by_hand = 8 * (min(round(rate * length), length - 1) // BLOCK * BLOCK)
    rows = {name: (tokens.query, tokens.hit) for name, tokens in result.engines.items()}
    assert rows == {str(rank): (8 * length, by_hand), str(1 - rank): (0, 0)}
    assert sum(e.cached_tokens or 0 for e in result.exchanges) == by_hand
    result.verdict.check()


@shaped("two engines")
def test_spread_over_two_engines_the_prefix_is_computed_twice(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    result = kv.run(kv_workload.shared_prefix(16, 1024, 0.5, output_len=2), concurrency=1)
    rows = result.engines
    assert set(rows) == {"0", "1"}
    assert min(tokens.query for tokens in rows.values()) > 0  # the balancer does not look at the cache
    assert sum(tokens.query for tokens in rows.values()) == result.query_tokens == 16 * 1024
    assert sum(tokens.hit for tokens in rows.values()) == result.hit_tokens == 15 * 512  # prefill warmed one of them
    assert result.predicted == 0.5
    assert "KV308" in {f.code for f in result.verdict.findings}
    waterfall = result.measurement.waterfall
    assert waterfall is not None
    assert {loss.cause: loss.tokens for loss in waterfall.losses} == {"routing": 512}


# --- a tier behind the cache -----------------------------------------------------------------------------------------


@shaped("connector")
def test_local_and_external_hits_of_a_prompt(wire: Wire, page: Counters) -> None:
    prompt = fresh(600)
    for local, external in ((0, 0), (576, 0), (0, 576)):
        if external:
            assert wire.post("/reset_prefix_cache", {}) == (200, {"success": True})
        with page.window() as found:
            reply = wire.complete(prompt)[1]
        tokens = total(found)
        assert (tokens.query, tokens.of("local"), tokens.of("external"), tokens.hit) == (
            600,
            local,
            external,
            local + external,
        )
        assert cached(reply) == local + external


def send_cold_local_external(wire: Wire) -> None:
    """One prompt of 600 tokens four times: nowhere, in the cache, behind it after a reset, in the cache again."""
    prompt = fresh(600)
    for step in range(4):
        if step == 2:
            assert wire.post("/reset_prefix_cache", {}) == (200, {"success": True})
        wire.complete(prompt)


@shaped("connector")
@pytest.mark.parametrize(
    "hits",
    [
        pytest.param(2 * 576, marks=pytest.mark.hit_rate(target=2 * 576 / 2400, tol=0.0, tier="local"), id="local"),
        pytest.param(576, marks=pytest.mark.hit_rate(target=576 / 2400, tol=0.0, tier="external"), id="external"),
        pytest.param(3 * 576, marks=pytest.mark.hit_rate(target=3 * 576 / 2400, tol=0.0), id="total"),
    ],
)
def test_rate_of_each_tier_is_right_to_the_token(kv: Runner, wire: Wire, hits: int) -> None:
    with kv.measure() as measured:
        send_cold_local_external(wire)
    assert (measured.result.hit_tokens, measured.result.query_tokens) == (hits, 2400)


@shaped("connector")
def test_reset_says_that_the_tier_behind_survives(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    result = kv.run(kv_workload.shared_prefix(2, 640, 0.5, output_len=1), reset="auto", concurrency=1)
    assert "external still hit" in result.measurement.cache_state
