"""A real llama.cpp server reuses token by token: its counters, usage, timings and our prediction agree on how many."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_kvcache import Endpoint, Runner, Settings, WorkloadBuilder
from pytest_kvcache.engines import shipped
from pytest_kvcache.errors import MeasurementError
from pytest_kvcache.model import Expectation, Tokens
from pytest_kvcache.plugin.state import TestState

from ..engine.wire import Wire, cached
from .llamacpp import LlamaServer

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Counters

ENGINE = "llamacpp"
SLOTS = 2
ERASABLE = ("--slot-save-path", "/tmp")  # without it the route answers 501; nothing is saved by these tests
FORGETFUL = (*ERASABLE, "--cache-ram", "0")


def ids(count: int, seed: int) -> list[int]:
    """Return token ids that share nothing with those of another seed, not even by chance at the start."""
    rest = random.Random(seed)
    return [300 + seed, *(rest.randrange(300, 4000) for _ in range(count - 1))]


# --- what the server counts, without a run ---------------------------------------------------------------------------


class Engine:
    """A server of the test's own, and its counters."""

    def __init__(self, server: LlamaServer, counters: Callable[[str, str], Counters]) -> None:
        self.wire = Wire(server.url)
        self.counters = counters(server.url, ENGINE)

    def send(self, prompt: object, max_tokens: int = 1, **more: object) -> tuple[Any, Tokens]:
        """Return the answer to a completion, and what the counters say of it."""
        with self.counters.window() as found:
            status, reply = self.wire.complete(prompt, max_tokens, **more)
        assert status == 200, reply
        return reply, found["0"]

    def erase(self) -> None:
        for slot in range(SLOTS):
            assert self.wire.post(f"/slots/{slot}?action=erase", {})[0] == 200


@pytest.fixture
def engine(llama: Callable[..., LlamaServer], counters: Callable[[str, str], Counters]) -> Callable[..., Engine]:
    return lambda *arguments: Engine(llama(*arguments), counters)


def agreed(reply: Any, tokens: Tokens) -> int:
    """Return the hit tokens on which counters, usage and timings agree, after checking that they do."""
    usage, timings = reply["usage"], reply["timings"]
    assert tokens.query == usage["prompt_tokens"] == timings["cache_n"] + timings["prompt_n"]
    assert tokens.hit == cached(reply) == timings["cache_n"]
    return tokens.hit


def test_identical_repeat_computes_one_token(engine: Callable[..., Engine]) -> None:
    server = engine()
    for seed, length in enumerate([1, 2, 31, 32, 33, 100, 500, 1000]):
        prompt = ids(length, seed)
        assert agreed(*server.send(prompt)) == 0
        assert agreed(*server.send(prompt)) == length - 1
        assert agreed(*server.send(prompt)) == length - 1


@pytest.mark.parametrize("shared", [100, 255, 256, 400, 499, 500])
def test_shared_prefix_is_reused_to_the_token(engine: Callable[..., Engine], shared: int) -> None:
    server = engine()
    first = ids(500, 0)
    server.send(first)
    assert agreed(*server.send(first[:shared] + ids(500, 1)[shared:])) == min(shared, 499)


def test_prefix_of_less_than_a_tenth_takes_another_slot_and_is_lost(engine: Callable[..., Engine]) -> None:
    server = engine()
    first = ids(500, 0)
    server.send(first)
    assert agreed(*server.send(first[:32] + ids(468, 1))) == 0


def test_slot_is_overwritten_from_where_two_prompts_part(engine: Callable[..., Engine]) -> None:
    server = engine()
    first = ids(500, 0)
    server.send(first)
    assert agreed(*server.send(first[:400] + ids(100, 1))) == 400
    assert agreed(*server.send(first)) == 400  # so prompts that part late forget each other, whatever there is room for


def test_generated_tokens_are_reused_but_the_last(engine: Callable[..., Engine]) -> None:
    server = engine()
    prompt = ids(100, 0)
    body = {"prompt": prompt, "n_predict": 50, "temperature": 0, "ignore_eos": True, "return_tokens": True}
    status, reply = server.wire.post("/completion", body)
    assert status == 200
    said = reply["tokens"]
    assert len(said) == 50
    assert agreed(*server.send([*prompt, *said])) == 149


def test_the_denominator_is_cached_and_processed_together(engine: Callable[..., Engine]) -> None:
    server = engine()
    prompt = ids(600, 0)
    server.send(prompt)
    before = server.counters.snapshot()
    _, tokens = server.send(prompt)
    after = server.counters.snapshot()
    processed, reused = (
        after.series(f"llamacpp:{name}_total")[()] - before.series(f"llamacpp:{name}_total")[()]
        for name in ("prompt_tokens", "prompt_tokens_cached")
    )
    assert (processed, reused) == (1, 599)  # so hits / prompt_tokens would be 59,900 %
    assert (tokens.query, tokens.hit) == (600, 599)


def test_cache_prompt_false_is_looked_up_and_misses(engine: Callable[..., Engine]) -> None:
    server = engine()
    prompt = ids(600, 0)
    server.send(prompt)
    assert agreed(*server.send(prompt, cache_prompt=False)) == 0
    assert agreed(*server.send(prompt)) == 599  # what it computed is kept all the same


def test_chat_and_native_api_count_alike(engine: Callable[..., Engine]) -> None:
    server = engine()
    chat = {"messages": [{"role": "user", "content": "tell me of the cache " * 50}], "max_tokens": 2, "temperature": 0}
    native = {"prompt": ids(600, 0), "n_predict": 2, "temperature": 0}
    for path, body in (("/v1/chat/completions", chat), ("/completion", native)):
        hits = []
        for _ in range(2):
            with server.counters.window() as found:
                status, reply = server.wire.post(path, body)
            assert status == 200, reply
            timings = reply["timings"]
            assert found["0"].hit == timings["cache_n"]
            assert found["0"].query == timings["cache_n"] + timings["prompt_n"]
            hits.append((found["0"].query, found["0"].hit))
        (length, cold), (again, warm) = hits
        assert (cold, again, warm) == (0, length, length - 1)


def test_usage_of_a_list_of_prompts_covers_one_of_them(engine: Callable[..., Engine]) -> None:
    server = engine()
    reply, tokens = server.send([ids(300, 0), ids(300, 0)])
    assert reply["usage"]["prompt_tokens"] == 300
    assert tokens.query == 600


def test_erasing_every_slot_leaves_the_cache_in_memory(engine: Callable[..., Engine]) -> None:
    server = engine(*ERASABLE)
    prompts = [ids(600, seed) for seed in range(3)]  # one more than slots, so that one went to the cache in memory
    for prompt in prompts:
        server.send(prompt)
    server.erase()
    assert agreed(*server.send(prompts[0])) == 599


def test_erasing_every_slot_is_enough_without_that_cache(engine: Callable[..., Engine]) -> None:
    server = engine(*FORGETFUL)
    prompt = ids(600, 0)
    server.send(prompt)
    server.erase()
    assert agreed(*server.send(prompt)) == 0


def test_profile_knows_what_an_erasure_leaves() -> None:
    reset = shipped().get(ENGINE).reset
    assert reset is not None
    assert "--cache-ram" in reset.survives + reset.needs


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def served(
    request: pytest.FixtureRequest, llama_binary: Path, tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaServer]:
    """The server that is measured, with the arguments that a test parametrizes it with."""
    log = tmp_path_factory.mktemp("llama") / "llama-server.log"
    with LlamaServer(llama_binary, tiny_gguf, log, getattr(request, "param", ())) as server:
        yield server


@pytest.fixture(scope="session")
def kv_settings(kv_settings: Settings, served: LlamaServer) -> Settings:
    return dataclasses.replace(kv_settings, endpoint=served.url)


@pytest.fixture(scope="session")
def kv_endpoint(kv_settings: Settings) -> Endpoint:
    """Of this module: the plugin's own is made once a session, from whichever settings were asked for first."""
    return kv_settings.connect(kv_settings.endpoint or "")


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("send", ["ids", "text"])
@pytest.mark.parametrize("rate", [0, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("length", [256, 1001])
@pytest.mark.hit_rate(tol=0.0)
def test_counters_usage_and_prediction_agree_to_the_token(
    kv: Runner, kv_workload: WorkloadBuilder, length: int, rate: float, send: str, stream: bool
) -> None:
    workload = kv_workload.shared_prefix(
        requests=6, input_len=length, hit_rate=rate, output_len=2, align=None, send=send  # type: ignore[arg-type] # a Literal, parametrised
    )  # fmt: skip
    result = kv.run(workload, concurrency=1, stream=stream)
    counters, prediction = result.measurement.counters, result.measurement.prediction
    assert counters is not None
    assert prediction is not None
    by_hand = 6 * round(rate * length)  # tokens, not blocks
    assert counters.hit == prediction.hit_tokens == sum(e.cached_tokens or 0 for e in result.exchanges) == by_hand
    assert counters.query == prediction.query_tokens == 6 * length
    assert (prediction.block_size, prediction.exact) == (1, True)


@pytest.mark.hit_rate(tol=0.0)
def test_prefixes_that_no_slot_holds_come_back_from_memory(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    kv.run(kv_workload.shared_prefix(8, 800, 0.75, prefixes=2 * SLOTS, output_len=1), concurrency=1)


@pytest.mark.parametrize("served", [FORGETFUL], indirect=True, scope="session", ids=["without-cache-ram"])
def test_reset_is_verified_where_it_can_be(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    workload = kv_workload.shared_prefix(4, 800, 0.5, output_len=1, seed=1)
    for _ in range(2):
        result = kv.run(workload, reset="require", concurrency=1)
        assert result.hit_rate == 0.5
        assert result.measurement.cache_state.startswith("reset, verified by a probe")


@pytest.mark.parametrize("served", [ERASABLE], indirect=True, scope="session", ids=["with-cache-ram"])
def test_reset_says_that_the_cache_in_memory_survives(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    # No probe can see it: a prompt goes to that cache only when another takes its slot.
    workload = kv_workload.shared_prefix(4, 800, 0.5, output_len=1)
    assert "--cache-ram" in kv.run(workload, reset="auto", concurrency=1).measurement.cache_state


def test_own_traffic_by_counters(kv: Runner, kv_endpoint: Endpoint) -> None:
    server, prompt = Wire(kv_endpoint.url), ids(700, 77)
    with kv.measure() as cold:
        server.complete(prompt)
    with kv.measure() as warm:
        server.complete(prompt)
    assert (cold.result.hit_tokens, warm.result.hit_tokens, warm.result.query_tokens) == (0, 699, 700)


@pytest.mark.parametrize(("source", "code"), [("counters", None), ("usage", "KV111")], ids=["by-counters", "by-usage"])
@pytest.mark.parametrize("form", ["ids", "text"])
def test_run_with_lists_of_prompts(
    kv_endpoint: Endpoint,
    kv_settings: Settings,
    kv_workload: WorkloadBuilder,
    request: pytest.FixtureRequest,
    source: Literal["counters", "usage"],
    code: str | None,
    form: str,
) -> None:
    # The usage of a list covers one of its prompts. Ids are counted all the same; of texts nobody knows the length.
    state = TestState(source, Expectation(min=0.0, source=source), "list", 1)
    kv = Runner(kv_endpoint, kv_settings, state, request.node)
    prompts = [ids(300, 80), ids(300, 81)] if form == "ids" else ["one two three " * 40, "four five six " * 40]
    workload = kv_workload.requests([{"prompt": prompts, "max_tokens": 1}], api="completions")
    result = kv.run(workload, concurrency=1, stream=False)
    if form == "ids" and code is None:
        assert (result.query_tokens, result.verdict.source) == (600, "counters")
    else:
        assert result.verdict.status == "inconclusive"
        assert result.verdict.findings[0].code == "KV111"
        with pytest.raises(MeasurementError):
            _ = result.hit_rate


# --- chats and probes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.3, 0.7])
@pytest.mark.hit_rate(tol=0.0)
def test_chats_agree_to_the_token(kv: Runner, kv_workload: WorkloadBuilder, rate: float) -> None:
    result = kv.run(kv_workload.shared_prefix(6, 501, rate, output_len=2, align=None, send="chat"), concurrency=1)
    prediction = result.measurement.prediction
    assert prediction is not None
    assert (prediction.exact, prediction.slack) == (True, 0)
    assert (result.hit_tokens, result.query_tokens) == (prediction.hit_tokens, 6 * 501)
    assert result.hit_tokens == 6 * round(rate * 501)


@pytest.mark.parametrize("sessions", [1, 3])  # with three, one is always in memory instead of a slot
@pytest.mark.hit_rate(min=0.5, skip_turns=1)
def test_conversations_reuse_what_is_between_the_bounds(
    kv: Runner, kv_workload: WorkloadBuilder, sessions: int
) -> None:
    shape = kv_workload.conversation("You name colours. " * 12, turns=5, sessions=sessions, max_tokens=16)
    result = kv.run(shape, concurrency=1)
    prediction = result.measurement.prediction
    assert prediction is not None
    for e, least, room in zip(result.exchanges, prediction.per_request, prediction.room, strict=True):
        assert least <= (e.cached_tokens or 0) <= least + room
    assert result.turns.as_predicted(), result.turns.as_predicted()
    assert result.turns.skip(1).grows(), result.turns.skip(1).grows()
    assert result.measurement.counters is not None
    assert result.measurement.counters.hit == sum(e.cached_tokens or 0 for e in result.exchanges)


def test_granularity_is_one_token(kv: Runner) -> None:
    found = kv.probe.granularity(up_to=512)
    assert (found.step, found.full_hit, found.told) == (1, "L-1", 1)


def test_warm_answers_are_the_cold_ones(kv: Runner) -> None:
    found = kv.probe.equivalence(prompts=4, output=8, tol=0.01)  # 0.0002 were measured; another context: 0.06 and more
    assert found.wrong == ()
    assert found.logprobs is not None
