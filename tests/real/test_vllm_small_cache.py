"""A real vLLM whose cache is too small: what is evicted, what that costs, and how the report finds it out."""

from __future__ import annotations

import dataclasses
import random
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from pytest_kvcache import Endpoint, Runner, Settings, WorkloadBuilder
from pytest_kvcache.traces import open_trace

from ..engine.wire import Wire, cached
from .prompts import fresh, total
from .server import VllmServer

if TYPE_CHECKING:
    from .conftest import Counters

AGENTIC = Path(__file__).parent.parent / "data" / "traces" / "agentic_8_sessions_block64.jsonl.gz"
BLOCK = 32
BLOCKS = 100  # one of them vLLM keeps for itself
SMALL = ("--max-model-len=2048", "--max-num-seqs=8", f"--num-gpu-blocks-override={BLOCKS}")


@pytest.fixture(scope="module")
def served(vllm_venv: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    log = tmp_path_factory.mktemp("vllm") / "vllm.log"
    with VllmServer(tiny_model, log, venv=vllm_venv, block_size=BLOCK, arguments=SMALL) as server:
        yield server


@pytest.fixture(scope="module")
def kv_settings(kv_settings: Settings, served: VllmServer) -> Settings:
    return dataclasses.replace(kv_settings, endpoint=served.url)


@pytest.fixture(scope="module")
def kv_endpoint(kv_settings: Settings) -> Endpoint:
    """Of this module: the plugin's own is made once a session, from whichever settings were asked for first."""
    return kv_settings.connect(kv_settings.endpoint or "")


@pytest.fixture
def wire(served: VllmServer) -> Wire:
    return Wire(served.url, "vllm:")


@pytest.fixture
def page(served: VllmServer, counters: Callable[[str, str], Counters]) -> Counters:
    return counters(served.url, "vllm")


class LeastRecent:
    """A cache of full blocks by hand: the least recent goes first, of one prompt its last block before its first."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.kept: OrderedDict[tuple[int, ...], None] = OrderedDict()  # a block is all tokens up to its end

    def hits(self, prompt: Sequence[int]) -> int:
        """Return the hit tokens of a prompt that is answered with one token, and keep its blocks."""
        full = [tuple(prompt[: end * BLOCK]) for end in range(1, len(prompt) // BLOCK + 1)]
        found = 0
        while found < (len(prompt) - 1) // BLOCK and full[found] in self.kept:
            found += 1
        for block in reversed(full):
            self.kept[block] = None
            self.kept.move_to_end(block)
        while len(self.kept) > self.blocks:
            self.kept.popitem(last=False)
        return found * BLOCK


def test_evictions_are_those_of_the_least_recent(wire: Wire, page: Counters) -> None:
    random_order = random.Random(7)
    prefixes = [fresh(480) for _ in range(9)]  # 135 blocks: more than there are
    assert wire.post("/reset_prefix_cache", {}) == (200, {"success": True})
    oracle = LeastRecent(BLOCKS - 1)
    expected: list[int] = []
    seen: list[int] = []
    with page.window() as found:
        for _ in range(60):
            prompt = prefixes[min(random_order.randrange(9), random_order.randrange(9))] + fresh(120)
            expected.append(oracle.hits(prompt))
            seen.append(cached(wire.complete(prompt)[1]) or 0)
    assert all(abs(e - s) <= BLOCK for e, s in zip(expected, seen, strict=True)), list(zip(expected, seen, strict=True))
    assert total(found).hit == sum(seen)
    assert 0 < seen.count(480) < 60 - len(prefixes)  # some came back, some were evicted


def test_rate_under_evictions_is_below_the_prediction(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    # Ten prefixes of 15 blocks in turn: each is gone before its turn comes again.
    result = kv.run(kv_workload.shared_prefix(20, 600, prefix_len=480, prefixes=10, output_len=1), concurrency=1)
    assert result.predicted == pytest.approx(480 / 600)
    assert result.hit_tokens <= 20 * BLOCK
    assert result.verdict.ceiling == pytest.approx(480 / 600)


def test_preempted_generations_are_counted_once(kv: Runner, kv_workload: WorkloadBuilder, wire: Wire) -> None:
    before = wire.sample("num_preemptions_total")
    result = kv.run(kv_workload.shared_prefix(8, 300, 0.0, output_len=700), concurrency=8)
    assert (result.query_tokens, result.hit_tokens) == (8 * 300, 0)
    pressure = result.measurement.pressure
    assert pressure is not None
    assert pressure.preemptions == wire.sample("num_preemptions_total") - before
    assert pressure.preemptions > 0
    # A server that is busy streaming answers a scrape late, so what a short load's peaks show is not fixed.
    assert pressure.kv_usage_peak is not None
    assert 0.0 <= pressure.kv_usage_peak <= 1.0
    assert pressure.samples >= 2


@pytest.mark.parametrize(("selection", "some"), [("round_robin", False), ("random", True)])
@pytest.mark.hit_rate(max=0.6)
def test_set_that_is_larger_than_the_cache(
    kv: Runner, kv_workload: WorkloadBuilder, selection: Literal["round_robin", "random"], some: bool
) -> None:
    shape = kv_workload.working_set(4800, context=480, hit_rate=0.8, requests=30, selection=selection, output_len=1)
    result = kv.run(shape, concurrency=1)
    assert result.predicted == pytest.approx(384 / 480)
    assert any(e.cached_tokens for e in result.exchanges) == some
    waterfall = result.measurement.waterfall
    assert waterfall is not None
    assert (waterfall.ceiling, waterfall.measured) == (30 * 384, result.hit_tokens)
    (loss,) = waterfall.losses
    assert (loss.cause, loss.tokens) == ("eviction", 30 * 384 - result.hit_tokens)


@pytest.mark.hit_rate(tol=0.0)
def test_set_that_fits(kv: Runner, kv_workload: WorkloadBuilder) -> None:
    shape = kv_workload.working_set(tokens=1440, context=480, hit_rate=0.8, requests=9, output_len=1)
    result = kv.run(shape, concurrency=1)
    assert result.hit_tokens == 9 * 384
    assert result.measurement.waterfall is not None
    assert result.measurement.waterfall.of("eviction") == 0


def test_capacity_is_found_to_a_block(kv: Runner) -> None:
    found = kv.probe.capacity(at_most=2 * BLOCKS * BLOCK)
    usable = (BLOCKS - 1) * BLOCK
    assert (found.survived, found.lost, found.told) == (usable, usable + BLOCK, usable)


@pytest.mark.hit_rate(target="simulated", tol=0.03)
def test_trace_that_does_not_fit(kv: Runner) -> None:
    trace = open_trace(AGENTIC, order="time").scaled(1)  # eight sessions at once
    result = kv.replay(trace, users=1, output_len=1)
    assert result.predicted is not None
    assert result.simulated is not None
    assert result.simulated < result.predicted
    waterfall = result.measurement.waterfall
    assert waterfall is not None
    assert waterfall.measured == result.hit_tokens
    assert waterfall.ceiling - waterfall.measured == sum(loss.tokens for loss in waterfall.losses)
    assert waterfall.of("eviction") > 0
