"""A real Prometheus that scrapes simulated engines says what their own pages say, and when it read them."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio

from pytest_kvcache.client import Client
from pytest_kvcache.endpoint import Endpoint, MetricsSource
from pytest_kvcache.errors import CounterReset, EndpointError, KVCacheError
from pytest_kvcache.scrape import Snapshot, delta, page, prometheus
from pytest_kvcache.simulate.process import SimProcess

from ..conftest import FAST
from ..engine.wire import Wire
from .prometheus import BINARY_VARIABLE, Job, Prometheus

PROMPTS, HITS, RUNNING = "sim:prompt_tokens_total", "sim:prefix_cache_hits_total", "sim:num_requests_running"
NAMES = (
    *(PROMPTS, HITS, RUNNING, "sim:prefix_cache_queries_total", "sim:prompt_tokens_by_source_total"),
    *(f"sim:{name}{part}" for name in ("request_prompt_tokens", "e2e_request_latency_seconds")
      for part in ("_bucket", "_sum", "_count")),
    *("sim:cache_config_info", "process_start_time_seconds"),
)  # fmt: skip
COARSE = 20  # the first scrape comes anywhere within the interval: of so many, one comes soon
DEADLINE = 60.0


@pytest.fixture(scope="module")
def binary() -> Path:
    """The program. A wrong path in the variable is an error; none at all is a skip."""
    named = os.environ.get(BINARY_VARIABLE)
    found = named or shutil.which("prometheus")
    if found is None:
        pytest.skip(f"no Prometheus here: set {BINARY_VARIABLE} to what tests/real/install_prometheus.sh DIR prints")
    if not os.access(found, os.X_OK):
        pytest.fail(f"{BINARY_VARIABLE}={named} is no program: run tests/real/install_prometheus.sh DIR", pytrace=False)
    return Path(found)


@pytest.fixture(scope="module")
def engines(binary: Path) -> Iterator[dict[str, SimProcess]]:
    """Simulated engines by the job that scrapes them."""
    with SimProcess(*FAST) as steady, SimProcess(*FAST) as restarted, SimProcess(*FAST) as stopped:
        yield {"steady": steady, "restarted": restarted, "stopped": stopped}


@pytest.fixture(scope="module")
def server(binary: Path, engines: dict[str, SimProcess]) -> Iterator[Prometheus]:
    """A Prometheus below a path: the engines, one that never was there, and jobs that are scraped once a minute."""
    with socket.socket() as nobody:  # bound and not listening
        nobody.bind(("127.0.0.1", 0))
        jobs = {name: Job((engine.url,)) for name, engine in engines.items()}
        jobs["both"] = Job((engines["steady"].url, engines["restarted"].url))
        jobs["dead"] = Job((f"127.0.0.1:{nobody.getsockname()[1]}",))
        jobs |= {f"coarse{number}": Job((engines["steady"].url,), "1m") for number in range(COARSE)}
        with Prometheus(binary, jobs, prefix="/behind/a/proxy") as running:
            yield running


@pytest_asyncio.fixture
async def client(engines: dict[str, SimProcess]) -> AsyncIterator[Client]:
    async with Client(Endpoint(engines["steady"].url)) as opened:
        yield opened


@pytest.fixture
def source(server: Prometheus) -> Callable[[str], MetricsSource]:
    return lambda match: MetricsSource(server.url, kind="prometheus", match=match)


async def until(read: Callable[[], Awaitable[Snapshot]], holds: Callable[[Snapshot], bool]) -> Snapshot:
    """Read until it holds; what is not there yet may come (a new target is first seen after some seconds)."""
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            snapshot = await read()
            if holds(snapshot):
                return snapshot
        except KVCacheError:
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.05)


async def fresh(client: Client, source: MetricsSource, names: tuple[str, ...] = NAMES) -> Snapshot:
    """Return scrapes that all began after the call."""
    asked = await prometheus.now(client, source)
    return await until(lambda: prometheus.fetch(client, source, names), lambda found: (found.taken or 0) > asked)


def complete(url: str, first: int, tokens: int = 100) -> None:
    body = {"model": "sim", "prompt": list(range(first, first + tokens)), "max_tokens": 2}
    assert Wire(url, model="sim").raw("/v1/completions", body) == 200


def without_target(snapshot: Snapshot) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (name, tuple(pair for pair in labels if pair[0] not in ("job", "instance"))): value
        for (name, labels), value in snapshot.samples.items()
    }


@pytest.mark.asyncio
async def test_a_fresh_scrape_is_the_page(
    client: Client, source: Callable[[str], MetricsSource], engines: dict[str, SimProcess]
) -> None:
    engine, steady = engines["steady"].url, source('job="steady"')
    before = await fresh(client, steady)
    for first in (100, 100, 300):
        complete(engine, first)
    after = await fresh(client, steady)
    assert sum(delta(before, after, PROMPTS).values()) == 300
    assert sum(delta(before, after, HITS).values()) == 96  # of the repeat: floor(99/16) blocks of 16
    own = await page.fetch(client, MetricsSource(f"{engine}/metrics"), NAMES)
    assert without_target(after) == own.samples
    assert any(name.endswith("_bucket") for name, _ in own.samples)
    instance = engine.removeprefix("http://")
    assert all(("job", "steady") in labels and ("instance", instance) in labels for _, labels in after.samples)


@pytest.mark.asyncio
async def test_many_names_take_several_queries_and_give_the_same(
    client: Client, source: Callable[[str], MetricsSource]
) -> None:
    many = (*(f"vllm:a_name_that_nobody_has_{number}_total" for number in range(300)), *NAMES)
    found = await fresh(client, source('job="steady"'), many)
    assert without_target(found).keys() == without_target(await fresh(client, source('job="steady"'))).keys()


@pytest.mark.asyncio
async def test_every_request_before_now_is_in_a_scrape_taken_after_it(
    client: Client, source: Callable[[str], MetricsSource], engines: dict[str, SimProcess]
) -> None:
    steady = source('job="steady"')
    seen = [await fresh(client, steady, (PROMPTS,))]
    for _ in range(4):
        complete(engines["steady"].url, 500, 7)
        seen.append(await fresh(client, steady, (PROMPTS,)))
    taken = [snapshot.taken or 0.0 for snapshot in seen]
    assert taken == sorted(set(taken))
    for before, after in pairwise(seen):
        assert sum(delta(before, after, PROMPTS).values()) == 7


@pytest.mark.asyncio
async def test_the_interval_is_measured(client: Client, source: Callable[[str], MetricsSource]) -> None:
    steady = source('job="steady"')
    await fresh(client, steady)
    await fresh(client, steady)  # two scrapes: a spacing
    assert await prometheus.check_interval(client, steady) == pytest.approx(1.0, abs=0.2)


@pytest.mark.asyncio
async def test_a_minute_between_scrapes_is_too_coarse(client: Client, source: Callable[[str], MetricsSource]) -> None:
    coarse = source('job=~"coarse.+"')
    await until(lambda: prometheus.fetch(client, coarse, (PROMPTS,)), lambda found: found.has(PROMPTS))
    with pytest.raises(EndpointError, match=r"/behind/a/proxy scrapes every 60 s \(.*at most 30 s, or name the engine"):
        await prometheus.check_interval(client, coarse)


@pytest.mark.asyncio
async def test_an_engine_that_restarts_is_seen(
    client: Client, source: Callable[[str], MetricsSource], engines: dict[str, SimProcess]
) -> None:
    complete(engines["restarted"].url, 100)
    before = await fresh(client, source('job="restarted"'))
    assert Wire(engines["restarted"].url).post("/restart", {})[0] == 200
    after = await fresh(client, source('job="restarted"'))
    with pytest.raises(CounterReset, match=r'job="restarted".* fell from 100 to 0'):
        delta(before, after, PROMPTS)


@pytest.mark.asyncio
async def test_an_engine_that_stops_is_an_error(
    client: Client, source: Callable[[str], MetricsSource], engines: dict[str, SimProcess]
) -> None:
    await fresh(client, source('job="stopped"'))
    engines["stopped"].stop()
    await refused(client, source('job="stopped"'), r'could not scrape instance=".*",job="stopped" the last time')


@pytest.mark.asyncio
async def test_an_engine_that_was_never_there_is_an_error(
    client: Client, source: Callable[[str], MetricsSource]
) -> None:
    await refused(
        client, source('job="dead"'), r'could not scrape instance=".*",job="dead" the last time.*It knows instance='
    )


async def refused(client: Client, source: MetricsSource, said: str) -> None:
    """Wait for an error that says so: the scrape that shows it may be yet to come."""
    deadline = time.monotonic() + DEADLINE
    message = ""
    while not re.search(said, message):
        assert time.monotonic() < deadline, message
        try:
            await prometheus.fetch(client, source, NAMES)
        except EndpointError as error:
            message = str(error)
        await asyncio.sleep(0.05)


@pytest.mark.asyncio
async def test_matchers_that_nothing_matches(client: Client, source: Callable[[str], MetricsSource]) -> None:
    await fresh(client, source('job="steady"'))
    with pytest.raises(EndpointError, match=r'no target that matches \{job="typo"\}.*it knows instance='):
        await prometheus.fetch(client, source('job="typo"'), NAMES)
    with pytest.raises(EndpointError, match=r"refused a query \(bad_data\): .*parse error"):
        await prometheus.fetch(client, source("job=typo"), NAMES)


@pytest.mark.asyncio
async def test_a_target_that_leaves_is_left_out(
    client: Client, source: Callable[[str], MetricsSource], server: Prometheus
) -> None:
    both = source('job="both"')

    def targets(snapshot: Snapshot) -> int:
        return len(snapshot.label(PROMPTS, "instance"))

    def read() -> Awaitable[Snapshot]:
        return prometheus.fetch(client, both, NAMES)

    before = await until(read, lambda found: targets(found) == 2)
    server.reload({**server.jobs, "both": server.jobs["steady"]})
    after = await until(read, lambda found: targets(found) == 1)
    assert (after.taken or 0) > (before.taken or 0)
    with pytest.raises(CounterReset, match=r'job="both".* is gone'):
        delta(before, after, PROMPTS)


PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA")
CHECK = """
import pytest

@pytest.mark.hit_rate(target=0.5, tol=0.0)
def test_shared(kv, kv_workload):
    kv.run(kv_workload.shared_prefix(requests=8, input_len=256, hit_rate=0.5, prefixes=2, output_len=2))
"""


def test_a_hit_rate_is_asserted_through_prometheus(binary: Path, tmp_path: Path) -> None:
    (tmp_path / "test_check.py").write_text(CHECK, encoding="utf-8")
    settings = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
    (tmp_path / "pytest.ini").write_text(settings, encoding="utf-8")
    with SimProcess(*FAST) as engine, Prometheus(binary, {"engine": Job((engine.url,))}) as server:
        server.wait_until_scraped()
        run = subprocess.run(
            [*PYTEST, f"--kv-endpoint={engine.url}", f"--kv-metrics=prometheus+{server.url}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout
